"""What the command-line tests share: a folder with small databases and nets, running `carafe` alone or under mpirun."""
import array
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from counted import run_and_exit

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CARAFE_BUILD", ROOT / "build"))
CARAFE = BUILD / "tools" / "carafe"
TIMEOUT = 600  # seconds for any one command: a hang is a failure, a busy machine is not

NET = """
name: "small"
layer {{
  name: "data"
  type: "Data"
  top: "data"
  top: "label"
  include {{ phase: TRAIN }}
  transform_param {{ scale: 0.00390625 }}
  data_param {{ source: "digits_train_lmdb" backend: LMDB batch_size: {batch} }}
}}
layer {{
  name: "data"
  type: "Data"
  top: "data"
  top: "label"
  include {{ phase: TEST }}
  transform_param {{ scale: 0.00390625 }}
  data_param {{ source: "digits_test_lmdb" backend: LMDB batch_size: 20 }}
}}
layer {{
  name: "conv1"
  type: "Convolution"
  bottom: "data"
  top: "conv1"
  convolution_param {{ num_output: 4 kernel_size: 5 stride: 2 weight_filler {{ type: "xavier" }} }}
}}
layer {{ name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }}
layer {{ name: "drop1" type: "Dropout" bottom: "conv1" top: "conv1" }}
layer {{
  name: "ip"
  type: "InnerProduct"
  bottom: "conv1"
  top: "ip"
  inner_product_param {{ num_output: 10 weight_filler {{ type: "xavier" }} }}
}}
layer {{ name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" include {{ phase: TEST }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }}
"""

SOLVER = """
net: "net.prototxt"
test_iter: 5
test_interval: 50
base_lr: 0.01
momentum: 0.9
weight_decay: 0.0005
lr_policy: "inv"
gamma: 0.0001
power: 0.75
display: 20
max_iter: {max_iter}
snapshot: {snapshot}
snapshot_prefix: "snap/small"
random_seed: 3
"""


def environment():
    env = dict(os.environ)
    env.update(OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_odls_base_sigkill_timeout="1", OMPI_MCA_rmaps_base_oversubscribe="1", TERM="dumb")
    return env


def mpirun(ranks, mpi="openmpi"):
    """The launcher's part of a command line, or [] for one process."""
    if ranks == 1 and mpi != "mpich":
        return []
    if mpi == "mpich":
        return ["mpirun.mpich", "-n", str(ranks)]
    return ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]


def fields(message):
    """(number, value) of each field of a protobuf message: ints, or bytes for strings and nested messages."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        size = {0: 0, 1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        if size is None:
            size = varint()
        yield key >> 3, message[at:at + size]
        at += size


def weights(caffemodel):
    """{(layer, blob index): floats} of a .caffemodel, in the order of the file."""
    result = {}
    for number, layer in fields(pathlib.Path(caffemodel).read_bytes()):
        if number != 100:
            continue
        parts = list(fields(layer))
        name = next(value for field, value in parts if field == 1).decode()
        for index, blob in enumerate(value for field, value in parts if field == 7):
            data = b"".join(value for field, value in fields(blob) if field == 5)
            result[name, index] = array.array("f", data)
    return result


def difference(a, b):
    """max |x - y| / max |x| over the blobs."""
    worst = 0.0
    for key, values in a.items():
        largest = max(map(abs, values))
        if largest > 0:
            worst = max(worst, max(abs(x - y) for x, y in zip(values, b[key])) / largest)
    return worst


class CarafeTest(unittest.TestCase):
    """Each test has a folder of its own, with databases, net.prototxt and solver.prototxt."""

    databases = None

    @classmethod
    def setUpClass(cls):
        cls.databases = pathlib.Path(tempfile.mkdtemp(prefix="carafe_cli_"))
        subprocess.run([CARAFE, "digits", "--out", cls.databases, "--train", "600", "--test", "100"], check=True,
                       stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.databases)

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="carafe_cli_"))
        self.addCleanup(shutil.rmtree, self.dir)
        for name in ("digits_train_lmdb", "digits_test_lmdb"):
            (self.dir / name).symlink_to(self.databases / name)
        self.write_net()
        self.write_solver()

    def write(self, name, text):
        (self.dir / name).write_text(text)

    def write_net(self, batch=16, replace=()):
        text = NET.format(batch=batch)
        for old, new in replace:
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        self.write("net.prototxt", text)

    def write_solver(self, max_iter=40, snapshot=0, more=""):
        self.write("solver.prototxt", SOLVER.format(max_iter=max_iter, snapshot=snapshot) + more)

    def start(self, *arguments, ranks=1, mpi="openmpi", env=None):
        command = mpirun(ranks, mpi) + [str(CARAFE)] + [str(a) for a in arguments]
        return subprocess.Popen(command, cwd=self.dir, env={**environment(), **(env or {})}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def finish(self, process):
        try:
            out, err = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            self.fail(f"the command did not end within {TIMEOUT} s:\n{out}{err}")
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def carafe(self, *arguments, expect=0, **options):
        result = self.finish(self.start(*arguments, **options))
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result

    def log_of(self, result):
        """Messages of the log lines, without their prefix."""
        return [line.split("] ", 1)[1] for line in result.stderr.splitlines() if "] " in line and line[0] in "IWEF"]


def main():
    """Runs the tests of the calling script and prints `N passed, N failed`."""
    run_and_exit(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
