"""classify.py, detect.py and draw_net.py, called as a user calls them."""

import contextlib
import csv
import importlib.util
import io
import os
import subprocess
import sys
import unittest

import numpy as np

import caffe
from small_nets import WithFolder

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Commands(WithFolder):

    def call(self, command, *arguments):
        """(exit code, output, errors) of a command, run in this process: starting Python takes longest of all."""
        path = os.path.join(ROOT, "python", command)
        spec = importlib.util.spec_from_file_location("command", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors:
            code = module.main(list(arguments))
        return code, out.getvalue(), errors.getvalue()

    def test_classify_a_picture_a_folder_and_an_array(self):
        model, weights, _ = self.linear_net()
        pictures = [self.picture_file("%d.png" % i, 10, 12, i)[1] for i in range(3)]
        np.save(self.path("all.npy"), np.stack(pictures))
        expected = caffe.Classifier(model, weights, (6, 6), np.array([1, 2, 3]), raw_scale=255,
                                    channel_swap=(2, 1, 0)).predict(pictures)
        options = ["--model_def", model, "--pretrained_model", weights, "--images_dim", "6,6", "--mean_file", "1,2,3",
                   "--ext", "png"]
        for source, rows in ((self.path("0.png"), 1), (self.folder, 3), (self.path("all.npy"), 3)):
            code, out, errors = self.call("classify.py", *options, source, self.path("out.npy"))
            self.assertEqual(code, 0, errors)
            self.assertIn("Classifying %d inputs." % rows, out)
            np.testing.assert_allclose(np.load(self.path("out.npy")), expected[:rows], rtol=1e-4, atol=1e-3)

    def test_detect_a_list_of_windows(self):
        model, weights, _ = self.linear_net(size=8)
        name, _ = self.picture_file("a.png", 40, 50)
        windows = [(0, 0, 20, 20), (5, 6, 30, 40)]
        table = self.write("in.csv", "filename,ymin,xmin,ymax,xmax\n" + "".join(
            "%s,%d,%d,%d,%d\n" % ((name,) + window) for window in windows))
        code, _, errors = self.call("detect.py", "--crop_mode", "list", "--model_def", model, "--pretrained_model", weights,
                                    "--context_pad", "1", "--mean_file", "", table, self.path("out.csv"))
        self.assertEqual(code, 0, errors)
        expected = caffe.Detector(model, weights, raw_scale=255, channel_swap=(2, 1, 0),
                                  context_pad=1).detect_windows([(name, windows)])
        with open(self.path("out.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([tuple(int(row[key]) for key in ("ymin", "xmin", "ymax", "xmax")) for row in rows], windows)
        for row, found in zip(rows, expected):
            self.assertEqual(row["filename"], name)
            np.testing.assert_allclose([float(row["class0"]), float(row["class1"])], found["prediction"], rtol=1e-5)

    def test_draw_a_net(self):
        self.linear_net()
        command = [sys.executable, os.path.join(ROOT, "python", "draw_net.py")]
        done = subprocess.run(command + [self.path("net.prototxt"), self.path("net.dot"), "--rankdir", "TB"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("net.dot")) as file:
            self.assertIn('label="score (InnerProduct)"', file.read())

    def test_mistakes_get_one_line_and_code_1(self):
        model, weights, _ = self.linear_net()
        table = self.write("in.csv", "filename,ymin,xmin\n")
        text = self.write("text.prototxt", "layer { nme: 3 }")
        for call, expected in (
            (("classify.py", "--model_def", model, "--pretrained_model", weights, self.path("no.png"), "out.npy"), "no.png"),
            (("classify.py", "--model_def", self.path("no.prototxt"), "--pretrained_model", weights, "a", "b"), "no.prototxt"),
            (("detect.py", "--crop_mode", "list", "--model_def", model, "--pretrained_model", weights, "--context_pad", "0",
              table, self.path("out.csv")), "no column ymax"),
            (("detect.py", "in.txt", "out.txt"), "out.txt"),
            (("draw_net.py", text, self.path("net.dot")), "text.prototxt:1:"),
        ):
            code, _, errors = self.call(*call)
            self.assertEqual(code, 1, call)
            self.assertIn("%s: error: " % call[0], errors)
            self.assertIn(expected, errors)


if __name__ == "__main__":
    unittest.main()
