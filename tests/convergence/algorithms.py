#!/usr/bin/env python3
"""Nightly: nets learn as well with Winograd's convolutions as with direct ones.

usage: tests/convergence/algorithms.py [--seeds N] [--nets lenet,cifar10_quick,cifar10_3x3]

Each net is trained with every algorithm forced and with seeds 1 to N (default 3); what counts is the accuracy on the
whole test set at the end. The means over the seeds may differ by what the seeds of one algorithm differ by (two standard
errors of the difference), or by 0.5 %, whichever is more. Data sets that are not there are skipped, and said so.
Needs the release build; paths are relative to the repository. Ends with `N passed, N failed[, N skipped]`.
"""
import argparse
import csv
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = ROOT / "runs" / "convergence" / "algorithms"
ALGORITHMS = ("direct", "winograd")

SMALL_3X3 = """
name: "cifar10_3x3"
%(data)s
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "conv2" type: "Convolution" bottom: "conv1" top: "conv2"
  convolution_param { num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "relu2" type: "ReLU" bottom: "conv2" top: "conv2" }
layer { name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "conv3" type: "Convolution" bottom: "pool2" top: "conv3"
  convolution_param { num_output: 64 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "relu3" type: "ReLU" bottom: "conv3" top: "conv3" }
layer { name: "conv4" type: "Convolution" bottom: "conv3" top: "conv4"
  convolution_param { num_output: 64 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "relu4" type: "ReLU" bottom: "conv4" top: "conv4" }
layer { name: "pool4" type: "Pooling" bottom: "conv4" top: "pool4" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "pool4" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


def data_layers(net_file):
    """The Data layers of a net, as text, with pixels scaled to about -2..2."""
    text = (ROOT / net_file).read_text(encoding="utf-8").replace("transform_param {", "transform_param { scale: 0.0156")
    return "\n".join(re.findall(r"^layer \{.*?^\}", text, re.M | re.S)[:2])


def solver_of(net):
    """The text of a solver without its seed."""
    if net == "lenet":
        return 'net: "examples/mnist/lenet_train_test.prototxt" base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005 ' \
               'lr_policy: "inv" gamma: 0.0001 power: 0.75 max_iter: 1500'
    if net == "cifar10_quick":
        return 'net: "examples/cifar10/cifar10_quick_train_test.prototxt" base_lr: 0.001 momentum: 0.9 ' \
               'weight_decay: 0.004 lr_policy: "step" gamma: 0.1 stepsize: 900 max_iter: 1200'
    path = RUNS / "cifar10_3x3.prototxt"
    path.write_text(SMALL_3X3 % {"data": data_layers("examples/cifar10/cifar10_quick_train_test.prototxt")},
                    encoding="utf-8")
    return f'net: "{path}" base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005 lr_policy: "step" gamma: 0.1 ' \
           'stepsize: 500 max_iter: 700'


def train(net, algorithm, seed):
    run = RUNS / f"{net}_{algorithm}_{seed}"
    run.mkdir(parents=True, exist_ok=True)
    solver = run / "solver.prototxt"
    iterations = re.search(r"max_iter: (\d+)", solver_of(net)).group(1)
    solver.write_text(solver_of(net) + f" test_iter: 100 test_interval: {iterations} test_initialization: false "
                      f'display: 100 random_seed: {seed} snapshot_after_train: false snapshot_prefix: "{run}/net" '
                      "solver_mode: CPU\n", encoding="utf-8")
    subprocess.run([ROOT / "build/tools/carafe", "train", f"--solver={solver}", f"--algorithm={algorithm}",
                    f"--run_dir={run}", "--quiet"], cwd=ROOT, check=True)
    with open(run / "metrics.csv", newline="", encoding="utf-8") as file:
        values = [float(row[5]) for row in csv.reader(file) if row[2] == "test" and row[4] == "accuracy"]
    return values[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--nets", default="lenet,cifar10_quick,cifar10_3x3")
    flags = parser.parse_args()
    RUNS.mkdir(parents=True, exist_ok=True)
    passed = failed = skipped = 0
    for net in flags.nets.split(","):
        name = "mnist" if net == "lenet" else "cifar10"
        if subprocess.run([f"examples/{name}/create_{name}.sh"], cwd=ROOT, check=False).returncode != 0:
            print(f"skip  {net}: the data set {name} is not there")
            skipped += 1
            continue
        found = {a: [train(net, a, seed) for seed in range(1, flags.seeds + 1)] for a in ALGORITHMS}
        means = {a: statistics.mean(values) for a, values in found.items()}
        spread = sum(statistics.variance(v) / len(v) for v in found.values() if len(v) > 1) ** 0.5
        allowed = max(0.005, 2 * spread)
        good = abs(means["direct"] - means["winograd"]) <= allowed
        passed, failed = passed + good, failed + (not good)
        lists = "; ".join(f"{a} {', '.join(f'{v:.4f}' for v in found[a])} (mean {means[a]:.4f})" for a in ALGORITHMS)
        print(f"{'ok   ' if good else 'FAIL '} {net}: {lists}; allowed difference {allowed:.4f}", flush=True)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
