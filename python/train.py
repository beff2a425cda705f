#!/usr/bin/env python3
"""Trains a net, from Python; under mpirun on all its ranks together.

    python/train.py --solver solver.prototxt
    mpirun -n 4 python/train.py --solver solver.prototxt --snapshot lenet_iter_5000.solverstate
"""

import argparse
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "build", "python")]

import caffe  # noqa: E402


def watch_times(solver):
    """Prints, every `display` iterations, how long the passes and the wait for the other ranks took."""
    marks = {"forward": 0.0, "backward": 0.0, "update": 0.0}
    last = [time.perf_counter()]

    def lap(name):
        now = time.perf_counter()
        marks[name] += now - last[0]
        last[0] = now

    layers = len(solver.net.layers)
    solver.net.before_forward(lambda layer: lap("update") if layer == 0 else None)
    solver.net.after_forward(lambda layer: lap("forward") if layer == layers - 1 else None)
    solver.net.after_backward(lambda layer: lap("backward") if layer == 0 else None)
    every = max(solver.param.display, 1)

    def report():
        if solver.iter % every == 0 and solver.iter > 0 and caffe.rank() == 0:
            print("iteration {}: {}".format(solver.iter, ", ".join(
                "{} {:.3f} ms".format(name, 1e3 * seconds / every) for name, seconds in marks.items())), flush=True)
            marks.update(dict.fromkeys(marks, 0.0))

    solver.add_callback(report, lambda: None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solver", required=True, help="the solver's prototxt")
    parser.add_argument("--snapshot", help="resume from this .solverstate")
    parser.add_argument("--weights", help="start from these weights (.caffemodel or .h5; several with commas)")
    parser.add_argument("--gpus", type=int, nargs="+", default=[], help="of Caffe; has no effect here")
    parser.add_argument("--timing", action="store_true", help="show how long forward, backward and updates take")
    options = parser.parse_args()
    if options.snapshot and options.weights:
        parser.error("--snapshot resumes a run, --weights starts a new one: give one of them")
    caffe.init_log(0 if caffe.rank() == 0 else 1)
    if options.gpus:
        caffe.set_mode_gpu()
    solver = caffe.get_solver(options.solver)
    if options.weights:
        solver.net.copy_from(options.weights)
    if options.timing:
        watch_times(solver)
    solver.solve(options.snapshot)


if __name__ == "__main__":
    try:
        main()
    except caffe.Error as error:  # the text says all; a traceback of this file would not
        caffe._caffe._fail(str(error))
        if caffe._caffe._tells_user():
            print(error, file=sys.stderr)
        sys.exit(1)
