"""caffe.Blob: arrays without copies, and safe ones."""

import gc
import unittest

import numpy as np

from nets import INPUTS, WithNets


class Views(WithNets):

    def test_share_the_memory_of_the_blob(self):
        blob = self.net(INPUTS).blobs["x"]
        address = blob.data.__array_interface__["data"][0]
        self.assertEqual(blob.data.__array_interface__["data"][0], address)
        self.assertEqual(np.asarray(blob).__array_interface__["data"][0], address)
        self.assertEqual(np.from_dlpack(blob).__array_interface__["data"][0], address)
        self.assertNotEqual(blob.diff.__array_interface__["data"][0], address)
        blob.data[1, 2] = 5
        self.assertEqual(np.asarray(blob)[1, 2], 5)
        self.assertEqual(blob.data.dtype, np.float32)
        self.assertTrue(blob.data.flags.writeable and blob.data.flags.c_contiguous)

    def test_know_their_shape(self):
        blob = self.net(INPUTS).blobs["x"]
        self.assertEqual((blob.shape, blob.count, blob.num, blob.channels, blob.height, blob.width),
                         ((4, 3), 12, 4, 3, 1, 1))
        blob.reshape(2, 3, 2)
        self.assertEqual(blob.data.shape, (2, 3, 2))
        blob.reshape((12,))
        self.assertEqual(blob.data.shape, (12,))
        blob.reshape()
        self.assertEqual(blob.data.shape, ())
        with self.assertRaises(TypeError):
            blob.reshape("a")
        with self.assertRaises(TypeError):
            blob.reshape(1.5)
        with self.assertRaises(RuntimeError):
            blob.reshape(-1, 2)
        with self.assertRaises(RuntimeError):
            blob.reshape(2 ** 40, 2 ** 40)

    def test_are_converted_on_request_only(self):
        blob = self.net(INPUTS).blobs["x"]
        self.assertEqual(np.asarray(blob, dtype=np.float64).dtype, np.float64)
        copy = np.array(blob)
        copy[...] = 9
        self.assertEqual(abs(blob.data).sum(), 0)

    def test_stay_valid_when_the_blob_grows_or_its_net_goes(self):
        net = self.net(INPUTS)
        array, shared = net.blobs["x"].data, np.from_dlpack(net.blobs["x"])
        array[...] = 3
        net.blobs["x"].reshape(4000, 3)
        net.blobs["x"].data[...] = 1
        self.assertTrue((array == 3).all() and (shared == 3).all())
        del net
        gc.collect()
        junk = [np.full(12, 7, np.float32) for _ in range(1000)]  # would be put where the memory was
        self.assertTrue((array == 3).all() and (shared == 3).all())
        array[...] = 4
        del junk

    def test_share_with_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        blob = self.net(INPUTS).blobs["x"]
        torch.from_dlpack(blob)[0, 0] = 6
        self.assertEqual(blob.data[0, 0], 6)


if __name__ == "__main__":
    unittest.main()
