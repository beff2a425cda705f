"""NetSpec writes the nets that pycaffe's would."""

import copy
import pickle
import unittest

import numpy as np
from google.protobuf import text_format

from caffe import layers as L
from caffe import net_spec
from caffe import params as P
from caffe.proto import caffe_pb2


def parse(text):
    return text_format.Parse(text, caffe_pb2.NetParameter())


def small_net():
    n = net_spec.NetSpec()
    n.data, n.label = L.DummyData(shape=[dict(dim=[4, 1, 8, 8]), dict(dim=[4])], ntop=2,
                                  transform_param=dict(scale=0.5))
    n.conv = L.Convolution(n.data, kernel_size=3, num_output=2, weight_filler=dict(type="xavier"),
                           param=[dict(lr_mult=1), dict(lr_mult=2, decay_mult=0)])
    n.relu = L.ReLU(n.conv, in_place=True)
    n.pool = L.Pooling(n.relu, kernel_size=2, stride=2, pool=P.Pooling.AVE)
    n.score = L.InnerProduct(n.pool, num_output=3)
    n.loss = L.SoftmaxWithLoss(n.score, n.label, loss_weight=0.5)
    return n


class NamedNets(unittest.TestCase):

    def test_text_of_a_whole_net(self):
        expected = '''
            layer { name: "data" type: "DummyData" top: "data" top: "label"
                    transform_param { scale: 0.5 }
                    dummy_data_param { shape { dim: 4 dim: 1 dim: 8 dim: 8 } shape { dim: 4 } } }
            layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
                    param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
                    convolution_param { num_output: 2 kernel_size: 3 weight_filler { type: "xavier" } } }
            layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
            layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
                    pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
            layer { name: "score" type: "InnerProduct" bottom: "pool" top: "score" inner_product_param { num_output: 3 } }
            layer { name: "loss" type: "SoftmaxWithLoss" bottom: "score" bottom: "label" top: "loss" loss_weight: 0.5 }'''
        self.assertEqual(str(small_net().to_proto()), str(parse(expected)))

    def test_tops_are_kept_in_order_and_by_name(self):
        n = small_net()
        self.assertEqual(list(n.tops), ["data", "label", "conv", "relu", "pool", "score", "loss"])
        self.assertIs(n["pool"], n.pool)
        self.assertIs(n.tops["pool"], n.pool)
        self.assertIn("pool", n)
        self.assertNotIn("pools", n)

    def test_items_set_get_and_delete(self):
        n = net_spec.NetSpec()
        n["data/0"] = L.Input(shape=dict(dim=[1]))
        self.assertEqual(n.to_proto().layer[0].name, "data/0")
        del n["data/0"]
        self.assertEqual(len(n.to_proto().layer), 0)
        with self.assertRaises(KeyError):
            del n["data/0"]

    def test_missing_top_is_both_kinds_of_error_and_lists_what_there_is(self):
        n = small_net()
        for kind in (AttributeError, KeyError):
            with self.assertRaisesRegex(kind, "no top 'poool'.*pool"):
                n.poool
        self.assertFalse(hasattr(n, "poool"))

    def test_first_top_names_the_layer(self):
        n = net_spec.NetSpec()
        _, n.label = L.Data(ntop=2, batch_size=1)
        layer = n.to_proto().layer[0]
        self.assertEqual((layer.name, list(layer.top)), ("Data1", ["Data1", "label"]))

    def test_name_given_as_a_field_is_the_layers_alone(self):
        n = net_spec.NetSpec()
        n.data = L.Input(name="source", shape=dict(dim=[1]))
        layer = n.to_proto().layer[0]
        self.assertEqual((layer.name, list(layer.top)), ("source", ["data"]))

    def test_last_name_of_a_top_wins(self):
        n = net_spec.NetSpec()
        n.first = L.Input(shape=dict(dim=[1]))
        n.second = n.first
        self.assertEqual([layer.name for layer in n.to_proto().layer], ["second"])

    def test_chain_of_in_place_layers_stays_in_one_blob(self):
        n = net_spec.NetSpec()
        n.data = L.Input(shape=dict(dim=[1, 2]))
        n.ip = L.InnerProduct(n.data, num_output=2)
        n.relu = L.ReLU(n.ip, in_place=True)
        n.drop = L.Dropout(n.relu, in_place=True, dropout_ratio=0.5)
        layers = n.to_proto().layer
        self.assertEqual([(layer.name, layer.bottom[0], layer.top[0]) for layer in layers[2:]],
                         [("relu", "ip", "ip"), ("drop", "ip", "ip")])

    def test_layer_without_tops_has_the_name_it_was_given(self):
        n = net_spec.NetSpec()
        n.data = L.Input(shape=dict(dim=[1]))
        n.quiet = L.Silence(n.data, ntop=0)
        self.assertIsInstance(n.quiet, net_spec.Function)
        layer = n.to_proto().layer[1]
        self.assertEqual((layer.name, list(layer.bottom), list(layer.top)), ("quiet", ["data"], []))

    def test_unnamed_layers_keep_clear_of_names_that_are_taken(self):
        n = net_spec.NetSpec()
        n.ReLU1 = L.ReLU(L.ReLU(L.Input(shape=dict(dim=[1]))))
        self.assertEqual([layer.name for layer in n.to_proto().layer], ["Input1", "ReLU2", "ReLU1"])

    def test_attribute_that_is_no_top_is_refused_by_name(self):
        n = net_spec.NetSpec()
        n.data = L.Data(ntop=2, batch_size=1)
        with self.assertRaisesRegex(TypeError, r"NetSpec\.data is not a Top .*tuple"):
            n.to_proto()

    def test_copies_and_pickles_keep_the_net(self):
        n = small_net()
        text = str(n.to_proto())
        self.assertEqual(str(copy.deepcopy(n).to_proto()), text)
        self.assertEqual(str(pickle.loads(pickle.dumps(n)).to_proto()), text)


