"""Line charts as SVG, by hand: panels one below the other over a common x axis, each with its legend on the right."""
import html
import math

WIDTH, HEIGHT = 620, 220  # of a panel's plot area
LEFT, TOP, GAP, BOTTOM, LEGEND = 76, 34, 62, 48, 300
# Hues that differ for colour-blind readers too; further curves of one log get lighter.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#444444")


def _lighter(color, shade):
    """The colour mixed with white, more for each shade."""
    keep = max(0.4, 1 - 0.3 * shade)
    parts = [int(color[i:i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - (255 - part) * keep):02x}" for part in parts)


class Curve:
    def __init__(self, name, points, color, dashed):
        self.name, self.points, self.color, self.dashed = name, points, color, dashed


class Panel:
    def __init__(self, title, y_log):
        self.title, self.y_log, self.curves = title, y_log, []

    def add(self, name, points, number, dashed, shade):
        color = _lighter(COLORS[number % len(COLORS)], shade)
        self.curves.append(Curve(name, points, color, dashed))

    def drawable(self, value):
        return math.isfinite(value) and (value > 0 or not self.y_log)


def ticks(low, high, count=6):
    """Round numbers 1, 2 or 5 times a power of ten that cover [low, high]."""
    step = 10 ** math.floor(math.log10((high - low) / count))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (factor * step) <= count)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low, high):
    """Powers of ten within [low, high]; also 2 and 5 times them where they are few."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5)):
        found = [f * 10.0 ** e for e in exponents for f in factors if low * 0.999 <= f * 10.0 ** e <= high * 1.001]
        if len(found) >= 3:
            break
    return found[::math.ceil(len(found) / 6)]


def _extent(values):
    low, high = min(values), max(values)
    if low == high:
        margin = abs(low) * 0.1 or 1.0
        return low - margin, high + margin
    return low, high


class _Scale:
    """From values to coordinates."""

    def __init__(self, values, log):
        self.log = log
        values = [math.log10(value) for value in values] if log else values
        low, high = _extent(values)
        margin = (high - low) * 0.05
        self.low, self.high = low - margin, high + margin

    def ticks(self):
        return log_ticks(10 ** self.low, 10 ** self.high) if self.log else ticks(self.low, self.high)

    def __call__(self, value):
        value = math.log10(value) if self.log else value
        return (value - self.low) / (self.high - self.low)


def _text(x, y, text, anchor="start", size=12, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {more}>{html.escape(text)}</text>'


def _segments(curve, panel):
    """Runs of points that can be drawn: a line breaks where the value is nan or infinite."""
    run = []
    for point in curve.points:
        if panel.drawable(point[1]):
            run.append(point)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _panel(panel, top, x_scale, last, x_label):
    right, bottom = LEFT + WIDTH, top + HEIGHT
    parts = [_text(LEFT, top - 10, panel.title + (" (logarithmic)" if panel.y_log else ""), size=14,
                   more='font-weight="bold"')]
    values = [value for curve in panel.curves for _, value in curve.points if panel.drawable(value)]
    y_scale = _Scale(values or [0.0 if not panel.y_log else 1.0], panel.y_log)

    def at(point):
        return LEFT + WIDTH * x_scale(point[0]), bottom - HEIGHT * y_scale(point[1])

    for tick in y_scale.ticks():
        y = bottom - HEIGHT * y_scale(tick)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#e0e0e0"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{tick:.4g}", "end"))
    for tick in x_scale.ticks():
        x = LEFT + WIDTH * x_scale(tick)
        parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="#f0f0f0"/>')
        parts.append(_text(x, bottom + 18, f"{tick:,.10g}", "middle"))
    parts.append(f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888888"/>')
    for number, curve in enumerate(panel.curves):
        dash = ' stroke-dasharray="6 3"' if curve.dashed else ""
        for run in _segments(curve, panel):
            if len(run) == 1 or (curve.dashed and len(run) <= 40):  # tests are few: show each
                for point in run:
                    x, y = at(point)
                    parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{curve.color}"/>')
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, run))
            parts.append(f'<polyline points="{line}" fill="none" stroke="{curve.color}" stroke-width="1.6"{dash}/>')
        y = top + 12 + 18 * number
        parts.append(f'<line x1="{right + 14}" y1="{y}" x2="{right + 42}" y2="{y}" stroke="{curve.color}" '
                     f'stroke-width="2"{dash}/>')
        lost = sum(not panel.drawable(value) for _, value in curve.points)
        name = curve.name if len(curve.name) <= 38 else curve.name[:18] + "…" + curve.name[-19:]
        parts.append(_text(right + 48, y + 4, name + (f" ({lost} not shown)" if lost else "")))
    if last:
        parts.append(_text(LEFT + WIDTH / 2, bottom + 38, x_label, "middle"))
    return parts


def draw(panels, x_label):
    """The whole picture as a string."""
    steps = [point[0] for panel in panels for curve in panel.curves for point in curve.points]
    x_scale = _Scale(steps or [0.0], False)
    body, top = [], TOP
    for panel in panels:
        body += _panel(panel, top, x_scale, panel is panels[-1], x_label)
        top += max(HEIGHT, 18 * len(panel.curves)) + GAP
    width, height = LEFT + WIDTH + LEGEND, top - GAP + BOTTOM
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="DejaVu Sans, Arial, sans-serif" fill="#222222">',
        f'<rect width="{width}" height="{height}" fill="white"/>', *body, "</svg>", ""])
