"""The reference numbers of tests/golden, through caffe.Net and the solvers: layers, whole solver runs, files of weights, and
what must be refused.

Random parts are left out here, and what only tools show: the native runner has them all.
"""

import json
import os
import shutil
import tempfile
import unittest

import numpy as np

import caffe
from nets import ROOT

GOLDEN = os.path.join(ROOT, "tests", "golden")


def error_of(expected, found):
    """The largest difference, relative to the number itself or to 5 % of the array's largest."""
    if expected.shape != found.shape:
        return np.inf
    if expected.size == 0 or expected.dtype.kind == "U":
        return 0.0 if np.array_equal(expected, found) else np.inf
    expected, found = expected.astype(np.float64), found.astype(np.float64)
    odd = ~np.isfinite(expected)
    if not np.array_equal(expected[odd], found[odd], equal_nan=True):
        return np.inf
    expected, found = expected[~odd], found[~odd]
    if expected.size == 0:
        return 0.0
    gap = abs(expected - found)
    scale = np.maximum(abs(expected), max(0.05 * abs(expected).max(), 1e-30))
    return float(np.where(gap <= 1e-6, 0, gap / scale).max())


class Golden(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.before = os.getcwd()
        cls.folder = tempfile.mkdtemp()
        shutil.copytree(GOLDEN, os.path.join(cls.folder, "golden"))
        os.chdir(os.path.join(cls.folder, "golden"))
        with open("index.json") as file:
            cls.cases = json.load(file)["cases"]

    @classmethod
    def tearDownClass(cls):
        os.chdir(cls.before)
        shutil.rmtree(cls.folder)

    def set_parameters(self, net, arrays):
        for key in arrays:
            if key.startswith("param/"):
                _, layer, index = key.split("/")
                net.params[layer][int(index)].data[...] = arrays[key]

    def one_pass(self, net, case, arrays, prefix, first):
        given = {key[len(prefix) + 3:]: arrays[key] for key in arrays if key.startswith(prefix + "in/")}
        for name, array in given.items():
            if net.blobs[name].shape != array.shape:
                net.blobs[name].reshape(*array.shape)
        net.reshape()
        for name, array in given.items():
            net.blobs[name].data[...] = array
        if prefix + "mem/data" in arrays:
            net.set_input_arrays(arrays[prefix + "mem/data"].copy(), arrays[prefix + "mem/label"].copy())
        net.forward()
        found = {"out/" + name: net.blobs[name].data.copy() for name in case["outs"]}
        for layer in case.get("param_after", []):
            for i, blob in enumerate(net.params[layer]):
                found["param_after/%s/%d" % (layer, i)] = blob.data.copy()
        if case.get("backward"):
            if first or not case.get("accumulate"):
                net.clear_param_diffs()
            for key in arrays:
                if key.startswith(prefix + "top_diff/"):
                    net.blobs[key[len(prefix) + 9:]].diff[...] = arrays[key]
            net.backward()
            for name in case.get("bottom_diffs", []):
                found["bottom_diff/" + name] = net.blobs[name].diff.copy()
            for layer in case.get("param_diffs", []):
                for i, blob in enumerate(net.params[layer]):
                    found["param_diff/%s/%d" % (layer, i)] = blob.diff.copy()
        return found

    def run_layer(self, case):
        base = os.path.join(case.get("dir", "layers"), case["name"])
        with np.load(base + ".npz") as file:
            arrays = dict(file)
        caffe.set_solver_count(case.get("solver_count", 1))
        caffe.set_solver_rank(case.get("solver_rank", 0))
        options = {key: case[key] for key in ("level", "stages") if case.get(key)}
        net = caffe.Net(base + ".prototxt", case["phase"], **options)
        self.set_parameters(net, arrays)
        compared = 0
        for number in range(case["iters"]):
            prefix = "it%d/" % number if case["iters"] > 1 else ""
            found = self.one_pass(net, case, arrays, prefix, number == 0)
            for key in arrays:
                if key.startswith(prefix) and key[len(prefix):] in found:
                    allowed = 0 if case.get("exact") else case.get("rtol", 1e-4)
                    got = found[key[len(prefix):]]
                    close = arrays[key].shape == got.shape and np.allclose(
                        arrays[key], got, rtol=0, atol=case.get("atol", 1e-6), equal_nan=True)
                    self.assertTrue(close or error_of(arrays[key], got) <= allowed, key)
                    compared += 1
        self.assertGreater(compared, 0)

    def test_layers(self):
        try:
            for case in self.cases:
                if case["kind"] == "layer" and not case.get("h5out"):
                    with self.subTest(case["name"]):
                        self.run_layer(case)
        finally:
            caffe.set_solver_rank(0)
            caffe.set_solver_count(1)

    def run_solver(self, case):
        folder = os.path.join("solvers", case["name"])
        with np.load(os.path.join(folder, "expected.npz")) as file:
            arrays = dict(file)
        solver = caffe.get_solver(os.path.join(folder, "solver.prototxt"))
        self.set_parameters(solver.net, arrays)
        losses = []
        for iteration in range(case["iters"] + 1):
            if iteration in case["record"]:
                for layer, blobs in solver.net.params.items():
                    for i, blob in enumerate(blobs):
                        expected = arrays["w%d/%s/%d" % (iteration, layer, i)]
                        allowed = 1e-4 if iteration <= 2 else case.get("late_rtol", 1e-3)
                        self.assertLessEqual(error_of(expected, blob.data), allowed, (iteration, layer))
            if iteration < case["iters"]:
                solver.step(1)
                losses.append(float(solver.net.blobs["loss"].data))
        self.assertLessEqual(error_of(arrays["loss"], np.float32(losses)), case.get("late_rtol", 1e-3))

    def test_solvers(self):
        for case in self.cases:
            if case["kind"] == "solver":
                with self.subTest(case["name"]):
                    self.run_solver(case)

    def run_model(self, case):
        with np.load(os.path.join(case["dir"], case["name"] + ".npz")) as file:
            arrays = dict(file)
        net = caffe.Net(os.path.join(case["dir"], case["net"]), case.get("phase", caffe.TEST))
        load = net.load_hdf5 if case.get("load_hdf5") else net.copy_from
        load(os.path.join(case["dir"], case["weights"]))
        for key, array in arrays.items():
            if key.startswith("param/"):
                _, layer, index = key.split("/")
                np.testing.assert_array_equal(net.params[layer][int(index)].data, array, key)
            elif key.startswith("in/"):
                net.blobs[key[3:]].data[...] = array
        net.forward()
        outputs = [key for key in arrays if key.startswith("out/")]
        self.assertTrue(outputs)
        for key in outputs:
            self.assertLessEqual(error_of(arrays[key], net.blobs[key[4:]].data), 1e-4, key)

    def test_files_of_weights(self):
        for case in self.cases:
            if case["kind"] == "model":
                with self.subTest(case["name"]):
                    self.run_model(case)

    def use(self, case):
        """Makes a net or solver, and runs it where the case says that only running shows the mistake."""
        if case.get("solver"):
            solver = caffe.get_solver(case["path"])
            if case.get("run"):
                solver.step(1)
            return
        net = caffe.Net(case["path"], case.get("phase", caffe.TRAIN))
        if case.get("weights"):
            net.copy_from(case["weights"])
        if case.get("run"):
            net.forward()
        if case.get("run") == "backward":
            net.backward()

    def test_what_must_be_refused_is_an_exception_that_says_how_to_fix_it(self):
        refused = 0
        for case in self.cases:
            if case["kind"] == "reject":
                with self.subTest(case["name"]):
                    with self.assertRaisesRegex(caffe.Error, "(?s)error: .*fix: ", msg=case["why"]):
                        self.use(case)
                refused += 1
        self.assertGreater(refused, 50)


if __name__ == "__main__":
    unittest.main()
