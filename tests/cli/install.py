#!/usr/bin/env python3
"""cmake --install gives a tree that runs, can be moved, and lets a program of a user be built against it."""
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import BUILD, ROOT, CarafeTest, environment, main, mpirun  # noqa: E402

DEPLOY = """
name: "colours"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 10 dim: 3 dim: 6 dim: 8 } } }
layer { name: "mean" type: "Pooling" bottom: "data" top: "mean" pooling_param { pool: AVE global_pooling: true } }
layer { name: "ip" type: "InnerProduct" bottom: "mean" top: "ip" inner_product_param { num_output: 3 } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""


def field(number, content):
    """A length-delimited field of a protobuf message; its number and length below 128 or two bytes."""
    def varint(value):
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)

    return varint(number << 3 | 2) + varint(len(content)) + content


def blob(shape, values):
    """A BlobProto: packed `shape.dim` in field 7, packed `data` in field 5."""
    return field(7, field(1, bytes(shape))) + field(5, struct.pack(f"<{len(values)}f", *values))


class Install(CarafeTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="carafe_install_"))
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.root / "first"], check=True, stdout=subprocess.DEVNULL)
        cls.prefix = (cls.root / "first").rename(cls.root / "moved")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root)
        super().tearDownClass()

    def run_program(self, *command):
        return subprocess.run([str(part) for part in command], cwd=self.dir, env=environment(), text=True,
                              capture_output=True, timeout=120)

    def test_the_program_runs_alone_and_under_both_mpis(self):
        self.assertRegex(self.run_program(self.prefix / "bin/caffe", "--version").stdout, r"^carafe \d")
        self.write_solver(max_iter=4)
        for ranks, mpi in ((1, "openmpi"), (2, "openmpi"), (2, "mpich")):
            result = self.run_program(*mpirun(ranks, mpi), self.prefix / "bin/carafe", "train", "--solver=solver.prototxt")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("Optimization Done.", result.stderr)

    def test_nothing_installed_names_the_build_or_the_source(self):
        for path in self.prefix.rglob("*"):
            if path.is_file() and path.suffix in (".cmake", ".h"):
                text = path.read_text(encoding="utf-8", errors="replace")
                self.assertNotIn(str(ROOT), text, path)
                self.assertNotIn(str(BUILD), text, path)
        library = next(self.prefix.rglob("libcarafe.so"))
        dynamic = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
        self.assertNotIn(str(BUILD), dynamic)

    def test_no_library_is_looked_for_in_the_current_folder(self):
        files = [BUILD / "tools/carafe", *BUILD.glob("lib/*.so"), *BUILD.glob("python/caffe/*.so"),
                 *self.prefix.rglob("*.so"), self.prefix / "bin/carafe"]
        for file in files:
            dynamic = subprocess.run(["readelf", "-d", file], check=True, capture_output=True, text=True).stdout
            for entries in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic):
                self.assertNotIn("", entries.split(":"), f"{file}: {entries}")
        # No program starts with this one.
        libraries = subprocess.run(["ldd", BUILD / "tools/carafe"], check=True, capture_output=True, text=True).stdout
        planted = re.search(r"libfmt\.so\S*", libraries).group()
        self.write(planted, "not a library")
        for program in (BUILD / "tools/carafe", self.prefix / "bin/carafe"):
            self.assertRegex(self.run_program(program, "--version").stdout, r"^carafe \d")

    def write_colours(self):
        """A net that finds the colour of a picture: the scores are the channel means (after the mean) over 100."""
        self.write("deploy.prototxt", DEPLOY)
        weights = [0.01 if i % 4 == 0 else 0.0 for i in range(9)]
        layer = field(1, b"ip") + field(2, b"InnerProduct") + field(7, blob([3, 3], weights)) + \
            field(7, blob([3], [0.0] * 3))
        (self.dir / "net.caffemodel").write_bytes(field(1, b"colours") + field(100, layer))
        # num, channels, height, width of old files (fields 1 to 4), one pixel: subtracts 10, 20, 30.
        (self.dir / "mean.binaryproto").write_bytes(
            bytes([8, 1, 16, 3, 24, 1, 32, 1]) + field(5, struct.pack("<3f", 10, 20, 30)))
        self.write("labels.txt", "blue\ngreen\nred and such\n")

    def build_example(self):
        source = self.dir / "source"
        shutil.copytree(ROOT / "examples/cpp_classification", source)
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        for command in (["cmake", "-S", source, "-B", self.dir / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", *launcher],
                        ["cmake", "--build", self.dir / "build"]):
            result = self.run_program(*command)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return self.dir / "build/classification"

    def test_a_users_program_is_built_against_it_and_classifies(self):
        program = self.build_example()
        self.write_colours()
        pixel = bytes([230, 120, 60])  # red, green, blue
        (self.dir / "red.ppm").write_bytes(b"P6\n# a comment\n5 4\n255\n" + pixel * 20)
        (self.dir / "gray.pgm").write_bytes(b"P5 8 6 255\n" + bytes([100]) * 48)
        files = ["deploy.prototxt", "net.caffemodel", "mean.binaryproto", "labels.txt"]
        result = self.run_program(program, *files, "red.ppm")
        scores = {"blue": 0.5, "green": 1.0, "red and such": 2.0}
        total = sum(map(math.exp, scores.values()))
        expected = [f'{math.exp(scores[name]) / total:.4f} - "{name}"' for name in ("red and such", "green", "blue")]
        self.assertEqual(result.stdout.splitlines()[-3:], expected, result.stderr)
        result = self.run_program(program, *files, "gray.pgm")
        self.assertIn('"blue"', result.stdout.splitlines()[-3], result.stdout + result.stderr)
        # Bad input: one readable line with a remedy.
        (self.dir / "cut.ppm").write_bytes(b"P6 5 4 255\n" + pixel * 3)
        (self.dir / "labels_short.txt").write_text("one\n")
        for arguments, text in (([*files, "cut.ppm"], "cut.ppm: error: "),
                                ([*files, "absent.ppm"], "absent.ppm"),
                                ([*files, "labels.txt"], "labels.txt: error: "),
                                ([*files[:3], "labels_short.txt", "red.ppm"], "has 1 lines, but the net has 3 outputs"),
                                ([*files[:2], "labels.txt", "labels.txt", "red.ppm"], "labels.txt: error: ")):
            result = self.run_program(program, *arguments)
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertIn(text, result.stderr)
            self.assertIn("\n  fix: ", result.stderr)
        self.assertIn("usage: ", self.run_program(program).stderr)


if __name__ == "__main__":
    os.environ.pop("LD_LIBRARY_PATH", None)
    main()
