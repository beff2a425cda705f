"""Classifier gives what its steps, done by hand, give."""

import unittest

import numpy as np

import caffe
from small_nets import WithFolder


class Predictions(WithFolder):

    def by_hand(self, crops, values, mean):
        planes = crops.transpose(0, 3, 1, 2)[:, ::-1] * 255 - mean[:, None, None]
        return planes.reshape(len(crops), -1) @ values.T

    def setUp(self):
        super().setUp()
        model, weights, self.values = self.linear_net()
        self.mean = np.array([1, 2, 3])
        self.net = caffe.Classifier(model, weights, image_dims=(6, 8), mean=self.mean, raw_scale=255,
                                    channel_swap=(2, 1, 0))
        self.pictures = [self.picture(12, 16, seed) for seed in range(4)]  # not a multiple of the batch of 3
        self.resized = np.stack([caffe.io.resize_image(picture, (6, 8)) for picture in self.pictures])

    def test_of_ten_crops_are_their_mean(self):
        crops = caffe.io.oversample(self.resized, (4, 4))
        expected = self.by_hand(crops, self.values, self.mean).reshape(4, 10, 2).mean(1)
        found = self.net.predict(self.pictures)
        self.assertEqual(found.shape, (4, 2))
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-2)

    def test_of_the_middle_alone(self):
        expected = self.by_hand(self.resized[:, 1:5, 2:6], self.values, self.mean)
        np.testing.assert_allclose(self.net.predict(self.pictures, oversample=False), expected, rtol=1e-3, atol=1e-2)

    def test_input_scale_multiplies_at_the_end(self):
        self.net.transformer.set_input_scale("data", 0.5)
        expected = self.by_hand(self.resized[:, 1:5, 2:6], self.values, self.mean) * 0.5
        np.testing.assert_allclose(self.net.predict(self.pictures, oversample=False), expected, rtol=1e-3, atol=1e-2)

    def test_pictures_get_the_inputs_size_unless_another_is_given(self):
        net = caffe.Classifier(self.path("net.prototxt"), self.path("net.caffemodel"))
        self.assertEqual(tuple(net.image_dims), (4, 4))
        self.assertEqual(net.predict(self.pictures[:1]).shape, (1, 2))

    def test_it_is_a_net_in_test_phase(self):
        self.assertIsInstance(self.net, caffe.Net)
        self.assertEqual(self.net.inputs, ["data"])

    def test_nothing_to_predict_and_too_small_pictures_are_refused(self):
        with self.assertRaisesRegex(ValueError, "at least one picture"):
            self.net.predict([])
        self.net.image_dims = (3, 3)
        with self.assertRaisesRegex(ValueError, "smaller than the net's input"):
            self.net.predict(self.pictures, oversample=False)


if __name__ == "__main__":
    unittest.main()
