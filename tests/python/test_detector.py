"""Detector cuts windows out, with their context."""

import unittest

import numpy as np

import caffe
from caffe.detector import context_box
from small_nets import WithFolder


class Windows(WithFolder):

    def setUp(self):
        super().setUp()
        self.model, self.weights, self.values = self.linear_net(size=8)

    def test_are_scored_in_order_over_all_files(self):
        net = caffe.Detector(self.model, self.weights, raw_scale=255, channel_swap=(2, 1, 0))
        first, pixels1 = self.picture_file("1.png", 20, 30)
        second, pixels2 = self.picture_file("2.png", 25, 15, seed=2)
        windows = [(2, 3, 10, 11), np.array([0, 0, 16, 16])], [(5, 1, 25, 9)]
        found = net.detect_windows(zip([first, second], windows))
        self.assertEqual([(entry["filename"], tuple(entry["window"])) for entry in found],
                         [(first, (2, 3, 10, 11)), (first, (0, 0, 16, 16)), (second, (5, 1, 25, 9))])
        parts = pixels1[2:10, 3:11], pixels1[0:16, 0:16], pixels2[5:25, 1:9]
        for entry, part in zip(found, parts):
            planes = caffe.io.resize_image(part, (8, 8)).transpose(2, 0, 1)[::-1] * 255
            np.testing.assert_allclose(entry["prediction"], self.values @ planes.ravel(), rtol=1e-3, atol=1e-2)

    def test_none_gives_none(self):
        self.assertEqual(caffe.Detector(self.model, self.weights).detect_windows([]), [])

    def test_that_make_no_sense_are_refused(self):
        name, _ = self.picture_file("1.png", 20, 30)
        net = caffe.Detector(self.model, self.weights)
        with self.assertRaisesRegex(ValueError, "ymin < ymax"):
            net.detect_windows([(name, [(5, 5, 5, 9)])])
        with self.assertRaisesRegex(ValueError, "outside of the picture of 20 x 30"):
            net.detect_windows([(name, [(40, 40, 50, 50)])])

    def test_selective_search_says_what_it_needs(self):
        with self.assertRaisesRegex(ImportError, "selective_search_ijcv_with_python"):
            caffe.Detector(self.model, self.weights).detect_selective_search(["a.png"])


class Context(WithFolder):

    def test_grows_the_window_around_its_middle(self):
        box, place, size = context_box((20, 30, 59, 89), 227, 16, (200, 200))
        scale = 227 / (227 - 32)
        np.testing.assert_array_equal(box, np.round([40 - scale * 20, 60 - scale * 30, 40 + scale * 20, 60 + scale * 30]))
        self.assertEqual((place, size), ((0, 0), (227, 227)))

    def test_leaves_room_where_the_picture_ends(self):
        for window, place, size in (((0, 10, 9, 19), (2, 0), (8, 10)), ((10, 0, 19, 9), (0, 2), (10, 8)),
                                    ((91, 91, 100, 100), (0, 0), (8, 8))):
            found = context_box(window, 10, 2, (100, 100))
            self.assertEqual(found[1:], (place, size), window)
            self.assertTrue((found[0] >= 0).all() and (found[0] <= 100).all())

    def test_is_filled_with_what_the_net_sees_as_0(self):
        model, weights, _ = self.linear_net(size=10)
        net = caffe.Detector(model, weights, mean=np.array([10, 20, 30]), raw_scale=255, channel_swap=(2, 1, 0),
                             context_pad=2)
        picture = self.picture(100, 100)
        crop = net.crop(picture, (0, 10, 9, 19))
        self.assertEqual(crop.shape, (10, 10, 3))
        np.testing.assert_allclose(crop[0, 0] * 255, [30, 20, 10], rtol=1e-5)
        np.testing.assert_allclose(net.transformer.preprocess("data", crop)[:, :2], 0, atol=1e-4)
        np.testing.assert_allclose(crop[2:], caffe.io.resize_image(picture[0:13, 7:23], (8, 10)), rtol=1e-6)

    def test_without_a_mean_it_is_filled_with_0(self):
        model, weights, _ = self.linear_net(size=10)
        net = caffe.Detector(model, weights, context_pad=2)
        np.testing.assert_array_equal(net.crop(self.picture(100, 100), (0, 10, 9, 19))[:2], 0)

    def test_wants_room_in_a_square_input(self):
        model, weights, _ = self.linear_net(size=10)
        with self.assertRaisesRegex(ValueError, "context_pad 5 wants a square input"):
            caffe.Detector(model, weights, context_pad=5)


if __name__ == "__main__":
    unittest.main()
