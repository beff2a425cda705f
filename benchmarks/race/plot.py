"""Results as a picture: for every net a bar that tells how many times as fast as PyTorch we are."""
from xml.sax.saxutils import escape

from race import results as res
from race.table import milliseconds

COLOURS = ("#9ec5e8", "#2f6fab", "#173a5e", "#0b1c2e")  # of 1, 2, .. threads
INK, PALE, WIN = "#222222", "#dddddd", "#c0392b"
LABEL, PLOT, RIGHT = 120, 420, 150  # widths: names, bars, numbers
BAR, GAP, TITLE = 13, 9, 44  # heights
FONT = 'font-family="DejaVu Sans, Helvetica, Arial, sans-serif"'


def _text(x, y, text, size=12, anchor="start", weight="normal"):
    """With a white rim, so that lines behind it do not disturb."""
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{INK}" '
            f'font-weight="{weight}" stroke="white" stroke-width="2" paint-order="stroke" {FONT}>{escape(text)}</text>')


def _rect(x, y, width, height, colour):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def _line(x, y0, y1, colour, width=1.0):
    return f'<line x1="{x:.1f}" y1="{y0:.1f}" x2="{x:.1f}" y2="{y1:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def tick_step(limit):
    """Round distance between ticks, so that there are 4 to 10 of them."""
    for step in (0.25, 0.5, 1, 2, 5, 10, 20, 50, 100):
        if limit / step <= 10:
            return step
    return limit / 5


def panels(results):
    """(title, {net: {threads: case}}) of the training step and of each batch of deploy, only cases with a ratio."""
    found = {}
    for case in results["cases"]:
        if res.ratio(case):
            title = "training step" if case["mode"] == "train" else f"deploy, batch {case['batch']}"
            found.setdefault(title, {}).setdefault(case["net"], {})[case["threads"]] = case
    return found


def _panel(title, by_net, top, limit, threads):
    """SVG elements of one panel from height `top` on, and the height where it ends."""
    def x_of(ratio):
        return LABEL + PLOT * ratio / limit

    out, y = [], top + TITLE
    means = ", ".join(
        f"{mean:.2f}" for mean in (res.geometric_mean(res.ratio(net[count]) for net in by_net.values() if count in net)
                                   for count in threads) if mean)
    out.append(_text(LABEL, top + 20, f"{title}: times as fast as PyTorch (geometric mean {means})", 13, weight="bold"))
    bars, texts = [], []
    for net, cases in by_net.items():
        height = BAR * len(cases)
        texts.append(_text(LABEL - 8, y + height / 2 + 4, net, anchor="end"))
        for count, case in sorted(cases.items()):
            ratio = res.ratio(case)
            _, peer = res.best_peer(case)
            bars.append(_rect(LABEL, y, x_of(min(ratio, limit)) - LABEL, BAR - 1, COLOURS[threads.index(count) % 4]))
            texts.append(_text(x_of(min(ratio, limit)) + 5, y + BAR - 3,
                               f"{ratio:.2f} ({milliseconds(case['ours']['median_ms'])} / "
                               f"{milliseconds(peer['median_ms'])} ms)", 10))
            y += BAR
        y += GAP
    step, tick = tick_step(limit), 0.0
    while tick <= limit + 1e-9:
        out.append(_line(x_of(tick), top + TITLE - 4, y, PALE))
        out.append(_text(x_of(tick), y + 12, f"{tick:g}", 10, "middle"))
        tick += step
    return [*out, *bars, _line(x_of(1), top + TITLE - 4, y, WIN, 1.5), *texts], y + 20


def svg(results):
    """The picture, or None where nothing was compared."""
    found = panels(results)
    if not found:
        return None
    threads = sorted({count for nets in found.values() for net in nets.values() for count in net})
    limit = max(1.25, max(res.ratio(case) for nets in found.values() for net in nets.values()
                          for case in net.values()) * 1.02)
    out, top = [], 30.0
    for title, by_net in found.items():
        part, top = _panel(title, by_net, top, limit, threads)
        out += part
    width, height = LABEL + PLOT + RIGHT, top + 26
    legend = []
    for i, count in enumerate(threads):
        legend += [_rect(LABEL + 110 * i, 14, 12, 12, COLOURS[i % 4]),
                   _text(LABEL + 110 * i + 18, 24, f"{count} thread{'s' if count > 1 else ''}")]
    foot = f"{results['machine']['cpu']}; PyTorch {results['versions'].get('torch', '')}; {results['date'][:10]}, " \
           f"commit {results['commit']}. In brackets: Carafe's median / PyTorch's, milliseconds."
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" width="{width}" '
        f'height="{height:.0f}">', _rect(0, 0, width, height, "white"), *legend, *out,
        _text(8, height - 8, foot, 9), "</svg>"]) + "\n"
