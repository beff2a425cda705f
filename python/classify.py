#!/usr/bin/env python3
"""Classifies a picture, a folder of pictures or an array of pictures, and writes the scores as .npy.

    python/classify.py --model_def deploy.prototxt --pretrained_model net.caffemodel cat.jpg scores.npy
"""

import argparse
import glob
import os
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, os.path.join(HERE, os.pardir, "build", "python")]  # a clone; an installed package comes first
import caffe  # noqa: E402
from caffe.process import run_command  # noqa: E402

MODEL = os.path.normpath(os.path.join(HERE, os.pardir, "models", "bvlc_reference_caffenet"))


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("input_file", help="a picture, a folder of pictures, or a .npy file with an array of pictures "
                                           "(number x height x width x channels, 0 to 1)")
    parser.add_argument("output_file", help="the .npy file of the scores, pictures x classes")
    parser.add_argument("--model_def", default=os.path.join(MODEL, "deploy.prototxt"), help="the net (default: %(default)s)")
    parser.add_argument("--pretrained_model", default=os.path.join(MODEL, "bvlc_reference_caffenet.caffemodel"),
                        help="its weights (default: %(default)s)")
    parser.add_argument("--gpu", action="store_true", help="computes on a GPU")
    parser.add_argument("--center_only", action="store_true",
                        help="takes the middle of each picture, instead of the mean over ten crops")
    parser.add_argument("--images_dim", default="256,256",
                        help="height,width that pictures get before crops are taken (default: %(default)s)")
    parser.add_argument("--mean_file", default="104.00699,116.66877,122.67892",
                        help=".npy or .binaryproto file, or a value per channel; '' for none (default: %(default)s, ImageNet)")
    parser.add_argument("--input_scale", type=float, help="multiplies after the mean is taken off")
    parser.add_argument("--raw_scale", type=float, default=255.0,
                        help="multiplies before the mean is taken off (default: %(default)s)")
    parser.add_argument("--channel_swap", default="2,1,0",
                        help="order of the channels; '' for none (default: %(default)s, which makes B G R of R G B)")
    parser.add_argument("--ext", default="jpg", help="ending of the pictures of a folder (default: %(default)s)")
    return parser.parse_args(argv)


def numbers(text):
    return [int(part) for part in text.split(",")] if text else None


def read_inputs(path, ext, color):
    if path.endswith(".npy"):
        return list(np.load(path))
    if not os.path.isdir(path):
        return [caffe.io.load_image(path, color)]
    names = sorted(glob.glob(os.path.join(glob.escape(path), "*." + ext)))
    if not names:
        raise ValueError("%s has no *.%s; fix: --ext" % (path, ext))
    return [caffe.io.load_image(name, color) for name in names]


def run(args):
    if args.gpu:
        caffe.set_mode_gpu()
        print("GPU mode")
    else:
        caffe.set_mode_cpu()
        print("CPU mode")
    swap = numbers(args.channel_swap)
    mean = caffe.io.load_mean(args.mean_file) if args.mean_file else None
    classifier = caffe.Classifier(args.model_def, args.pretrained_model, image_dims=numbers(args.images_dim), mean=mean,
                                  input_scale=args.input_scale, raw_scale=args.raw_scale, channel_swap=swap)
    print("Loading file: %s" % args.input_file)
    color = classifier.blobs[classifier.inputs[0]].shape[1] != 1
    inputs = read_inputs(os.path.expanduser(args.input_file), args.ext, color)
    print("Classifying %d inputs." % len(inputs))
    start = time.time()
    predictions = classifier.predict(inputs, not args.center_only)
    print("Done in %.2f s." % (time.time() - start))
    print("Saving results into %s" % args.output_file)
    np.save(args.output_file, predictions)


def main(argv=None):
    return run_command("classify.py", run, parse(argv))


if __name__ == "__main__":
    sys.exit(main())
