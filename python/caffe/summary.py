"""net.summary(): what a net is and costs, as text and, in a notebook, as a table."""

import html
import json


class Summary:
    """Prints as a table; notebooks show it as HTML; `data` holds the numbers."""

    def __init__(self, text, data):
        self._text = text
        self.data = data

    def __repr__(self):
        return self._text

    def _repr_html_(self):
        layers = self.data.get("layers", [])
        if not layers:
            return "<pre>{}</pre>".format(html.escape(self._text))
        names = list(layers[0])
        head = "".join("<th>{}</th>".format(html.escape(name.replace("_", " "))) for name in names)
        rows = "".join(
            "<tr>{}</tr>".format("".join("<td>{}</td>".format(_cell(layer.get(name))) for name in names))
            for layer in layers
        )
        return "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>".format(head, rows)


def _cell(value):
    if isinstance(value, (list, dict)):
        value = json.dumps(value)
    return html.escape("{:,}".format(value) if isinstance(value, int) else str(value))


def summary(net):
    """The net's layers with their shapes, parameters, multiply-adds and memory."""
    return Summary(net._summary_text(), json.loads(net._summary_json()))