class UnnamedNets(unittest.TestCase):

    def test_names_are_types_with_numbers(self):
        data, label = L.DummyData(shape=[dict(dim=[2, 3]), dict(dim=[2])], ntop=2)
        ip = L.InnerProduct(L.InnerProduct(data, num_output=4), num_output=2)
        layers = net_spec.to_proto(L.SoftmaxWithLoss(L.ReLU(ip, in_place=True), label)).layer
        self.assertEqual([(layer.name, list(layer.top)) for layer in layers], [
            ("DummyData1", ["DummyData1", "DummyData2"]),
            ("InnerProduct1", ["InnerProduct1"]),
            ("InnerProduct2", ["InnerProduct2"]),
            ("ReLU1", ["InnerProduct2"]),
            ("SoftmaxWithLoss1", ["SoftmaxWithLoss1"]),
        ])

    def test_layers_without_tops_are_numbered_too(self):
        data = L.Input(shape=dict(dim=[1]))
        net = net_spec.to_proto(L.Silence(data, ntop=0), L.Silence(data, ntop=0))
        self.assertEqual([layer.name for layer in net.layer], ["Input1", "Silence1", "Silence2"])

    def test_shared_layers_appear_once(self):
        data = L.Input(shape=dict(dim=[1]))
        ip = L.InnerProduct(data, num_output=1)
        net = net_spec.to_proto(L.Sigmoid(ip), L.TanH(ip), ip)
        self.assertEqual([layer.name for layer in net.layer], ["Input1", "InnerProduct1", "Sigmoid1", "TanH1"])

    def test_top_and_layer_have_to_proto_of_their_own(self):
        data = L.Input(shape=dict(dim=[1]))
        self.assertEqual(len(L.ReLU(data).to_proto().layer), 2)
        self.assertEqual(len(L.Silence(data, ntop=0).to_proto().layer), 2)

    def test_net_may_be_deeper_than_pythons_stack(self):
        top = L.Input(shape=dict(dim=[1]))
        for _ in range(3000):
            top = L.ReLU(top, in_place=True)
        self.assertEqual(len(top.to_proto().layer), 3001)


