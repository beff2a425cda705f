"""Coordinate maps, checked by hand and against nets that were published."""

import unittest

import numpy as np

from caffe import layers as L
from caffe import params as P
from caffe.coord_map import (AxisMismatchException, UndefinedMapException, compose, coord_map, coord_map_from_to, crop,
                             inverse)


def data():
    return L.Input(shape=dict(dim=[1, 3, 100, 100]))


class Maps(unittest.TestCase):

    def check(self, found, axis, scale, shift):
        self.assertEqual(found[0], axis)
        np.testing.assert_array_equal(np.ravel(found[1]), np.ravel(scale))
        np.testing.assert_array_equal(np.ravel(found[2]), np.ravel(shift))

    def test_of_single_layers(self):
        x = data()
        self.check(coord_map(L.Convolution(x, kernel_size=5, stride=2, pad=1).fn), 1, 0.5, -0.5)
        self.check(coord_map(L.Convolution(x, kernel_size=3, dilation=4).fn), 1, 1, -4)
        self.check(coord_map(L.Pooling(x, kernel_size=2, stride=2).fn), 1, 0.5, -0.25)
        self.check(coord_map(L.Pooling(x, pooling_param=dict(kernel_size=2, stride=2)).fn), 1, 0.5, -0.25)
        self.check(coord_map(L.Deconvolution(x, convolution_param=dict(kernel_size=4, stride=2, pad=1)).fn), 1, 2, 0.5)
        self.check(coord_map(L.Crop(x, x, axis=2, offset=[3, 4]).fn), 1, 1, [-3, -4])
        self.check(coord_map(L.ReLU(x).fn), None, 1, 0)

    def test_compose_and_inverse(self):
        self.check(compose((1, 2, 3), (None, 4, 5)), 1, 8, 13)
        self.check(compose(inverse((1, 2.0, 3)), (1, 2.0, 3)), 1, 1, 0)
        with self.assertRaises(AxisMismatchException):
            compose((1, 2, 3), (2, 1, 0))

    def test_sizes_may_differ_by_axis(self):
        conv = L.Convolution(data(), kernel_size=[3, 5], stride=[1, 2], pad=[0, 10])
        self.check(coord_map(conv.fn), 1, [1, 0.5], [-1, 4])

    def test_layers_that_are_not_spatial_have_none(self):
        with self.assertRaises(UndefinedMapException):
            coord_map(L.InnerProduct(data(), num_output=1).fn)

    def test_height_and_width_apart_are_refused(self):
        with self.assertRaisesRegex(AssertionError, "_h/_w params .kernel_h"):
            coord_map(L.Convolution(data(), kernel_h=3, kernel_size=3).fn)

    def test_go_through_both_branches(self):
        x = data()
        left = L.Convolution(x, kernel_size=3, stride=2)
        right = L.Convolution(L.ReLU(x), kernel_size=3, pad=1, stride=4)
        self.check(coord_map_from_to(left, right), 1, 0.5, 0.25)
        self.check(coord_map_from_to(right, left), 1, 2, -0.5)

    def test_crop_follows_its_first_bottom(self):
        x, other = data(), data()
        self.check(coord_map_from_to(L.Crop(x, other, axis=2, offset=6), x), 1, 1, 6)

    def test_several_bottoms_are_mapped_alike(self):
        x, y = data(), data()
        a, b = L.Convolution(x, y, kernel_size=3, ntop=2)
        for top in (a, b):
            for bottom in (x, y):
                self.check(coord_map_from_to(top, bottom), 1, 1, 1)


class Crops(unittest.TestCase):

    def fcn(self, stride, kernel):
        """The spatial skeleton of the fully convolutional VGG16: five blocks, a 7x7 convolution, one deconvolution."""
        x = top = data()
        for block, convolutions in enumerate((2, 2, 3, 3, 3)):
            for i in range(convolutions):
                top = L.ReLU(L.Convolution(top, kernel_size=3, pad=100 if block == i == 0 else 1), in_place=True)
            top = L.Pooling(top, kernel_size=2, stride=2, pool=P.Pooling.MAX)
        top = L.Dropout(L.Convolution(top, kernel_size=7), in_place=True)
        return x, L.Deconvolution(top, convolution_param=dict(num_output=21, kernel_size=kernel, stride=stride))

    def test_offset_of_fcn32s_is_19(self):
        x, score = self.fcn(32, 64)
        top = crop(score, x)
        self.assertEqual(top.fn.params, {"crop_param": {"axis": 2, "offset": [19]}})
        self.assertEqual(top.to_proto().layer[-1].crop_param.offset[0], 19)

    def test_other_scale_is_refused(self):
        x, score = self.fcn(16, 32)
        with self.assertRaisesRegex(AssertionError, "scale mismatch"):
            crop(score, x)

    def test_negative_and_broken_offsets_are_refused(self):
        x = data()
        with self.assertRaisesRegex(AssertionError, "negative offset"):
            crop(L.Convolution(x, kernel_size=3), x)
        with self.assertRaisesRegex(AssertionError, "noninteger offset"):
            crop(L.Convolution(x, kernel_size=2, pad=4), x)

    def test_tops_without_a_common_ancestor_are_refused(self):
        x = data()
        for top in (L.InnerProduct(x, num_output=3), L.Convolution(data(), kernel_size=1)):
            with self.assertRaisesRegex(RuntimeError, "connected by spatial layers"):
                coord_map_from_to(top, x)

    def test_tops_of_equal_coordinates_are_cropped_at_0(self):
        x = data()
        self.assertEqual(crop(L.ReLU(x), x).fn.params["crop_param"], {"axis": 2, "offset": [0]})


if __name__ == "__main__":
    unittest.main()
