"""Prototxts out of Python values: dicts are messages, lists repeated fields, Enum members bare words."""


class Enum(str):
    """A name that is written without quotes: MAX, LMDB, TRAIN."""


def _scalar(value):
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value)


def text(message, indent=""):
    """The lines of a message, in the order of its keys; a message of few short fields stays on one line."""
    lines = []
    for key, values in message.items():
        for value in values if isinstance(values, list) else [values]:
            if not isinstance(value, dict):
                lines.append(f"{indent}{key}: {_scalar(value)}")
                continue
            inner = text(value, indent + "  ")
            short = f"{indent}{key} {{ {' '.join(line.strip() for line in inner)} }}"
            if len(short) <= 90 and key != "layer" and not any("{" in line for line in inner):
                lines.append(short)
            else:
                lines += [f"{indent}{key} {{", *inner, f"{indent}}}"]
    return lines
