#!/usr/bin/env python3
"""Scores windows of pictures, and writes a table: filename, ymin, xmin, ymax, xmax, class0, class1, ...

    python/detect.py --crop_mode list --model_def deploy.prototxt --pretrained_model net.caffemodel windows.csv scores.csv
"""

import argparse
import csv
import os
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, os.path.join(HERE, os.pardir, "build", "python")]  # a clone; an installed package comes first
import caffe  # noqa: E402
from caffe.process import run_command  # noqa: E402

MODEL = os.path.normpath(os.path.join(HERE, os.pardir, "models", "bvlc_reference_rcnn_ilsvrc13"))
COORD_COLS = ["ymin", "xmin", "ymax", "xmax"]


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("input_file", help=".txt: one picture a line; .csv: columns filename, ymin, xmin, ymax, xmax")
    parser.add_argument("output_file", help=".csv; or .h5, for which pandas and tables are needed")
    parser.add_argument("--model_def", default=os.path.join(MODEL, "deploy.prototxt"), help="the net (default: %(default)s)")
    parser.add_argument("--pretrained_model", default=os.path.join(MODEL, "bvlc_reference_rcnn_ilsvrc13.caffemodel"),
                        help="its weights (default: %(default)s)")
    parser.add_argument("--crop_mode", default="selective_search", choices=["list", "selective_search"],
                        help="windows from the .csv file, or proposed by selective search (default: %(default)s)")
    parser.add_argument("--gpu", action="store_true", help="computes on a GPU")
    parser.add_argument("--mean_file", default="104.00699,116.66877,122.67892",
                        help=".npy or .binaryproto file, or a value per channel; '' for none (default: %(default)s, ImageNet)")
    parser.add_argument("--input_scale", type=float, help="multiplies after the mean is taken off")
    parser.add_argument("--raw_scale", type=float, default=255.0,
                        help="multiplies before the mean is taken off (default: %(default)s)")
    parser.add_argument("--channel_swap", default="2,1,0",
                        help="order of the channels; '' for none (default: %(default)s, which makes B G R of R G B)")
    parser.add_argument("--context_pad", type=int, default=16,
                        help="pixels of context around a window, in the net's input (default: %(default)s)")
    return parser.parse_args(argv)


def read_windows(path):
    """[(filename, [window, ...])] of a .csv file, in the order of its rows."""
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        missing = [name for name in ["filename"] + COORD_COLS if name not in (reader.fieldnames or [])]
        if missing:
            raise ValueError("%s has no column %s; it wants filename, %s" % (path, missing[0], ", ".join(COORD_COLS)))
        grouped = {}
        for number, row in enumerate(reader, 2):
            try:
                window = np.array([int(float(row[name])) for name in COORD_COLS])
            except (TypeError, ValueError):
                raise ValueError("%s:%d: a window is four numbers" % (path, number)) from None
            grouped.setdefault(row["filename"], []).append(window)
    return list(grouped.items())


def write_table(path, detections):
    scores = np.stack([np.ravel(found["prediction"]) for found in detections])
    classes = ["class%d" % number for number in range(scores.shape[1])]
    if path.endswith(".csv"):
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["filename"] + COORD_COLS + classes)
            for found, row in zip(detections, scores):
                writer.writerow([found["filename"]] + [int(edge) for edge in found["window"]] + row.tolist())
        return
    try:
        import pandas
    except ImportError as error:
        raise ImportError("a .h5 table needs pandas and tables (pip install pandas tables); .csv needs nothing") from error
    table = pandas.DataFrame([found["window"] for found in detections], columns=COORD_COLS)
    table.insert(0, "prediction", list(scores))
    table.index = pandas.Index([found["filename"] for found in detections], name="filename")
    table.to_hdf(path, key="df", mode="w")


def run(args):
    if not args.output_file.endswith((".csv", ".h5")):
        raise ValueError("the output file is .csv or .h5, not %s" % args.output_file)
    if args.gpu:
        caffe.set_mode_gpu()
        print("GPU mode")
    else:
        caffe.set_mode_cpu()
        print("CPU mode")
    swap = [int(part) for part in args.channel_swap.split(",")] if args.channel_swap else None
    mean = caffe.io.load_mean(args.mean_file) if args.mean_file else None
    detector = caffe.Detector(args.model_def, args.pretrained_model, mean=mean, input_scale=args.input_scale,
                              raw_scale=args.raw_scale, channel_swap=swap, context_pad=args.context_pad)
    start = time.time()
    print("Loading input...")
    if args.crop_mode == "list":
        detections = detector.detect_windows(read_windows(args.input_file))
    else:
        with open(args.input_file) as file:
            detections = detector.detect_selective_search([line.strip() for line in file if line.strip()])
    if not detections:
        raise ValueError("%s names no windows" % args.input_file)
    print("Processed %d windows in %.3f s." % (len(detections), time.time() - start))
    start = time.time()
    write_table(args.output_file, detections)
    print("Saved to %s in %.3f s." % (args.output_file, time.time() - start))


def main(argv=None):
    return run_command("detect.py", run, parse(argv))


if __name__ == "__main__":
    sys.exit(main())
