"""Weights of PyTorch's names and of our own go into nets. PyTorch itself is not needed."""

import unittest

import numpy as np

import caffe
from caffe import layers as L
from small_nets import WithFolder


class Tensor:
    """As much of a tensor as is asked of it."""

    def __init__(self, value):
        self.value = np.asarray(value)

    def detach(self):
        return self

    def cpu(self):
        return self.value


class States(WithFolder):

    def net(self):
        n = caffe.NetSpec()
        n.data = L.Input(shape=dict(dim=[2, 3, 5, 5]))
        n.conv = L.Convolution(n.data, kernel_size=3, num_output=4, weight_filler=dict(type="xavier"))
        n.bn = L.BatchNorm(n.conv, use_global_stats=True)
        n.scale = L.Scale(n.bn, bias_term=True)
        n.ip = L.InnerProduct(n.scale, num_output=2, bias_term=False, weight_filler=dict(type="xavier"))
        return caffe.Net(self.write("net.prototxt", n.to_proto()), caffe.TEST)

    def test_of_one_net_go_into_another(self):
        first, second = self.net(), self.net()
        for value in first.state_dict().values():
            self.assertTrue(np.isfinite(value).all())
        second.load_state_dict(first.state_dict())
        data = np.random.default_rng(1).random((2, 3, 5, 5))
        np.testing.assert_array_equal(first.forward(data=data)["ip"], second.forward(data=data)["ip"])

    def test_of_pytorch_compute_what_pytorch_does(self):
        random = np.random.default_rng(2)
        state = {"0.weight": random.random((4, 3, 3, 3)), "0.bias": random.random(4), "1.weight": random.random(4),
                 "1.bias": random.random(4), "1.running_mean": random.random(4), "1.running_var": random.random(4) + 0.5,
                 "1.num_batches_tracked": 7, "3.weight": random.random((2, 36))}
        net = self.net()
        net.load_state_dict(caffe.from_torch({name: Tensor(value) for name, value in state.items()},
                                             {"conv": "0", "bn": "1", "scale": ["1.weight", "1.bias"], "ip": "3"}))
        data = random.random((2, 3, 5, 5))
        windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), axis=(2, 3))
        x = np.einsum("nchwij,ocij->nohw", windows, state["0.weight"]) + state["0.bias"][:, None, None]
        x = (x - state["1.running_mean"][:, None, None]) / np.sqrt(state["1.running_var"] + 1e-5)[:, None, None]
        x = x * state["1.weight"][:, None, None] + state["1.bias"][:, None, None]
        expected = x.reshape(2, -1) @ state["3.weight"].T
        np.testing.assert_allclose(net.forward(data=data)["ip"], expected, rtol=1e-4)

    def test_that_do_not_fit_change_nothing(self):
        net = self.net()
        before = net.state_dict()
        state = dict(before)
        state["conv.0"] = state["conv.0"] + 1
        state["ip.0"] = np.zeros((2, 5))
        with self.assertRaisesRegex(ValueError, r"ip.0 has the shape \(2, 36\) in the net, and \(2, 5\)"):
            net.load_state_dict(state)
        del state["ip.0"]
        state["ip.9"] = np.zeros(1)
        with self.assertRaisesRegex(KeyError, "missing: ip.0; unknown: ip.9"):
            net.load_state_dict(state)
        for name, value in net.state_dict().items():
            np.testing.assert_array_equal(value, before[name])
        net.load_state_dict(state, strict=False)
        np.testing.assert_array_equal(net.params["conv"][0].data, state["conv.0"])

    def test_without_a_tensor_name_the_layer(self):
        with self.assertRaisesRegex(KeyError, "layer conv: the state_dict has no '0.weight'; it has 1.weight"):
            caffe.from_torch({"1.weight": np.zeros(1)}, {"conv": "0"})
        with self.assertRaisesRegex(ValueError, "recurrent layers are not translated"):
            caffe.from_torch({"rnn.weight_ih_l0": np.zeros(1)}, {"lstm": "rnn"})


if __name__ == "__main__":
    unittest.main()
