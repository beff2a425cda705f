"""The commands that `pip install .` makes: carafe, and caffe for whoever knows it by that name."""

import os
import sys


def main():
    """Becomes the program that lies in this package. A net of its with layers written in Python runs in this Python."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "carafe")
    os.environ.setdefault("CARAFE_PYTHON", sys.executable)
    os.execv(program, sys.argv)
