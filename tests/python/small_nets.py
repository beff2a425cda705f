"""Nets with known weights, as files in a folder that goes away with the test."""

import os
import tempfile
import unittest

import numpy as np

import caffe
from caffe import layers as L


class WithFolder(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(str(text))
        return self.path(name)

    def linear_net(self, batch=3, size=4, classes=2, channels=3):
        """A fully connected layer over the input: its files, and its weights (classes x values)."""
        n = caffe.NetSpec()
        n.data = L.Input(shape=dict(dim=[batch, channels, size, size]))
        n.score = L.InnerProduct(n.data, num_output=classes, bias_term=False)
        model, weights = self.write("net.prototxt", n.to_proto()), self.path("net.caffemodel")
        net = caffe.Net(model, caffe.TEST)
        values = np.random.default_rng(1).standard_normal(net.params["score"][0].data.shape).astype(np.float32)
        net.params["score"][0].data[...] = values
        net.save(weights)
        return model, weights, values

    def picture(self, height, width, seed=1):
        return np.random.default_rng(seed).random((height, width, 3)).astype(np.float32)

    def picture_file(self, name, height, width, seed=1):
        from PIL import Image
        pixels = (self.picture(height, width, seed) * 255).astype(np.uint8)
        Image.fromarray(pixels).save(self.path(name))
        return self.path(name), pixels.astype(np.float32) / 255
