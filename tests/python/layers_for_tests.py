"""Layers written in Python that the tests' nets name."""

import os

import caffe


class Times(caffe.Layer):
    """top = factor * bottom, the factor being param_str, or 10."""

    def setup(self, bottom, top):
        self.factor = float(self.param_str or 10)

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].data.shape)

    def forward(self, bottom, top):
        top[0].data[...] = self.factor * bottom[0].data

    def backward(self, top, propagate_down, bottom):
        self.told = list(propagate_down)
        if propagate_down[0]:
            bottom[0].diff[...] = self.factor * top[0].diff


class Sum(caffe.Layer):
    """A parameter that starts at [3, 4] and is added up."""

    def setup(self, bottom, top):
        self.blobs.add_blob(2)
        self.blobs[0].data[...] = [3, 4]

    def reshape(self, bottom, top):
        top[0].reshape(1)

    def forward(self, bottom, top):
        top[0].data[0] = self.blobs[0].data.sum()

    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[...] += top[0].diff[0]


class Phase(caffe.Layer):

    def reshape(self, bottom, top):
        top[0].reshape()

    def forward(self, bottom, top):
        top[0].data[()] = self.phase


class Keeps(Times):
    """Remembers what it was given, as real ones do."""
    kept = []

    def setup(self, bottom, top):
        super().setup(bottom, top)
        Keeps.kept[:] = [self, bottom[0], top[0]]


class BadSetup(caffe.Layer):

    def setup(self, bottom, top):
        raise RuntimeError("this layer never works")


class FailsLate(Times):
    """Raises in the fourth forward pass, on the last rank."""
    passes = 0

    def forward(self, bottom, top):
        super().forward(bottom, top)
        self.passes += 1
        if self.passes == 4 and caffe.rank() == caffe.size() - 1:
            raise ValueError("no luck on rank {} of {}".format(caffe.rank(), caffe.size()))


class Raises(Times):
    """Raises in the method that `where` names."""
    where = None

    def check(self, method):
        if Raises.where == method:
            raise ArithmeticError("wrong in " + method)

    def setup(self, bottom, top):
        self.check("setup")
        super().setup(bottom, top)

    def reshape(self, bottom, top):
        self.check("reshape")
        super().reshape(bottom, top)

    def forward(self, bottom, top):
        self.check("forward")
        super().forward(bottom, top)

    def backward(self, top, propagate_down, bottom):
        super().backward(top, propagate_down, bottom)
        self.check("backward")


class Proposals(caffe.Layer):
    """As many rows as the bottom's first value says: known, and told, in forward only."""

    def reshape(self, bottom, top):
        top[0].reshape(1, 3)

    def forward(self, bottom, top):
        rows = int(bottom[0].data[0, 0])
        top[0].reshape(rows, 3)
        top[0].data[...] = rows

    def backward(self, top, propagate_down, bottom):
        bottom[0].diff[...] = top[0].diff.sum()


class RunsANet(Times):
    net = None

    def forward(self, bottom, top):
        RunsANet.net.forward(x=bottom[0].data)
        super().forward(bottom, top)


class Unfinished(caffe.Layer):

    def reshape(self, bottom, top):
        top[0].reshape(1)


class NotALayer:
    pass


class Crash(Times):
    """Ends the last rank's process in the middle of a pass."""

    def forward(self, bottom, top):
        super().forward(bottom, top)
        if caffe.rank() == caffe.size() - 1:
            os._exit(3)
