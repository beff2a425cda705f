"""OpenCV's dnn module reads models that Carafe wrote and must compute what Carafe computes, to 1e-4 (run.sh starts this;
`run.sh resnet50` and the like compare whole models, to 1e-3).

Each net of nets.py is trained for three iterations by `carafe train`, and so is LeNet of examples/digits for some more.
OpenCV runs the deploy net with the .caffemodel on random inputs; inputs and outputs become a case of kind "model" for
golden_runner, which loads the same file into the same net and compares. The other way round, Carafe reads a file that
OpenCV wrote (weights as 16-bit floats).
"""
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import cv2
import numpy

from nets import DIFFERENT, NETS

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CARAFE_BUILD", ROOT / "build"))
CARAFE = BUILD / "tools" / "carafe"
DEPLOY, WEIGHTS = "deploy.prototxt", "net.caffemodel"
SOLVER = """
net: "{net}"
base_lr: 0.001
lr_policy: "fixed"
momentum: 0.9
max_iter: {iterations}
snapshot_prefix: "net"
random_seed: 5
"""
MODELS = {
    "bvlc_reference_caffenet": (10, 3, 227, 227),
    "bvlc_googlenet": (10, 3, 224, 224),
    "resnet50": (1, 3, 224, 224),
    "mobilenet_v1": (1, 3, 224, 224),
}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def run_carafe(folder, *arguments):
    result = subprocess.run([CARAFE, *arguments], cwd=folder, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, timeout=120)
    if result.returncode != 0:
        raise RuntimeError(f"carafe {arguments[0]}: {result.stdout}")


def train(folder, net, iterations):
    """Writes the weights in the folder."""
    (folder / "solver.prototxt").write_text(SOLVER.format(net=net, iterations=iterations))
    run_carafe(folder, "train", "--solver=solver.prototxt", "--quiet")
    (folder / f"net_iter_{iterations}.caffemodel").rename(folder / WEIGHTS)


def run_opencv(folder, inputs, outputs):
    """OpenCV's outputs ({blob: layer}) for random inputs ({blob: shape}), as arrays of a golden case."""
    net = cv2.dnn.readNetFromCaffe(str(folder / DEPLOY), str(folder / WEIGHTS))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    if hasattr(net, "enableWinograd"):  # 4.7 and later: tiles of 8x8, off by up to 5e-5 where its direct kernels are not
        net.enableWinograd(False)
    random = numpy.random.default_rng(7)
    arrays = {}
    for blob, shape in inputs.items():
        arrays["in/" + blob] = random.standard_normal(shape).astype(numpy.float32)
        net.setInput(arrays["in/" + blob], blob)
    values = net.forward(list(outputs.values()))
    arrays.update({"out/" + blob: value for blob, value in zip(outputs, values)})
    numpy.savez(folder / (folder.name + ".npz"), **arrays)


def apart(function, *arguments):
    """Runs a function in a process of its own, which OpenCV may bring down; returns what went wrong, if anything."""
    reader, writer = multiprocessing.Pipe(duplex=False)

    def run():
        try:
            function(*arguments)
            writer.send(None)
        except cv2.error as error:
            writer.send(str(error).strip())

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(60)
    if process.is_alive():
        process.kill()
        return "OpenCV did not end within 60 s"
    return reader.recv() if process.exitcode == 0 else f"OpenCV ended with code {process.exitcode}"


