"""caffe.Net: what it consists of, how it runs, and how its weights travel."""

import collections
import gc
import unittest
import warnings

import numpy as np

import caffe
from nets import INPUTS, TWO_LAYERS, WithNets


class Structure(WithNets):

    def test_names_and_layers_are_those_of_the_file(self):
        net = self.net(TWO_LAYERS)
        self.assertIsInstance(net.blobs, collections.OrderedDict)
        self.assertEqual(list(net.blobs), ["data", "label", "conv", "ip_blob", "loss"])
        self.assertEqual(list(net._layer_names), ["data", "conv", "ip", "loss"])
        self.assertEqual([layer.type for layer in net.layers],
                         ["DummyData", "Convolution", "InnerProduct", "SoftmaxWithLoss"])
        self.assertEqual(list(net.layer_dict), list(net._layer_names))
        self.assertEqual(net.layer_dict["ip"].type, "InnerProduct")
        self.assertEqual(net.inputs, [])
        self.assertEqual(net.outputs, ["loss"])
        self.assertEqual(net.top_names["data"], ["data", "label"])
        self.assertEqual(net.bottom_names["loss"], ["ip_blob", "label"])
        self.assertEqual(net.blob_loss_weights["loss"], 1)
        self.assertEqual(net.blob_loss_weights["conv"], 0)

    def test_only_layers_with_parameters_are_in_params(self):
        net = self.net(TWO_LAYERS)
        self.assertEqual(list(net.params), ["conv", "ip"])
        self.assertEqual([blob.shape for blob in net.params["conv"]], [(4, 2, 2, 2), (4,)])
        self.assertEqual(len(net.params["ip"]), 2)
        self.assertEqual(net.params["ip"][-1].shape, (3,))
        with self.assertRaises(IndexError):
            net.params["ip"][2]

    def test_a_blob_that_two_layers_read_has_its_splits_in_blobs(self):
        net = self.net(INPUTS + 'layer { name: "c" type: "ReLU" bottom: "a" top: "c" }')
        self.assertIn("a_a_0_split_0", net.blobs)

    def test_blobs_outlive_their_net(self):
        net = self.net(TWO_LAYERS)
        net.forward()
        net.backward()
        blobs = list(net.blobs.values()) + sum(map(list, net.params.values()), [])
        arrays = [blob.data for blob in blobs]
        before = [array.copy() for array in arrays]
        del net
        gc.collect()
        for blob, array, old in zip(blobs, arrays, before):
            np.testing.assert_array_equal(blob.data, old)
            np.testing.assert_array_equal(array, old)
        del blobs, blob
        gc.collect()
        np.testing.assert_array_equal(arrays[0], before[0])

    def test_levels_and_stages_choose_layers(self):
        text = INPUTS + """
layer { name: "level1" type: "ReLU" bottom: "b" top: "l" include { min_level: 1 } }
layer { name: "stage" type: "ReLU" bottom: "b" top: "s" include { stage: "A" stage: "B" } }
layer { name: "not_c" type: "ReLU" bottom: "b" top: "n" include { not_stage: "C" } }"""
        self.assertEqual(self.net(text).outputs, ["n"])
        self.assertEqual(self.net(text, level=1, stages=["C"]).outputs, ["l"])
        self.assertEqual(self.net(text, stages=["A", "B", "C"]).outputs, ["s"])
        self.assertEqual(self.net(text, stages=["A"]).outputs, ["n"])

    def test_the_summary_is_text_and_html(self):
        summary = self.net(TWO_LAYERS).summary()
        self.assertIn("conv", str(summary))
        self.assertIn("Convolution", repr(summary))
        self.assertIn("<td>Convolution</td>", summary._repr_html_())


