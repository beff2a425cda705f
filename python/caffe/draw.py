"""Pictures of nets: boxes are layers, octagons are blobs.

The text of the graph is written here, so no package is needed; Graphviz's program `dot` makes pictures of it.

>>> from google.protobuf import text_format
>>> net = text_format.Parse('''name: "Small"
...     layer { name: "data" type: "Input" top: "data" }
...     layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 10 } }
...     ''', caffe_pb2.NetParameter())
>>> print(draw_net(net, 'LR', ext='dot').decode(), end='')
digraph "Small" {
  rankdir=LR;
  "data_Input" [label="data\\n(Input)", fillcolor="#6495ED", shape=record, style=filled];
  "data_blob" [label="data", fillcolor="#E0E0E0", shape=octagon, style=filled];
  "ip_InnerProduct" [label="ip\\n(InnerProduct)", fillcolor="#CC33FF", shape=record, style=filled];
  "ip_blob" [label="ip", fillcolor="#E0E0E0", shape=octagon, style=filled];
  "data_Input" -> "data_blob";
  "data_blob" -> "ip_InnerProduct";
  "ip_InnerProduct" -> "ip_blob" [label="10"];
}
"""

from __future__ import annotations

import re
import subprocess
from typing import Any, Optional

from .proto import caffe_pb2

__all__ = ["BLOB_STYLE", "Graph", "LAYER_STYLE_DEFAULT", "NEURON_LAYER_STYLE", "choose_color_by_layertype", "draw_net",
           "draw_net_to_file", "get_edge_label", "get_layer_label", "get_layer_lr_mult", "get_pooling_types_dict",
           "get_pydot_graph"]

LAYER_STYLE_DEFAULT = {"shape": "record", "fillcolor": "#6495ED", "style": "filled"}
NEURON_LAYER_STYLE = {"shape": "record", "fillcolor": "#90EE90", "style": "filled"}
BLOB_STYLE = {"shape": "octagon", "fillcolor": "#E0E0E0", "style": "filled"}

_COLORS = {"Convolution": "#FF5050", "Deconvolution": "#FF5050", "Pooling": "#FF9900", "InnerProduct": "#CC33FF"}
_TEXT_FORMATS = ("dot", "gv", "raw")


