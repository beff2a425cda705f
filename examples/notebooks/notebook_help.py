"""What the notebooks share: where things are, a data set, and pictures that a notebook shows."""

import os
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(ROOT, *parts) for parts in (("python",), ("build", "python"), ("tools", "extra"))]
import svg_chart  # noqa: E402

WORK = os.environ.get("CARAFE_NOTEBOOK_WORK", os.path.join(ROOT, "build", "notebooks"))


def work_file(name):
    """A file of the notebooks, beside the build."""
    os.makedirs(WORK, exist_ok=True)
    return os.path.join(WORK, name)


def write(name, message):
    """Writes a message as prototxt, and gives the file's name."""
    path = work_file(name)
    part = "%s.%d" % (path, os.getpid())  # under mpirun all ranks write the same file
    with open(part, "w") as file:
        file.write(str(message))
    os.replace(part, path)
    return path


def digits():
    """The two databases of drawn digits (training, test): 4000 and 1000 pictures of 28 x 28; made at the first call."""
    paths = [work_file("digits_train_lmdb"), work_file("digits_test_lmdb")]
    if not all(os.path.exists(path) for path in paths):
        program = os.path.join(ROOT, "build", "tools", "carafe")
        with tempfile.TemporaryDirectory(dir=WORK) as folder:  # of this rank; the first that is ready gives its own to all
            subprocess.run([program, "digits", "--out", folder, "--train", "4000", "--test", "1000"], check=True,
                           stdout=subprocess.DEVNULL)
            for path in paths:
                try:
                    os.rename(os.path.join(folder, os.path.basename(path)), path)
                except OSError:
                    if not os.path.exists(path):
                        raise
    return paths


def sheet(pictures, columns, zoom=2, normalise=True):
    """Pictures of one size (height x width, or height x width x 3) side by side, as one image."""
    from PIL import Image
    pictures = [np.asarray(picture, dtype=float) for picture in pictures]
    if normalise:
        pictures = [(p - p.min()) / max(p.max() - p.min(), 1e-9) for p in pictures]
    rows = -(-len(pictures) // columns)
    height, width = pictures[0].shape[:2]
    whole = np.ones((rows * (height + 1), columns * (width + 1)) + pictures[0].shape[2:])
    for i, picture in enumerate(pictures):
        y, x = (i // columns) * (height + 1), (i % columns) * (width + 1)
        whole[y:y + height, x:x + width] = picture
    pixels = (np.clip(whole, 0, 1) * 255).astype(np.uint8).repeat(zoom, axis=0).repeat(zoom, axis=1)
    return Image.fromarray(pixels)


class Chart:
    """Curves over iterations: panels = {title: {name: [(x, y), ...]}}."""

    def __init__(self, panels, x_label="iteration"):
        drawn = []
        for title, curves in panels.items():
            panel = svg_chart.Panel(title, False)
            for number, (name, points) in enumerate(curves.items()):
                panel.add(name, [(float(x), float(y)) for x, y in points], number, False, 0)
            drawn.append(panel)
        self.svg = svg_chart.draw(drawn, x_label)

    def _repr_svg_(self):
        return self.svg
