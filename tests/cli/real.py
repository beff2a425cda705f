#!/usr/bin/env python3
"""Files that people have: `carafe check` over 1,271 nets and solvers of 28 public repositories, and seven trained models.

They are nobody's here, so they are not part of the project: CARAFE_REAL names their folder, and without it the tests
are skipped. A file that is missing (a net, a mean file, a Python module) does not count: the nets refer to them by
paths of their authors."""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import unittest
import urllib.parse
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import BUILD, CARAFE, ROOT, CarafeTest, main  # noqa: E402

REAL = pathlib.Path(os.environ.get("CARAFE_REAL", "/nowhere"))
MISSING = re.compile(r"No such file|cannot be read|import raised|no module|does not exist|the solver names no net|built without Python")
TYPE_OR_FIELD = re.compile(r'unknown layer type|is a layer of|has no field named|is a field of|is not a value of|is understood')
# Of records whose database is not there: ImageNet, MNIST, pairs of MNIST's images, CIFAR, Inception.
SHAPES = ("3,224,224", "1,28,28", "2,28,28", "3,32,32", "3,299,299")
# As many as there are now, so that it can only fall; docs/limits.md names what is behind them.
MOST_REFUSED = 224


def first_error(text):
    lines = [line for line in text.splitlines() if "error: " in line]
    return lines[0].split("error: ", 1)[1] if lines else text.strip()[-200:]


def check(path):
    """The error of `carafe check`, or "" for a file that is fine with one of the shapes; run where the file's paths start."""
    root = REAL / "nets" / path.relative_to(REAL / "nets").parts[0]
    errors = []
    for shape in SHAPES:
        result = subprocess.run([CARAFE, "check", f"--data_shape={shape}", path], cwd=root, capture_output=True, text=True,
                                timeout=300, env=dict(os.environ, OMP_NUM_THREADS="1"))
        if result.returncode == 0:
            return ""
        if result.returncode != 1:
            return f"exit code {result.returncode}: {result.stderr[-300:]}"
        errors.append(first_error(result.stderr) or "no error was printed")
        if MISSING.search(errors[0]) or TYPE_OR_FIELD.search(errors[0]):
            break
    return errors[0]


def read_array(data):
    """Shape and bytes of an .npy file of floats."""
    start = 10 + struct.unpack("<H", data[8:10])[0]
    header = data[10:start].decode()
    assert "'<f4'" in header and "'fortran_order': False" in header, header
    return [int(number) for number in re.findall(r"\d+", header.split("'shape':")[1])], data[start:]


def write_array(shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values


def without_padding(data):
    """OpenCV fills the boxes found up to keep_top_k with rows of zeros."""
    shape, values = read_array(data)
    if len(shape) != 4 or shape[3] != 7:
        return data
    while values.endswith(bytes(28)):
        values = values[:-28]
    return write_array([1, 1, len(values) // 28, 7], values)


@unittest.skipUnless((REAL / "nets").is_dir(), "CARAFE_REAL names no folder of real files")
class RealFiles(CarafeTest):
    def test_few_files_are_refused_for_a_type_or_field(self):
        files = sorted(path for path in (REAL / "nets").rglob("*") if path.is_file())
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            errors = dict(zip(files, pool.map(check, files)))
        refused = collections.Counter()
        kinds = collections.Counter()
        for path, error in errors.items():
            kind = ("fine" if not error else "crash" if error.startswith("exit code") else
                    "missing" if MISSING.search(error) else "type or field" if TYPE_OR_FIELD.search(error) else "other")
            kinds[kind] += 1
            if kind in ("type or field", "other", "crash"):
                refused[kind + ": " + re.sub(r'layer "[^"]*"', "layer", error)[:110]] += 1
        report = "\n".join(f"{count:5} {reason}" for reason, count in refused.most_common())
        print(f"{len(files)} files: {dict(kinds)}\n{report}")
        self.assertEqual(kinds["crash"], 0, report)
        self.assertLessEqual(kinds["type or field"], MOST_REFUSED, report)


@unittest.skipUnless((REAL / "models").is_dir(), "CARAFE_REAL names no folder of real models")
class RealModels(CarafeTest):
    def test_trained_models_answer_as_opencv_does(self):
        """As cases of golden_runner, whose files are not compressed and name blobs; OpenCV names layers."""
        cases = []
        for archive in sorted((REAL / "models").glob("*.npz")):
            name = archive.stem
            folder = self.dir / "set" / name
            folder.mkdir(parents=True)
            net = (REAL / "models" / f"{name}.prototxt").read_text()
            with zipfile.ZipFile(archive) as arrays:
                shape = read_array(arrays.read("input.npy"))[0]
            # The answers are for an input of this size, whatever the file says.
            net = re.sub(r"(input_dim:\s*\d+\s*){4}", "".join(f"input_dim: {dim}\n" for dim in shape), net, count=1)
            (folder / "net.prototxt").write_text(net)
            (folder / "net.caffemodel").write_bytes((REAL / "models" / f"{name}.caffemodel").read_bytes())
            tops = dict(re.findall(r'name:\s*"([^"]*)"\s+type:\s*"\w+"(?:\s+bottom:\s*"[^"]*")*\s+top:\s*"([^"]*)"', net))
            source = re.search(r'input:\s*"([^"]*)"', net)
            source = source.group(1) if source else re.search(r'top:\s*"([^"]*)"', net).group(1)
            with zipfile.ZipFile(archive) as old, zipfile.ZipFile(folder / f"{name}.npz", "w") as new:
                for entry in old.namelist():
                    key = urllib.parse.unquote(entry[:-len(".npy")])
                    if key == "input":
                        key = "in/" + source
                    elif key.startswith(("out/", "inner/")):
                        layer = key.split("/", 1)[1]
                        key = "out/" + tops.get(layer, layer)
                    new.writestr(key + ".npy", without_padding(old.read(entry)))
            cases.append({"name": name, "kind": "model", "dir": name, "net": "net.prototxt", "weights": "net.caffemodel",
                          "rtol": 1e-4, "atol": 1e-4})
        (self.dir / "set" / "index.json").write_text(json.dumps({"set": "real", "cases": cases}))
        result = subprocess.run([BUILD / "tests/golden_runner", self.dir / "set"], capture_output=True, text=True, timeout=600)
        print(result.stdout[-3000:])
        self.assertEqual(len(cases), 7)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    main()