class Graph:
    """A directed graph in Graphviz's language, with those methods of pydot's Dot that scripts use."""

    def __init__(self, name: str, rankdir: str) -> None:
        self.name = name
        self.rankdir = rankdir
        self.nodes: dict[str, dict[str, str]] = {}  # name -> attributes
        self.edges: list[tuple[str, str, str]] = []  # (from, to, label)

    def add_node(self, name: str, label: str, style: dict[str, str]) -> None:
        self.nodes[name] = dict(style, label=label)

    def add_edge(self, source: str, target: str, label: str = "") -> None:
        self.edges.append((source, target, label))

    def to_string(self) -> str:
        """The text that `dot` reads."""
        lines = ["digraph %s {" % _quoted(self.name), "  rankdir=%s;" % self.rankdir]
        for name, attributes in self.nodes.items():
            rest = ["%s=%s" % (key, _value(attributes[key])) for key in sorted(attributes) if key != "label"]
            label = attributes["label"]
            if attributes.get("shape") == "record":
                label = re.sub(r"([{}|<>])", r"\\\1", label)  # these divide a record into fields
            lines.append("  %s [%s];" % (_quoted(name), ", ".join(["label=" + _quoted(label)] + rest)))
        for source, target, label in self.edges:
            lines.append("  %s -> %s%s;" % (_quoted(source), _quoted(target), " [label=%s]" % _quoted(label) if label else ""))
        return "\n".join(lines + ["}"]) + "\n"

    def create(self, prog: str = "dot", format: str = "ps") -> bytes:
        """The drawn graph as bytes in a format that Graphviz knows (png, svg, pdf, ...), or its text ('dot')."""
        text = self.to_string().encode("utf-8")
        if format in _TEXT_FORMATS:
            return text
        try:
            drawn = subprocess.run([prog, "-T" + format], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except FileNotFoundError:
            raise RuntimeError('drawing %s needs the program "%s" of Graphviz: apt-get install graphviz; the text itself '
                               "needs nothing (a file name that ends in .dot)" % (format, prog)) from None
        if drawn.returncode != 0:
            raise RuntimeError('"%s -T%s" ended with code %d: %s' %
                               (prog, format, drawn.returncode, drawn.stderr.decode(errors="replace").strip()))
        return drawn.stdout

    def write(self, path: Any, prog: str = "dot", format: str = "raw") -> bool:
        """Writes the graph to a file."""
        data = self.create(prog, format)
        with open(path, "wb") as file:
            file.write(data)
        return True

    def create_png(self, prog: str = "dot") -> bytes:
        return self.create(prog, "png")

    def create_svg(self, prog: str = "dot") -> bytes:
        return self.create(prog, "svg")

    def write_png(self, path: Any, prog: str = "dot") -> bool:
        return self.write(path, prog, "png")

    def write_svg(self, path: Any, prog: str = "dot") -> bool:
        return self.write(path, prog, "svg")

    def _repr_svg_(self):  # a notebook shows the picture
        return self.create_svg().decode("utf-8")


def _quoted(text):
    """A string of Graphviz; `\\` stays, as it makes escapes there too."""
    return '"%s"' % text.replace('"', '\\"').replace("\n", "\\n")


def _value(text):
    return text if re.match(r"^\w+$", text) else _quoted(text)


def get_pooling_types_dict() -> dict[int, str]:
    """{number: name} of the pooling methods.

    >>> get_pooling_types_dict()[0]
    'MAX'
    """
    return {number: name for name, number in caffe_pb2.PoolingParameter.PoolMethod.items()}


def get_edge_label(layer: caffe_pb2.LayerParameter) -> str:
    """What a layer hands on: the channels of its top, or the batch of a Data layer; '' for all others."""
    if layer.type == "Data":
        return "Batch %d" % layer.data_param.batch_size
    if layer.type in ("Convolution", "Deconvolution"):
        return str(layer.convolution_param.num_output)
    if layer.type == "InnerProduct":
        return str(layer.inner_product_param.num_output)
    return ""


def get_layer_lr_mult(layer: caffe_pb2.LayerParameter) -> str:
    """The learning rate multipliers of the layer's blobs, as text."""
    return ", ".join("%g" % spec.lr_mult for spec in layer.param) or "1.0"


def _sizes(one, height, width, default):
    """Kernel, stride or pad as text: 3, or 3x5 where the axes differ."""
    if height or width:
        sizes = [height, width]
    else:
        sizes = (list(one) if hasattr(one, "__len__") else [one]) or [default]
    return str(sizes[0]) if len(set(sizes)) == 1 else "x".join(str(size) for size in sizes)


def _geometry(param, default_stride):
    return [
        "kernel size: " + _sizes(param.kernel_size, param.kernel_h, param.kernel_w, 1),
        "stride: " + _sizes(param.stride, param.stride_h, param.stride_w, default_stride),
        "pad: " + _sizes(param.pad, param.pad_h, param.pad_w, 0),
    ]


def get_layer_label(layer: caffe_pb2.LayerParameter, rankdir: str, display_lrm: bool = False) -> str:
    """Name, type and geometry of a layer: one below the other, or in one line where the graph goes from top to bottom."""
    parts = [layer.name, "(%s)" % layer.type]
    if layer.type in ("Convolution", "Deconvolution"):
        parts += _geometry(layer.convolution_param, 1)
    elif layer.type == "Pooling":
        parts[1] = "(%s %s)" % (get_pooling_types_dict()[layer.pooling_param.pool], layer.type)
        parts += ["global"] if layer.pooling_param.global_pooling else _geometry(layer.pooling_param, 1)
    if display_lrm and layer.type in ("Convolution", "Deconvolution", "InnerProduct"):
        parts.append("lr mult: " + get_layer_lr_mult(layer))
    return (" " if rankdir in ("TB", "BT") else "\n").join(parts)


def choose_color_by_layertype(layertype: str) -> str:
    """The fill color of a type's box."""
    return _COLORS.get(layertype, LAYER_STYLE_DEFAULT["fillcolor"])


def _is_drawn(layer, phase):
    if phase is None:
        return True
    if len(layer.include) > 0 and len(layer.exclude) > 0:
        raise ValueError("layer %s has both include and exclude specified." % layer.name)

    def names(rule):
        return not rule.HasField("phase") or rule.phase == phase

    if len(layer.include) > 0:
        return any(names(rule) for rule in layer.include)
    return not any(rule.HasField("phase") and rule.phase == phase for rule in layer.exclude)


def get_pydot_graph(caffe_net: caffe_pb2.NetParameter, rankdir: str, label_edges: bool = True, phase: Optional[int] = None,
                    display_lrm: bool = False) -> Graph:
    """The Graph of a NetParameter.

    rankdir: LR, RL, TB or BT; phase: None for all layers, or caffe.TRAIN or caffe.TEST for those of a phase; display_lrm: with
    learning rate multipliers.
    """
    if rankdir not in ("LR", "RL", "TB", "BT"):
        raise ValueError("rankdir is %r, and must be LR, RL, TB or BT" % (rankdir,))
    if len(caffe_net.layers) > 0:
        raise ValueError('the net has layers of the old kind ("layers {"); fix: carafe upgrade_net_proto_text OLD NEW')
    graph = Graph(caffe_net.name or "Net", rankdir)
    for layer in caffe_net.layer:
        if not _is_drawn(layer, phase):
            continue
        node = "%s_%s" % (layer.name, layer.type)
        if len(layer.bottom) == 1 and list(layer.bottom) == list(layer.top):
            style = NEURON_LAYER_STYLE
        else:
            style = dict(LAYER_STYLE_DEFAULT, fillcolor=choose_color_by_layertype(layer.type))
        graph.add_node(node, get_layer_label(layer, rankdir, display_lrm), style)
        for blob in list(layer.bottom) + list(layer.top):
            graph.add_node(blob + "_blob", blob, BLOB_STYLE)
        for blob in layer.bottom:
            graph.add_edge(blob + "_blob", node)
        for blob in layer.top:
            graph.add_edge(node, blob + "_blob", get_edge_label(layer) if label_edges else "")
    return graph


def draw_net(caffe_net: caffe_pb2.NetParameter, rankdir: str, ext: str = "png", phase: Optional[int] = None,
             display_lrm: bool = False) -> bytes:
    """The picture of a NetParameter as bytes; `ext` is png, svg, pdf or another format of Graphviz, or dot for the text."""
    return get_pydot_graph(caffe_net, rankdir, phase=phase, display_lrm=display_lrm).create(format=ext)


def draw_net_to_file(caffe_net: caffe_pb2.NetParameter, filename: Any, rankdir: str = "LR", phase: Optional[int] = None,
                     display_lrm: bool = False) -> None:
    """Draws a NetParameter into a file; the end of its name gives the format."""
    name = str(filename)
    data = draw_net(caffe_net, rankdir, name[name.rfind(".") + 1:], phase, display_lrm)
    with open(filename, "wb") as file:
        file.write(data)