class Running(WithNets):

    def test_forward_and_backward_agree_with_numpy(self):
        net = self.net(INPUTS)
        x = np.random.RandomState(1).randn(4, 3).astype(np.float32)
        out = net.forward(x=x)
        wa, wb = (net.params[name][0].data for name in "ab")
        self.assertEqual(list(out), ["b"])
        np.testing.assert_allclose(out["b"], x @ wa.T @ wb.T, rtol=1e-4, atol=1e-5)
        diff = np.random.RandomState(2).randn(4, 2).astype(np.float32)
        back = net.backward(b=diff)
        self.assertEqual(list(back), ["x"])
        np.testing.assert_allclose(back["x"], diff @ wb @ wa, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(net.params["b"][0].diff, diff.T @ net.blobs["a"].data, rtol=1e-4, atol=1e-5)
        net.clear_param_diffs()
        self.assertEqual(abs(net.params["b"][0].diff).sum(), 0)

    def test_start_and_end_run_a_part(self):
        net = self.net(INPUTS)
        net.blobs["x"].data[...] = 1
        self.assertEqual(list(net.forward(end="a")), ["a"])
        self.assertEqual(abs(net.blobs["b"].data).sum(), 0)
        net.blobs["a"].data[...] = 2
        out = net.forward(start="b", blobs=["x"])
        self.assertEqual(sorted(out), ["b", "x"])
        np.testing.assert_allclose(out["b"], np.full((4, 5), 2) @ net.params["b"][0].data.T, rtol=1e-5)
        net.blobs["b"].diff[...] = 1
        back = net.backward(end="b")
        np.testing.assert_allclose(back["a"], np.ones((4, 2)) @ net.params["b"][0].data, rtol=1e-5)
        self.assertEqual(abs(net.blobs["x"].diff).sum(), 0)
        net.blobs["a"].diff[...] = 3
        back = net.backward(start="a", diffs=["a"])
        np.testing.assert_allclose(back["x"], np.full((4, 5), 3) @ net.params["a"][0].data, rtol=1e-5)

    def test_forward_all_takes_any_number_of_rows(self):
        net = self.net(INPUTS)
        x = np.random.RandomState(1).randn(10, 3).astype(np.float32)
        out = net.forward_all(x=x)
        self.assertEqual(out["b"].shape, (10, 2))
        np.testing.assert_allclose(out["b"], x @ net.params["a"][0].data.T @ net.params["b"][0].data.T, rtol=1e-4,
                                   atol=1e-5)
        out, diffs = net.forward_backward_all(x=x, b=np.ones((10, 2), np.float32), blobs=["a"], diffs=["a"])
        self.assertEqual(out["a"].shape, (10, 5))
        self.assertEqual(diffs["x"].shape, (10, 3))
        np.testing.assert_allclose(diffs["x"], np.ones((10, 2)) @ net.params["b"][0].data @ net.params["a"][0].data,
                                   rtol=1e-4, atol=1e-5)

    def test_inputs_may_be_reshaped(self):
        net = self.net(INPUTS)
        net.blobs["x"].reshape(7, 3)
        net.reshape()
        self.assertEqual(net.blobs["b"].shape, (7, 2))
        self.assertEqual(net.forward(x=np.ones((7, 3)))["b"].shape, (7, 2))

    def test_hooks_are_told_of_each_layer(self):
        net = self.net(TWO_LAYERS)
        seen = []
        net.before_forward(lambda layer: seen.append(("before", layer)))
        net.after_forward(lambda layer: seen.append(("after", layer)))
        net.before_backward(lambda layer: seen.append(("back", layer)))
        net.after_backward(lambda layer: seen.append(("done", layer)))
        net.forward(end="conv")
        self.assertEqual(seen, [("before", 0), ("after", 0), ("before", 1), ("after", 1)])
        seen.clear()
        net.backward(start="ip", end="conv")
        self.assertEqual(seen, [("back", 2), ("done", 2), ("back", 1), ("done", 1)])

    def test_an_exception_in_a_hook_ends_the_pass(self):
        net = self.net(TWO_LAYERS)
        net.after_forward(lambda layer: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            net.forward()

    def test_memory_data_reads_the_arrays_that_are_set(self):
        net = self.net("""layer { name: "m" type: "MemoryData" top: "x" top: "y"
            memory_data_param { batch_size: 2 channels: 1 height: 1 width: 3 } }""")
        data = np.arange(12, dtype=np.float32).reshape(4, 1, 1, 3)
        net.set_input_arrays(data, np.arange(4, dtype=np.float32))
        net.forward()
        np.testing.assert_array_equal(net.blobs["x"].data, data[:2])
        net.forward()
        np.testing.assert_array_equal(net.blobs["x"].data, data[2:])
        np.testing.assert_array_equal(net.blobs["y"].data.ravel(), [2, 3])

    def test_the_seed_decides_the_weights(self):
        def weights(seed):
            caffe.set_random_seed(seed)
            return [self.net(TWO_LAYERS).params["conv"][0].data.copy() for _ in range(2)]

        first, again, other = weights(5), weights(5), weights(6)
        np.testing.assert_array_equal(first, again)
        self.assertFalse(np.array_equal(first[0], first[1]))
        self.assertFalse(np.array_equal(first[0], other[0]))


class Weights(WithNets):

    def same(self, a, b):
        for name in a.params:
            for x, y in zip(a.params[name], b.params[name]):
                np.testing.assert_array_equal(x.data, y.data)

    def test_travel_through_both_kinds_of_files(self):
        net = self.net(TWO_LAYERS)
        net.save(self.path("w.caffemodel"))
        net.save_hdf5(self.path("w.h5"))
        file = self.path("net.prototxt")
        self.same(net, caffe.Net(file, caffe.TRAIN, weights=self.path("w.caffemodel")))
        self.same(net, caffe.Net(network_file=file, weights=self.path("w.h5"), phase=caffe.TEST))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.same(net, caffe.Net(file, self.path("w.caffemodel"), caffe.TEST))
        self.assertTrue(caught)
        other = caffe.Net(file, caffe.TEST)
        other.load_hdf5(self.path("w.h5"))
        self.same(net, other)
        other = caffe.Net(file, caffe.TEST)
        other.copy_from(self.path("w.caffemodel"))
        self.same(net, other)

    def test_are_shared_by_share_with(self):
        net = self.net(TWO_LAYERS)
        other = caffe.Net(self.path("net.prototxt"), caffe.TEST)
        held = other.params["conv"][0]
        other.share_with(net)
        net.params["conv"][0].data[...] = 8
        self.assertTrue((held.data == 8).all())
        del net
        gc.collect()
        self.assertTrue((held.data == 8).all())


class BadInput(WithNets):

    def test_errors_say_where_and_how(self):
        with self.assertRaises(caffe.ConfigError) as raised:
            self.net('layer { name: "a" type: "InnerProdukt" top: "y" }')
        self.assertIn("net.prototxt:1:", str(raised.exception))
        self.assertIn("InnerProduct", str(raised.exception))
        self.assertIsInstance(raised.exception, caffe.Error)
        self.assertIsInstance(raised.exception, RuntimeError)
        with self.assertRaises(RuntimeError):
            caffe.Net(self.path("missing.prototxt"), caffe.TEST)
        with self.assertRaises(caffe.DataError):
            self.net(INPUTS).copy_from(self.path("missing.caffemodel"))
        with self.assertRaises(ValueError):
            self.net(INPUTS, 5)
        with self.assertRaises(TypeError):
            self.net(INPUTS, "TEST")

    def test_wrong_arrays_are_refused(self):
        net = self.net(INPUTS)
        with self.assertRaisesRegex(Exception, "Input blob arguments do not match net inputs. Given: y; the net has: x"):
            net.forward(y=np.ones((4, 3)))
        with self.assertRaisesRegex(Exception, r"Input is not batch sized: 'x' has the shape \(4, 3\), the array \(5, 3\)"):
            net.forward(x=np.ones((5, 3)))
        with self.assertRaisesRegex(ValueError, r"'x' has the shape \(4, 3\)"):
            net.forward(x=np.ones((4, 7)))
        with self.assertRaises((ValueError, TypeError)):
            net.blobs["x"].data[...] = "text"
        with self.assertRaisesRegex(ValueError, "nowhere"):
            net.forward(start="nowhere")
        with self.assertRaises(IndexError):
            net._forward(0, 99)
        with self.assertRaises(IndexError):
            net._backward(-1, 0)
        with self.assertRaises(KeyError):
            net.forward(blobs=["nowhere"])

    def test_wrong_arrays_for_memory_data_are_refused(self):
        net = self.net("""layer { name: "m" type: "MemoryData" top: "x" top: "y"
            memory_data_param { batch_size: 2 channels: 1 height: 1 width: 3 } }""")
        good, labels = np.zeros((4, 1, 1, 3), np.float32), np.zeros(4, np.float32)
        for data in (good.astype(np.float64), good[:, :, :, ::-1], good[:3], np.zeros((4, 1, 3, 1), np.float32)):
            with self.assertRaises(caffe.ConfigError):
                net.set_input_arrays(data, labels)
        with self.assertRaises(caffe.ConfigError):
            net.set_input_arrays(good, labels[:2])
        with self.assertRaises(caffe.ConfigError):
            net.forward()
        with self.assertRaises(caffe.ConfigError):
            self.net(INPUTS).set_input_arrays(good, labels)

    def test_parameters_keep_their_size(self):
        blob = self.net(INPUTS).params["a"][0]
        with self.assertRaises(caffe.ConfigError):
            blob.reshape(500, 500)
        blob.reshape(3, 5)
        self.assertEqual(blob.data.shape, (3, 5))


if __name__ == "__main__":
    unittest.main()