class Fields(unittest.TestCase):

    def layer(self, top):
        return top.to_proto().layer[-1]

    def test_own_message_comes_before_the_layer(self):
        data = L.Input(shape=dict(dim=[1]))
        layer = self.layer(L.Concat(data, axis=2, loss_weight=1, propagate_down=[True], phase=caffe_pb2.TEST,
                                    include=dict(phase=caffe_pb2.TEST, stage=["a", "b"])))
        self.assertEqual(layer.concat_param.axis, 2)
        self.assertEqual(list(layer.loss_weight), [1])
        self.assertEqual(list(layer.propagate_down), [True])
        self.assertEqual((layer.phase, layer.include[0].phase, list(layer.include[0].stage)), (1, 1, ["a", "b"]))

    def test_single_values_fill_repeated_fields(self):
        layer = self.layer(L.Convolution(kernel_size=3, pad=[1, 2], stride=(1, 2), dilation=np.array([1, 3]), num_output=1))
        param = layer.convolution_param
        self.assertEqual(list(param.kernel_size), [3])
        self.assertEqual(list(param.pad), [1, 2])
        self.assertEqual(list(param.stride), [1, 2])
        self.assertEqual(list(param.dilation), [1, 3])

    def test_numbers_of_numpy_are_taken(self):
        layer = self.layer(L.InnerProduct(num_output=np.int64(3), bias_term=np.bool_(False),
                                          weight_filler=dict(std=np.float32(0.5), type="gaussian")))
        self.assertEqual(layer.inner_product_param.num_output, 3)
        self.assertFalse(layer.inner_product_param.bias_term)
        self.assertEqual(layer.inner_product_param.weight_filler.std, 0.5)

    def test_enums_are_taken_as_numbers_and_by_name(self):
        for pool in (P.Pooling.STOCHASTIC, "STOCHASTIC", 2):
            self.assertEqual(self.layer(L.Pooling(pool=pool)).pooling_param.pool, 2)
        with self.assertRaisesRegex(ValueError, "no value 'MEAN'; there are MAX, AVE, STOCHASTIC"):
            self.layer(L.Pooling(pool="MEAN"))

    def test_whole_messages_are_taken(self):
        filler = caffe_pb2.FillerParameter(type="msra")
        self.assertEqual(self.layer(L.InnerProduct(weight_filler=filler)).inner_product_param.weight_filler.type, "msra")

    def test_messages_may_be_spelled_out(self):
        layer = self.layer(L.Deconvolution(convolution_param=dict(num_output=2, kernel_size=4)))
        self.assertEqual((layer.convolution_param.num_output, layer.convolution_param.kernel_size[0]), (2, 4))

    def test_borrowed_messages_need_not_be(self):
        self.assertEqual(self.layer(L.Deconvolution(num_output=2)).convolution_param.num_output, 2)
        self.assertEqual(self.layer(L.LSTM(num_output=7)).recurrent_param.num_output, 7)
        layer = self.layer(L.SoftmaxWithLoss(axis=2, ignore_label=255, loss_weight=2))
        self.assertEqual((layer.softmax_param.axis, layer.loss_param.ignore_label, layer.loss_weight[0]), (2, 255, 2))

    def test_empty_dict_sets_nothing(self):
        self.assertFalse(self.layer(L.ReLU(relu_param=dict())).HasField("relu_param"))

    def test_python_layers_take_module_layer_and_text(self):
        layer = self.layer(L.Python(module="m", layer="C", param_str='{"a": 1}'))
        self.assertEqual((layer.python_param.module, layer.python_param.layer, layer.python_param.param_str),
                         ("m", "C", '{"a": 1}'))

    def test_unknown_fields_are_named_with_the_nearest_known(self):
        with self.assertRaisesRegex(AttributeError, "Convolution layer has no field 'num_outputs'; did you mean 'num_output'"):
            L.Convolution(num_outputs=3).to_proto()
        with self.assertRaisesRegex(AttributeError, "FillerParameter has no field 'typ'; did you mean 'type'"):
            L.Convolution(weight_filler=dict(typ="xavier")).to_proto()

    def test_message_that_is_no_dict_is_refused(self):
        with self.assertRaisesRegex(TypeError, "FillerParameter wants a dict, not 'xavier'"):
            L.Convolution(weight_filler="xavier").to_proto()


class Objects(unittest.TestCase):

    def test_input_that_is_no_top_is_a_type_error(self):
        both = L.DummyData(ntop=2)
        with self.assertRaisesRegex(TypeError, r"^Silence input 0 is not a Top \(type is <class 'tuple'>\)$"):
            L.Silence(both, ntop=0)
        with self.assertRaisesRegex(TypeError, r"^Concat input 1 is not a Top \(type is <class 'int'>\)$"):
            L.Concat(both[0], 3)

    def test_fields_stay_readable_without_ntop_and_in_place(self):
        top = L.ReLU(L.Input(), negative_slope=0.1, in_place=True)
        self.assertEqual(top.fn.params, {"negative_slope": 0.1})
        self.assertTrue(top.fn.in_place)
        self.assertEqual((top.n, top.fn.ntop, top.fn.type_name), (0, 1, "ReLU"))

    def test_constants_of_messages(self):
        self.assertEqual((P.Pooling.MAX, P.Eltwise.MAX, P.LRN.WITHIN_CHANNEL, P.Loss.BATCH_SIZE), (0, 2, 1, 2))
        self.assertIn("AVE", dir(P.Pooling))
        with self.assertRaises(AttributeError):
            P.Pool
        with self.assertRaises(AttributeError):
            P.Pooling.MEAN

    def test_layer_types_are_listed_for_completion(self):
        self.assertIn("Convolution", dir(L))
        self.assertIn("Convolution", repr(L.Convolution) + L.Convolution.__doc__)

    def test_names_of_messages(self):
        names = net_spec.param_name_dict()
        self.assertEqual(names["Convolution"], "convolution")
        self.assertEqual(names["Normalize"], "norm")
        self.assertEqual(names["Transformation"], "transform")


if __name__ == "__main__":
    unittest.main()
