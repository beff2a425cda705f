#!/usr/bin/env python3
"""Curves of one or several training logs over the iterations: loss, test scores, learning rate.

  plot_log.py OUT LOG...       OUT.svg needs nothing but Python; OUT.png needs matplotlib

Solid lines are training, dashed ones tests; each log has its colour.
"""
import argparse
import math
import os
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import svg_chart  # noqa: E402
import training_log  # noqa: E402

MOST_ELEMENTS = 8  # of an output that has several; larger ones are left out


def curves(log, label):
    """[(panel, name, dashed, points)] of a log."""
    result = []
    losses = [(row.iteration, row.loss) for row in log.train if row.loss is not None]
    result.append(("loss", f"{label}: train loss", False, losses))
    for net, rows in sorted(log.tests.items()):
        tag = f"test #{net}" if len(log.tests) > 1 else "test"
        points_of = {}
        for row in rows:
            for name, value in row.values().items():
                points_of.setdefault(name, []).append((row.iteration, value))
        for name, points in points_of.items():
            if f"{name.split('[')[0]}[{MOST_ELEMENTS}]" in points_of:
                continue  # a whole vector is no curve
            panel = "loss" if name.split("[")[0] in log.losses else "test score"
            result.append((panel, f"{label}: {tag} {name}", True, points))
    rates = [(row.iteration, row.rate) for row in log.train if row.rate is not None]
    result.append(("learning rate", label, False, rates))
    return [curve for curve in result if curve[3]]


def panels(logs, log_scale):
    """[Panel], those with curves only, from [(label, TrainingLog)]."""
    found = []
    for title, y_log in (("loss", log_scale), ("test score", False), ("learning rate", log_scale)):
        panel = svg_chart.Panel(title, y_log)
        for number, (label, log) in enumerate(logs):
            same = [curve for curve in curves(log, label) if curve[0] == title]
            for shade, (_, name, dashed, points) in enumerate(same):
                panel.add(name, points, number, dashed, shade)
        if panel.curves:
            found.append(panel)
    return found


def write_png(path, all_panels):
    try:
        import matplotlib
    except ImportError as error:
        raise ValueError(f"{path}: a PNG needs matplotlib ({error}); write OUT.svg instead") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(len(all_panels), 1, figsize=(9, 3 * len(all_panels)), squeeze=False)
    for axis, panel in zip(axes[:, 0], all_panels):
        axis.set_title(panel.title)
        if panel.y_log:
            axis.set_yscale("log")
        for curve in panel.curves:
            x = [point[0] for point in curve.points]
            y = [point[1] if math.isfinite(point[1]) else math.nan for point in curve.points]
            axis.plot(x, y, label=curve.name, color=curve.color, linestyle="--" if curve.dashed else "-")
        axis.legend(fontsize="small")
        axis.grid(alpha=0.3)
    axes[-1, 0].set_xlabel("iteration")
    figure.tight_layout()
    figure.savefig(path, format="png")


def labels(paths):
    """Names of the logs: the files', with their folders where two files have the same name."""
    names = [path.name for path in paths]
    return [path.name if names.count(path.name) == 1 else str(path) for path in paths]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT", type=pathlib.Path, help="picture to write: .svg or .png")
    parser.add_argument("logs", metavar="LOG", nargs="+", type=pathlib.Path)
    parser.add_argument("--log", action="store_true", help="logarithmic scale of losses and rates")
    arguments = parser.parse_args()
    out = arguments.out
    if out.suffix not in (".svg", ".png"):
        parser.error("OUT ends in .svg or .png")
    temporary = out.with_name(f"{out.name}.tmp.{os.getpid()}")
    try:
        logs = [(label, training_log.load(path)) for label, path in zip(labels(arguments.logs), arguments.logs)]
        all_panels = panels(logs, arguments.log)
        if out.suffix == ".svg":
            temporary.write_text(svg_chart.draw(all_panels, "iteration"), encoding="utf-8")
        else:
            write_png(temporary, all_panels)
        os.replace(temporary, out)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    finally:
        temporary.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
