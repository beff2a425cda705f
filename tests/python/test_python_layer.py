"""Layers written in Python: in caffe.Net, in solvers, and from the command line."""

import gc
import os
import shutil
import subprocess
import unittest

import numpy as np

import caffe
import layers_for_tests
from nets import ROOT, SOLVER, WithNets, environment

NET = """
name: "written in Python" force_backward: true
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "one" type: "Python" bottom: "x" top: "y" python_param { module: "layers_for_tests" layer: "%s" %s } }
layer { name: "two" type: "Python" bottom: "y" top: "z" python_param { module: "layers_for_tests" layer: "Times" } }
"""

TRAINED = """
name: "trained"
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 }
  data_filler { type: "gaussian" std: 1 } data_filler { type: "constant" } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "gaussian" std: 0.1 } } }
layer { name: "py" type: "Python" bottom: "ip" top: "y" python_param { module: "layers_for_tests" layer: "%s" %s } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "label" top: "loss" }
"""


class InANet(WithNets):

    def test_forward_and_backward(self):
        net = self.net(NET % ("Times", 'param_str: "2"'))
        net.blobs["x"].data[...] = 3
        self.assertTrue((net.forward()["z"] == 60).all())
        net.blobs["z"].diff[...] = 7
        self.assertTrue((net.backward()["x"] == 140).all())
        self.assertEqual(net.layers[1].told, [True])
        self.assertEqual((net.layers[1].type, net.layers[1].name), ("Python", "one"))

    def test_reshape(self):
        net = self.net(NET % ("Times", ""))
        net.blobs["x"].reshape(6, 2)
        net.blobs["x"].data[...] = 1
        self.assertEqual(net.forward()["z"].shape, (6, 2))
        self.assertTrue((net.blobs["z"].data == 100).all())

    def test_parameters_start_as_setup_says_and_travel(self):
        text = """layer { name: "sum" type: "Python" top: "s" python_param { module: "layers_for_tests" layer: "Sum" } %s }
            layer { name: "again" type: "Python" top: "t" python_param { module: "layers_for_tests" layer: "Sum" } %s }"""
        net = self.net(text % ("", ""))
        np.testing.assert_array_equal(net.params["sum"][0].data, [3, 4])
        self.assertEqual(net.forward()["s"][0], 7)
        net.params["sum"][0].data[...] = [5, 6]
        self.assertEqual(net.forward()["s"][0], 11)
        net.save(self.path("w.caffemodel"))
        other = caffe.Net(self.path("net.prototxt"), caffe.TRAIN, weights=self.path("w.caffemodel"))
        self.assertEqual(other.forward()["s"][0], 11)
        self.assertEqual(other.layers[0].blobs[0].data[0], 5)
        shared = self.net(text % ('param { name: "w" }', 'param { name: "w" }'))
        shared.params["sum"][0].data[...] = 1
        self.assertEqual(shared.forward()["t"][0], 2)
        third = caffe.Net(self.path("net.prototxt"), caffe.TEST)
        third.share_with(shared)
        self.assertEqual(third.forward()["s"][0], 2)

    def test_phase(self):
        text = 'layer { name: "p" type: "Python" top: "p" python_param { module: "layers_for_tests" layer: "Phase" } }'
        for phase in (caffe.TRAIN, caffe.TEST):
            self.assertEqual(self.net(text, phase).forward()["p"], phase)

    def test_what_a_layer_keeps_is_safe(self):
        net = self.net(NET % ("Keeps", ""))
        net.forward()
        layer, bottom, top = layers_for_tests.Keeps.kept
        self.assertIs(net.layers[1], layer)
        bottom.data[...] = 2  # the net's own, though it was kept in setup
        self.assertTrue((net.blobs["x"].data == 2).all())
        array = top.data
        del net
        gc.collect()
        with self.assertRaisesRegex(caffe.Error, "gone"):
            bottom.data
        array[...] = 1
        self.assertEqual(len(layer.blobs), 0)
        layers_for_tests.Keeps.kept.clear()


class Errors(WithNets):

    def test_come_out_as_they_were_raised(self):
        with self.assertRaisesRegex(RuntimeError, "never works") as raised:
            self.net(NET % ("BadSetup", ""))
        self.assertIn('layer "one"', "".join(getattr(raised.exception, "__notes__", ['layer "one"'])))
        net = self.net(NET % ("FailsLate", ""))
        for _ in range(3):
            net.forward()
        with self.assertRaisesRegex(ValueError, "no luck"):
            net.forward()
        net.forward()
        with self.assertRaises(NotImplementedError):
            self.net(NET % ("Unfinished", "")).forward()

    def test_name_a_class_that_cannot_be_had(self):
        with self.assertRaises(ModuleNotFoundError):
            self.net(NET.replace("layers_for_tests", "no_such_module") % ("Times", ""))
        with self.assertRaises(AttributeError):
            self.net(NET % ("NoSuchLayer", ""))
        with self.assertRaisesRegex(caffe.ConfigError, "NotALayer is no caffe.Layer"):
            self.net(NET % ("NotALayer", ""))
        with self.assertRaisesRegex(caffe.ConfigError, "net.prototxt:.*names no module"):
            self.net('layer { name: "p" type: "Python" top: "t" }')
        with self.assertRaisesRegex(caffe.ConfigError, "add_blob"):
            self.net(NET % ("Times", "")).layers[0].blobs.add_blob(1)


@unittest.skipIf("LD_PRELOAD" in os.environ, "the program is not the one that the sanitizer watches")
class CommandLine(WithNets):

    def carafe(self, kind, *launch):
        net = self.write("net.prototxt", TRAINED % (kind, 'param_str: "1"'))
        solver = self.write("solver.prototxt", SOLVER.format(net=net, prefix=self.path("snap"), more="").replace(
            "test_iter: 2 test_interval: 10", ""))
        variables = dict(environment(), PYTHONPATH=os.path.dirname(os.path.abspath(__file__)))
        program = os.path.join(ROOT, "build", "tools", "carafe")
        return subprocess.run([*launch, program, "train", "--solver=" + solver], env=variables, timeout=120,
                              capture_output=True, text=True)

    def test_trains_a_net_with_such_a_layer(self):
        done = self.carafe("Times")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Optimization Done.", done.stderr)

    def test_prints_where_and_what_was_raised(self):
        done = self.carafe("FailsLate")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r'net.prototxt:\d+:\d+: error: layer "py"')
        self.assertIn("Traceback", done.stderr)
        self.assertIn("ValueError: no luck on rank 0 of 1", done.stderr)

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_layers_know_their_rank_under_mpirun(self):
        done = self.carafe("FailsLate", "mpirun", "-n", "2")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no luck on rank 1 of 2", done.stderr)


if __name__ == "__main__":
    unittest.main()