class Comparison:
    def __init__(self, work):
        self.work = work
        self.cases = []
        self.failed = 0

    def add(self, name, inputs, outputs, prepare):
        """A case: prepare(folder) writes deploy net and weights."""
        folder = self.work / name
        folder.mkdir()
        try:
            prepare(folder)
            error = apart(run_opencv, folder, inputs, outputs)
        except RuntimeError as wrong:
            error = wrong
        if error:
            self.failed += 1
            print(f"FAIL {name}: {error}")
        else:
            self.cases.append({"kind": "model", "name": name, "dir": name, "net": DEPLOY, "weights": WEIGHTS,
                               "rtol": 1e-3 if name in MODELS else 1e-4})

    def judge(self):
        """Prints golden_runner's findings and the count; True if all is well."""
        (self.work / "index.json").write_text(json.dumps({"cases": self.cases}))
        result = subprocess.run([BUILD / "tests" / "golden_runner", self.work], text=True, env=ENVIRONMENT,
                                stdout=subprocess.PIPE, timeout=300)
        *findings, last = result.stdout.splitlines() or [""]
        print("\n".join(line for line in findings if not line.startswith("model: ")))
        count = re.fullmatch(r"(\d+) passed, (\d+) failed", last)  # some "missing": a failure here
        if not count or int(count[1]) + int(count[2]) != len(self.cases):
            print(f"FAIL golden_runner ended with code {result.returncode}: {last}")
            self.failed += 1
            count = (last, 0, 0)
        print(f"{count[1]} passed, {int(count[2]) + self.failed} failed")
        return int(count[2]) + self.failed == 0


def prepare_net(net):
    def prepare(folder):
        (folder / DEPLOY).write_text(net.deploy())
        (folder / "train.prototxt").write_text(net.train())
        train(folder, "train.prototxt", iterations=3)

    return prepare


def prepare_lenet(folder):
    """The example as it is, on fewer pictures and for fewer iterations."""
    example = ROOT / "examples" / "digits"
    copy = folder / "examples" / "digits"
    copy.mkdir(parents=True)
    run_carafe(folder, "digits", "--out", copy, "--train", "600", "--test", "100")
    shutil.copy(example / "lenet_train_test.prototxt", copy)
    shutil.copy(example / "lenet.prototxt", folder / DEPLOY)
    train(folder, "examples/digits/lenet_train_test.prototxt", iterations=40)


def prepare_model(model):
    """A whole net of models/, with the weights of its fillers and the statistics of random pictures."""
    def prepare(folder):
        text = (ROOT / "models" / model / DEPLOY).read_text()
        (folder / DEPLOY).write_text(text)
        text = re.sub(r"input_param (\{\s*shape \{[^}]*\})", r'dummy_data_param \1 data_filler { type: "gaussian" }', text)
        loss = 'layer { name: "loss" type: "Reduction" bottom: "prob" top: "loss" loss_weight: 1 }'
        (folder / "train.prototxt").write_text(text.replace('"Input"', '"DummyData"') + loss)
        train(folder, "train.prototxt", iterations=1)

    return prepare


def prepare_shrunk(net):
    def prepare(folder):
        prepare_net(net)(folder)
        (folder / WEIGHTS).rename(folder / "wide.caffemodel")
        error = apart(cv2.dnn.shrinkCaffeModel, str(folder / "wide.caffemodel"), str(folder / WEIGHTS))
        if error:
            raise RuntimeError(f"shrinkCaffeModel: {error}")

    return prepare


def main():
    wanted = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    print(f"OpenCV {cv2.__version__}. Not compared, because OpenCV does it otherwise:")
    for what, why in DIFFERENT.items():
        print(f"  {what}: {why}")
    cases = {name: (net.inputs, net.outputs(), prepare_net(net)) for name, net in NETS.items()}
    cases["example_lenet"] = ({"data": (64, 1, 28, 28)}, {"prob": "prob"}, prepare_lenet)
    for name in ("lenet", "cifar10_with_batch_norm"):
        cases[f"{name}_written_by_opencv"] = (NETS[name].inputs, NETS[name].outputs(), prepare_shrunk(NETS[name]))
    if len(sys.argv) > 1:  # large: minutes, hence only when asked for by name
        for model, shape in MODELS.items():
            cases[model] = ({"data": shape}, {"prob": "prob"}, prepare_model(model))
    with tempfile.TemporaryDirectory(prefix="carafe_opencv_") as work:
        comparison = Comparison(pathlib.Path(work))
        for name, case in cases.items():
            if wanted.search(name):
                comparison.add(name, *case)
        good = comparison.judge()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
