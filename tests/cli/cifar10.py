#!/usr/bin/env python3
"""examples/cifar10 from its scripts to 20 iterations: on pictures drawn here, and on CIFAR-10 where it is there."""
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import BUILD, ROOT, TIMEOUT, environment, main  # noqa: E402

CLASSES = "airplane automobile bird cat deer dog frog horse ship truck".split()
DATA = ROOT / os.environ.get("CARAFE_DATA", "data")


def picture(label, rng):
    """32x32 R G B bytes, pixels together: a stripe that depends on the class, and noise."""
    pixels = bytearray()
    for y in range(32):
        for x in range(32):
            level = 200 if (x + label * y) % 10 < 5 else 40
            pixels += bytes(min(255, max(0, level + (label * 20 if c == label % 3 else 0) + rng.randrange(-20, 21)))
                            for c in range(3))
    return bytes(pixels)


class Cifar10(unittest.TestCase):
    """Each test has a folder that looks like the root of the repository."""

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="carafe_cifar10_"))
        self.addCleanup(shutil.rmtree, self.root)
        self.example = self.root / "examples/cifar10"
        self.example.mkdir(parents=True)
        for path in (ROOT / "examples/cifar10").iterdir():
            if path.suffix in (".sh", ".prototxt"):
                shutil.copy(path, self.example)
        (self.root / "build").symlink_to(BUILD)
        self.data = self.root / "data/cifar10"
        self.shorten("cifar10_quick")

    def shorten(self, name):
        """20 iterations of 20 pictures, a test of 100 before and after."""
        for file, changes in ((f"{name}_solver.prototxt",
                               ((r"max_iter: \d+", "max_iter: 20"), (r"test_iter: \d+", "test_iter: 5"),
                                (r"test_interval: \d+", "test_interval: 20"), (r"display: \d+", "display: 10"))),
                              (f"{name}_train_test.prototxt", ((r"batch_size: \d+", "batch_size: 20"),))):
            text = (self.example / file).read_text()
            for old, new in changes:
                self.assertRegex(text, old)
                text = re.sub(old, new, text)
            (self.example / file).write_text(text + ("random_seed: 5\n" if "solver" in file else ""))

    def draw(self, per_class=30):
        rng = random.Random(1)
        for part, count in (("train", per_class), ("test", 10)):
            for label, name in enumerate(CLASSES):
                folder = self.data / part / name
                folder.mkdir(parents=True)
                for i in range(count):
                    (folder / f"{i:04d}.ppm").write_bytes(b"P6\n32 32\n255\n" + picture(label, rng))

    def run_script(self, *command, **env):
        env = {**environment(), "CARAFE_DATA": "data", **env}
        result = subprocess.run([str(c) for c in command], cwd=self.root, env=env, text=True, timeout=4 * TIMEOUT,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def losses(self, log):
        return [float(x) for x in re.findall(r"Iteration \d+.*, loss = ([\d.e+-]+)", log)]

    def check_training(self, log):
        self.assertIn("Optimization Done.", log)
        self.assertTrue((self.example / "cifar10_quick_iter_20.caffemodel").exists())
        self.assertAlmostEqual(self.losses(log)[0], 2.3026, delta=0.05)  # ln 10: no class is favoured yet

    def test_pictures_to_lmdb_to_twenty_iterations(self):
        self.draw()
        self.run_script("examples/cifar10/create_cifar10.sh")
        self.assertIn("there already", self.run_script("examples/cifar10/create_cifar10.sh"))
        log = self.run_script("build/tools/carafe", "train", "--solver=examples/cifar10/cifar10_quick_solver.prototxt")
        self.check_training(log)

    def test_binary_files_to_leveldb_read_by_two_ranks_at_once(self):
        folder = self.data / "cifar-10-batches-bin"
        folder.mkdir(parents=True)
        rng = random.Random(2)
        for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
            with (folder / f"{name}.bin").open("wb") as file:
                for i in range(60):
                    pixels = picture(i % 10, rng)
                    file.write(bytes([i % 10]) + pixels[0::3] + pixels[1::3] + pixels[2::3])
        self.run_script("examples/cifar10/create_cifar10.sh", "leveldb")
        net = self.example / "cifar10_quick_train_test.prototxt"
        net.write_text(net.read_text().replace("_lmdb", "_leveldb").replace("backend: LMDB", "backend: LEVELDB"))
        before = {path: path.stat().st_mtime_ns for path in self.example.glob("*_leveldb/*")}
        self.assertGreater(len(before), 0)
        log = self.run_script("examples/cifar10/mpi_train_quick.sh", "--global_batch=20",
                              MPIRUN="mpirun.openmpi")
        self.check_training(log)
        self.assertEqual({path: path.stat().st_mtime_ns for path in self.example.glob("*_leveldb/*")}, before)

    def test_one_process_per_device_as_caffe_parallel_starts_them(self):
        self.draw(4)
        self.run_script("examples/cifar10/create_cifar10.sh")
        log = self.run_script("examples/cifar10/mpi_train.sh", MPIRUN="mpirun.openmpi")
        self.check_training(log)
        self.assertIn("2 workers", log)

    def test_full_net_runs_too(self):
        self.draw(4)
        self.shorten("cifar10_full")
        self.run_script("examples/cifar10/create_cifar10.sh")
        log = self.run_script("build/tools/carafe", "train", "--solver=examples/cifar10/cifar10_full_solver.prototxt")
        self.assertIn("Optimization Done.", log)
        for net in ("quick", "full"):
            self.run_script("build/tools/carafe", "check", f"examples/cifar10/cifar10_{net}.prototxt")

    def test_absent_data_are_asked_for(self):
        result = subprocess.run(["examples/cifar10/create_cifar10.sh"], cwd=self.root, text=True, capture_output=True,
                                env={**environment(), "CARAFE_DATA": "nowhere"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("error: CIFAR-10 is not in nowhere/cifar10", result.stderr)

    def test_real_pictures(self):
        archive = DATA / "cifar10/cifar10-jpeg.tar.xz"
        if not archive.exists():
            self.skipTest(f"CIFAR-10 is not there: no {archive}")
        with tarfile.open(archive, "r|xz") as members:  # some of them: all 60,000 would take a minute
            for member in members:
                if member.isfile() and int(pathlib.Path(member.name).stem) % 50 == 0:
                    members.extract(member, self.data, filter="data") if hasattr(tarfile, "data_filter") \
                        else members.extract(member, self.data)
        self.run_script("examples/cifar10/create_cifar10.sh")
        log = self.run_script("build/tools/carafe", "train", "--solver=examples/cifar10/cifar10_quick_solver.prototxt")
        self.check_training(log)


if __name__ == "__main__":
    main()
