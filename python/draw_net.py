#!/usr/bin/env python3
"""Draws a net.

    python/draw_net.py examples/digits/lenet_train_test.prototxt lenet.png --rankdir TB --phase TRAIN
"""

import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, os.path.join(HERE, os.pardir, "build", "python")]  # a clone; an installed package comes first
from google.protobuf import text_format  # noqa: E402

import caffe.draw  # noqa: E402
from caffe.process import run_command  # noqa: E402
from caffe.proto import caffe_pb2  # noqa: E402


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("input_net_proto_file", help="the net's .prototxt")
    parser.add_argument("output_image_file", help="the picture: .png, .svg, .pdf; or .dot for the graph as text")
    parser.add_argument("--rankdir", default="LR", choices=["LR", "RL", "TB", "BT"],
                        help="from left to right, top to bottom, ... (default: %(default)s)")
    parser.add_argument("--phase", default="ALL", choices=["TRAIN", "TEST", "ALL"],
                        help="layers of one phase only (default: %(default)s)")
    parser.add_argument("--display_lrm", action="store_true", help="shows learning rate multipliers")
    return parser.parse_args(argv)


def run(args):
    net = caffe_pb2.NetParameter()
    with open(args.input_net_proto_file) as file:
        try:
            text_format.Parse(file.read(), net)
        except text_format.ParseError as error:
            raise ValueError("%s:%s" % (args.input_net_proto_file, error)) from None
    phase = {"TRAIN": caffe_pb2.TRAIN, "TEST": caffe_pb2.TEST, "ALL": None}[args.phase]
    print("Drawing net to %s" % args.output_image_file)
    caffe.draw.draw_net_to_file(net, args.output_image_file, args.rankdir, phase, args.display_lrm)


def main(argv=None):
    return run_command("draw_net.py", run, parse(argv))


if __name__ == "__main__":
    sys.exit(main())
