"""Nets are drawn: the graph as text, and as a picture where Graphviz is there."""

import os
import shutil
import tempfile
import unittest

from google.protobuf import text_format

import caffe.draw
from caffe.proto import caffe_pb2

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NET = '''
    name: "Ten"
    layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN } data_param { batch_size: 64 } }
    layer { name: "data" type: "Input" top: "data" include { phase: TEST } }
    layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" param { lr_mult: 1 } param { lr_mult: 0.5 }
            convolution_param { num_output: 20 kernel_size: 5 pad_h: 1 pad_w: 2 } }
    layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
    layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
    layer { name: "ip|1" type: "InnerProduct" bottom: "pool" top: "ip\\"1" inner_product_param { num_output: 10 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip\\"1" bottom: "label" top: "loss" exclude { phase: TEST } }'''


def net(text=NET):
    return text_format.Parse(text, caffe_pb2.NetParameter())


class Texts(unittest.TestCase):

    def text(self, rankdir="LR", **options):
        return caffe.draw.get_pydot_graph(net(), rankdir, **options).to_string()

    def test_layers_say_name_type_and_geometry(self):
        text = self.text()
        self.assertIn(r'label="conv\n(Convolution)\nkernel size: 5\nstride: 1\npad: 1x2"', text)
        self.assertIn(r'label="pool\n(AVE Pooling)\nkernel size: 2\nstride: 2\npad: 0"', text)
        self.assertIn('label="conv (Convolution) kernel size: 5 stride: 1 pad: 1x2"', self.text("TB"))

    def test_colors_tell_kinds_apart(self):
        text = self.text()
        for node, color in (("conv_Convolution", "#FF5050"), ("relu_ReLU", "#90EE90"), ("pool_Pooling", "#FF9900"),
                            ("conv_blob", "#E0E0E0"), ("loss_SoftmaxWithLoss", "#6495ED")):
            line = next(line for line in text.split("\n") if line.startswith('  "%s" [' % node))
            self.assertIn('fillcolor="%s"' % color, line)

    def test_edges_say_how_much_they_carry(self):
        text = self.text()
        self.assertIn('"conv_Convolution" -> "conv_blob" [label="20"];', text)
        self.assertIn('"data_Data" -> "label_blob" [label="Batch 64"];', text)
        self.assertIn('"conv_blob" -> "pool_Pooling";', text)
        self.assertIn('"conv_Convolution" -> "conv_blob";', self.text(label_edges=False))

    def test_phase_leaves_the_others_layers_out(self):
        both, train, test = self.text(), self.text(phase=caffe_pb2.TRAIN), self.text(phase=caffe_pb2.TEST)
        self.assertEqual([("data_Data" in text, "data_Input" in text, "loss_" in text) for text in (both, train, test)],
                         [(True, True, True), (True, False, True), (False, True, False)])

    def test_include_and_exclude_together_are_refused(self):
        both = net('layer { name: "a" type: "B" include { phase: TRAIN } exclude { phase: TEST } }')
        with self.assertRaisesRegex(ValueError, "layer a has both include and exclude"):
            caffe.draw.get_pydot_graph(both, "LR", phase=0)
        self.assertIn("a_B", caffe.draw.get_pydot_graph(both, "LR").to_string())

    def test_learning_rate_multipliers_on_demand(self):
        self.assertIn(r'\nlr mult: 1, 0.5"', self.text(display_lrm=True))
        self.assertNotIn("lr mult", self.text())

    def test_names_may_hold_what_means_something_to_graphviz(self):
        text = self.text()
        self.assertIn(r'"ip|1_InnerProduct" [label="ip\|1\n(InnerProduct)"', text)
        self.assertIn(r'"ip\"1_blob" [label="ip\"1"', text)

    def test_old_nets_and_unknown_directions_are_refused(self):
        with self.assertRaisesRegex(ValueError, "upgrade_net_proto_text"):
            caffe.draw.get_pydot_graph(net('layers { name: "a" type: RELU }'), "LR")
        with self.assertRaisesRegex(ValueError, "rankdir"):
            caffe.draw.get_pydot_graph(net(), "left")

    def test_text_needs_no_graphviz(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.dot")
            caffe.draw.draw_net_to_file(net(), path)
            with open(path) as file:
                self.assertEqual(file.read(), self.text())

    def test_missing_program_is_named_with_its_package_and_leaves_no_file(self):
        with self.assertRaisesRegex(RuntimeError, "apt-get install graphviz"):
            caffe.draw.get_pydot_graph(net(), "LR").create(prog="no-such-dot", format="png")


@unittest.skipUnless(shutil.which("dot"), "Graphviz is not there")
class Pictures(unittest.TestCase):

    def test_picture_in_the_format_of_the_files_name(self):
        with tempfile.TemporaryDirectory() as folder:
            for ext, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
                path = os.path.join(folder, "net." + ext)
                caffe.draw.draw_net_to_file(net(), path, "TB", caffe_pb2.TRAIN)
                with open(path, "rb") as file:
                    self.assertEqual(file.read(len(start)), start)

    def test_unknown_format_is_an_error_and_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(RuntimeError, "Tnothing"):
                caffe.draw.draw_net_to_file(net(), os.path.join(folder, "net.nothing"))
            self.assertEqual(os.listdir(folder), [])

    def test_every_net_of_the_repository_can_be_drawn(self):
        drawn = 0
        for top in ("examples", "models"):
            for folder, _, names in os.walk(os.path.join(ROOT, top)):
                for name in names:
                    if name.endswith(".prototxt") and "solver" not in name:
                        with open(os.path.join(folder, name)) as file, self.subTest(name):
                            self.assertIn(b"</svg>", caffe.draw.draw_net(net(file.read()), "LR", "svg"))
                            drawn += 1
        self.assertGreater(drawn, 10)


if __name__ == "__main__":
    unittest.main()
