"""What Caffe's own tests of pycaffe look at, as they look at it: nets in temporary files, text in single quotes, layers in
the test's own module, snapshots in the current folder, six, unittest's discovery."""

import collections
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

import numpy as np
from google.protobuf import text_format

import caffe
import caffe.draw
import caffe.net_spec
from caffe import layers as L
from caffe import params as P
from caffe.coord_map import coord_map, coord_map_from_to, crop
from caffe.proto import caffe_pb2
from nets import ROOT, WithNets, environment


def written(text):
    """The name of a temporary file that is closed and not yet deleted, without an ending."""
    with tempfile.NamedTemporaryFile(mode="w+", delete=False) as file:
        file.write(text)
    return file.name


def simple_net(classes=11):
    return written("""name: 'simple' force_backward: true
        layer { type: 'DummyData' name: 'data' top: 'data' top: 'label' dummy_data_param { num: 5 channels: 2 height: 3 width: 4
            num: 5 channels: 1 height: 1 width: 1 data_filler { type: 'gaussian' std: 1 } data_filler { type: 'constant' } } }
        layer { type: 'Convolution' name: 'conv' bottom: 'data' top: 'conv' convolution_param { num_output: 11
            kernel_size: 2 pad: 3 weight_filler { type: 'gaussian' std: 1 } bias_filler { type: 'constant' value: 2 } }
            param { decay_mult: 1 } param { decay_mult: 0 } }
        layer { type: 'InnerProduct' name: 'ip' bottom: 'conv' top: 'ip_blob' inner_product_param { num_output: %d
            weight_filler { type: 'gaussian' std: 2.5 } bias_filler { type: 'constant' value: -3 } } }
        layer { type: 'SoftmaxWithLoss' name: 'loss' bottom: 'ip_blob' bottom: 'label' top: 'loss' }""" % classes)


class Nets(WithNets):

    def setUp(self):
        super().setUp()
        self.file = simple_net()
        self.addCleanup(os.remove, self.file)
        self.one = caffe.Net(self.file, caffe.TRAIN)
        self.one.blobs["label"].data[...] = np.random.RandomState(1).randint(11, size=self.one.blobs["label"].data.shape)

    def test_names_are_lists_and_ordered_dictionaries(self):
        net = self.one
        self.assertEqual((net.inputs, net.outputs), ([], ["loss"]))
        self.assertEqual(net.top_names, collections.OrderedDict(
            [("data", ["data", "label"]), ("conv", ["conv"]), ("ip", ["ip_blob"]), ("loss", ["loss"])]))
        self.assertEqual(net.bottom_names, collections.OrderedDict(
            [("data", []), ("conv", ["data"]), ("ip", ["conv"]), ("loss", ["ip_blob", "label"])]))
        self.assertEqual(list(net.layer_dict), list(net._layer_names))
        for number, name in enumerate(net._layer_names):
            self.assertEqual(net.layer_dict[name].type, net.layers[number].type)
        self.assertEqual(list(net._blob_names), list(net.blobs))
        self.assertEqual([list(net.blobs)[i] for i in net._outputs], net.outputs)
        self.assertEqual(list(net._inputs), [])
        self.assertEqual(net.blobs["data"].shape, (5, 2, 3, 4))

    def test_memory_of_all_blobs_can_be_summed_without_the_net(self):
        held = list(self.one.blobs.values()) + [blob for vector in self.one.params.values() for blob in vector]
        self.one = None
        total = sum(blob.data.sum() + blob.diff.sum() for blob in held)
        self.assertTrue(np.isfinite(total))

    def test_cleared_gradients_show_in_arrays_that_are_held(self):
        self.one.forward()
        self.one.backward()
        gradient = self.one.params["conv"][0].diff
        self.assertGreater(gradient.max(), 0)
        self.one.clear_param_diffs()
        self.assertTrue((gradient == 0).all())

    def test_one_layer_alone_forward_and_backward(self):
        net, random = self.one, np.random.RandomState(2)
        net.blobs["conv"].data[...] = random.uniform(size=net.blobs["conv"].data.shape)
        weights, bias = (blob.data for blob in net.params["ip"])
        out = net.forward(start="ip", end="ip")
        self.assertEqual(list(out), ["ip_blob"])
        flat = net.blobs["conv"].data.reshape(5, -1)
        np.testing.assert_allclose(out["ip_blob"], flat @ weights.T + bias, rtol=1e-3, atol=1e-4)
        gradient = random.uniform(size=net.blobs["ip_blob"].data.shape)
        net.blobs["ip_blob"].diff[...] = gradient
        back = net.backward(start="ip", end="ip")
        self.assertIn("conv", back)
        np.testing.assert_allclose(back["conv"].reshape(5, -1), gradient @ weights, rtol=1e-3, atol=1e-4)

    def test_weights_in_files_of_any_name_bit_by_bit(self):
        import warnings
        for save, load in (("save", "copy_from"), ("save_hdf5", "load_hdf5")):
            name = written("")  # is written over
            getattr(self.one, save)(name)
            other = caffe.Net(self.file, caffe.TEST)
            getattr(other, load)(name)
            nets = [other]
            if save == "save":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    nets.append(caffe.Net(self.file, name, caffe.TEST))
                nets.append(caffe.Net(self.file, caffe.TEST, weights=name))
            os.remove(name)
            for net in nets:
                for layer in self.one.params:
                    for number in range(len(self.one.params[layer])):
                        self.assertEqual(abs(self.one.params[layer][number].data - net.params[layer][number].data).max(), 0)

    def test_levels(self):
        text = INCLUDED % (("min_level: 0", "min_level: 1"))
        self.assertEqual(list(self.net(text, caffe.TEST, level=0).layer_dict), ["data", "one"])
        self.assertEqual(list(self.net(text, caffe.TEST).layer_dict), ["data", "one"])
        self.assertEqual(self.net(text, caffe.TEST, level=1).outputs, ["one", "two"])

    def test_stages(self):
        text = INCLUDED % ("stage: 'A'", "stage: 'B'")
        self.assertEqual(self.net(text, caffe.TEST).outputs, ["data"])
        self.assertEqual(self.net(text, caffe.TEST, stages=["A"]).outputs, ["one"])
        self.assertEqual(self.net(text, caffe.TEST, stages=["A", "B"]).outputs, ["one", "two"])

    def test_one_file_for_training_validation_and_use(self):
        text = ALL_IN_ONE
        train = self.net(text, caffe.TRAIN, stages=["train"])
        self.assertEqual((list(train.blobs)[:2], train.outputs), (["data", "label"], ["loss"]))
        val = self.net(text, caffe.TEST, stages=["val"])
        self.assertEqual(sorted(val.outputs), ["acc", "loss"])
        deploy = self.net(text, caffe.TEST, stages=["deploy"])
        self.assertEqual((deploy.inputs, deploy.outputs), (["data"], ["pred"]))
        self.assertEqual(deploy.forward(data=np.ones((1, 1, 10, 10)))["pred"].shape, (1, 2))

    def test_a_missing_file_is_a_runtime_error(self):
        for call in (lambda: caffe.Net("/nowhere/net.prototxt", caffe.TEST),
                     lambda: caffe.Net(self.file, caffe.TEST, weights="/nowhere/net.caffemodel")):
            with self.assertRaises(RuntimeError):
                call()


INCLUDED = """
layer { name: 'data' type: 'DummyData' top: 'data' dummy_data_param { shape { dim: 1 dim: 1 dim: 10 dim: 10 } } }
layer { name: 'one' type: 'InnerProduct' bottom: 'data' top: 'one' include { %s } inner_product_param { num_output: 1 } }
layer { name: 'two' type: 'InnerProduct' bottom: 'data' top: 'two' include { %s } inner_product_param { num_output: 1 } }
"""

ALL_IN_ONE = """
layer { name: 'train_data' type: 'DummyData' top: 'data' top: 'label' include { phase: TRAIN stage: 'train' }
  dummy_data_param { shape { dim: 1 dim: 1 dim: 10 dim: 10 } shape { dim: 1 dim: 1 dim: 1 dim: 1 } } }
layer { name: 'val_data' type: 'DummyData' top: 'data' top: 'label' include { phase: TEST stage: 'val' }
  dummy_data_param { shape { dim: 1 dim: 1 dim: 10 dim: 10 } shape { dim: 1 dim: 1 dim: 1 dim: 1 } } }
layer { name: 'deploy_data' type: 'Input' top: 'data' include { stage: 'deploy' }
  input_param { shape { dim: 1 dim: 1 dim: 10 dim: 10 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 2 } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' include { phase: TRAIN stage: 'train' }
  include { phase: TEST stage: 'val' } }
layer { name: 'acc' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'acc' include { phase: TEST stage: 'val' } }
layer { name: 'pred' type: 'Softmax' bottom: 'ip' top: 'pred' include { stage: 'deploy' } }
"""


class Solvers(WithNets):

    def setUp(self):
        super().setUp()
        net = simple_net(13)
        self.addCleanup(os.remove, net)
        file = written("""net: '%s' test_iter: 10 test_interval: 10 base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005
            lr_policy: 'inv' gamma: 0.0001 power: 0.75 display: 100 max_iter: 100 snapshot_after_train: false
            snapshot_prefix: 'model'""" % net)
        self.addCleanup(os.remove, file)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.solver = caffe.SGDSolver(file)
        caffe.get_solver(file)
        labels = self.solver.net.blobs["label"].data
        labels[...] = np.random.RandomState(1).randint(13, size=labels.shape)

    def test_solve_to_the_end(self):
        self.assertEqual(self.solver.iter, 0)
        self.solver.solve()
        self.assertEqual(self.solver.iter, 100)
        self.assertEqual(os.listdir("."), [])  # snapshot_after_train: false

    def test_nets_can_be_read_all_through_without_the_solver(self):
        self.solver.step(1)
        nets = [self.solver.net] + list(self.solver.test_nets)
        self.assertEqual(len(nets), 2)
        self.solver = None
        for net in nets:
            for vector in net.params.values():
                for blob in vector:
                    self.assertTrue(np.isfinite(blob.data.sum() + blob.diff.sum()))
            for blob in net.blobs.values():
                self.assertTrue(np.isfinite(blob.data.sum() + blob.diff.sum()))

    def test_snapshots_lie_in_the_current_folder(self):
        self.solver.snapshot()
        self.assertEqual(sorted(os.listdir(".")),
                         ["model_iter_0.caffemodel", "model_iter_0.manifest", "model_iter_0.solverstate"])


def lenet(batch):
    n = caffe.NetSpec()
    n.data, n.label = L.DummyData(shape=[dict(dim=[batch, 1, 28, 28]), dict(dim=[batch, 1, 1, 1])],
                                  transform_param=dict(scale=1. / 255), ntop=2)
    n.conv1 = L.Convolution(n.data, kernel_size=5, num_output=20, weight_filler=dict(type="xavier"))
    n.pool1 = L.Pooling(n.conv1, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.conv2 = L.Convolution(n.pool1, kernel_size=5, num_output=50, weight_filler=dict(type="xavier"))
    n.pool2 = L.Pooling(n.conv2, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.ip1 = L.InnerProduct(n.pool2, num_output=500, weight_filler=dict(type="xavier"))
    n.relu1 = L.ReLU(n.ip1, in_place=True)
    n.ip2 = L.InnerProduct(n.relu1, num_output=10, weight_filler=dict(type="xavier"))
    n.loss = L.SoftmaxWithLoss(n.ip2, n.label)
    return n.to_proto()


def nameless_lenet(batch):
    data, label = L.DummyData(shape=[dict(dim=[batch, 1, 28, 28]), dict(dim=[batch, 1, 1, 1])],
                              transform_param=dict(scale=1. / 255), ntop=2)
    top = L.Convolution(data, kernel_size=5, num_output=20, weight_filler=dict(type="xavier"))
    top = L.Pooling(top, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    top = L.Convolution(top, kernel_size=5, num_output=50, weight_filler=dict(type="xavier"))
    top = L.Pooling(top, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    top = L.InnerProduct(top, num_output=500, weight_filler=dict(type="xavier"))
    top = L.InnerProduct(L.ReLU(top, in_place=True), num_output=10, weight_filler=dict(type="xavier"))
    return L.SoftmaxWithLoss(top, label).to_proto()


class Specs(WithNets):

    def load(self, proto):
        return self.net(str(proto), caffe.TEST)

    def test_lenet_with_and_without_names(self):
        for proto in (lenet(50), nameless_lenet(50)):
            self.assertEqual(proto.layer[6].bottom, proto.layer[6].top)
            net = self.load(proto)
            self.assertEqual(len(net.layers), 9)
            self.assertIn("loss", net.forward() if "loss" in net.blobs else {"loss": net.forward()["SoftmaxWithLoss1"]})
            self.assertEqual(text_format.Parse(str(proto), caffe_pb2.NetParameter()), proto)

    def test_layers_without_tops(self):
        n = caffe.NetSpec()
        n.data, n.data2 = L.DummyData(shape=dict(dim=3), ntop=2)
        n.silence_data = L.Silence(n.data, ntop=0)
        n.silence_data2 = L.Silence(n.data2, ntop=0)
        self.assertEqual([layer.type for layer in self.load(n.to_proto()).layers], ["DummyData", "Silence", "Silence"])

    def test_a_tuple_of_tops_is_no_top(self):
        data = L.DummyData(ntop=2)
        with self.assertRaisesRegex(TypeError, r"^Silence input 0 is not a Top \(type is <(type|class) 'tuple'>\)$"):
            L.Silence(data, ntop=0)


def map_net(kernel=3, stride=1, pad=0, pool=2, dstride=2, dpad=0):
    n = caffe.NetSpec()
    n.data = L.Input(shape=dict(dim=[2, 1, 100, 100]))
    n.aux = L.Input(shape=dict(dim=[2, 1, 20, 20]))
    n.conv = L.Convolution(n.data, num_output=10, kernel_size=kernel, stride=stride, pad=pad)
    n.pool = L.Pooling(n.conv, pool=P.Pooling.MAX, kernel_size=pool, stride=pool, pad=0)
    up = dict(num_output=10, kernel_size=dstride, stride=dstride, pad=dpad)
    n.deconv = L.Deconvolution(n.pool, convolution_param=up)
    return n


class Maps(unittest.TestCase):

    def of(self, n):
        return tuple(coord_map_from_to(n.deconv, n.data))

    def test_there_and_back_with_every_padding(self):
        for pad in (0, 1, 2):
            self.assertEqual(self.of(map_net(pad=pad)), (1, 1, 1 - pad))
        self.assertEqual(self.of(map_net(dpad=3))[2], 4)

    def test_through_layers_that_keep_coordinates(self):
        n = map_net()
        before = self.of(n)
        n.relu = L.ReLU(n.conv)
        n.norm = L.LRN(n.relu)
        n.pool = L.Pooling(n.norm, pool=P.Pooling.MAX, kernel_size=2, stride=2, pad=0)
        n.deconv = L.Deconvolution(n.pool, num_output=10, kernel_size=2, stride=2, pad=0)
        self.assertEqual(self.of(n), before)

    def test_rectangles_are_their_two_squares(self):
        tall, wide = self.of(map_net(kernel=3, pad=0)), self.of(map_net(kernel=5, stride=2, pad=10))
        both = self.of(map_net(kernel=[3, 5], stride=[1, 2], pad=[0, 10]))
        self.assertTrue(tall[0] == wide[0] == both[0] == 1)
        for value in (1, 2):
            self.assertEqual(tall[value], both[value][0])
            self.assertEqual(wide[value], both[value][1])

    def test_any_number_of_axes(self):
        n = caffe.NetSpec()
        n.data = L.Input(shape=dict(dim=[2, 3, 100, 100, 100]))
        n.conv = L.Convolution(n.data, num_output=10, kernel_size=[3, 3, 3], stride=[1, 1, 1], pad=[0, 1, 2])
        n.pool = L.Pooling(n.conv, pool=P.Pooling.MAX, kernel_size=2, stride=2, pad=0)
        n.deconv = L.Deconvolution(n.pool, num_output=10, kernel_size=4, stride=2, pad=0)
        axis, scale, shift = coord_map_from_to(n.deconv, n.data)
        self.assertEqual((axis, len(scale), len(shift)), (1, 3, 3))
        self.assertTrue((scale == 1).all())
        np.testing.assert_array_equal(np.diff(shift), [-1, -1])

    def test_a_crop_of_a_crop_adds_up(self):
        n = map_net()
        offset = 5
        first = coord_map_from_to(n.deconv, n.data)
        n.once = L.Crop(n.deconv, n.data, axis=2, offset=offset)
        self.assertEqual(coord_map_from_to(n.once, n.data)[2], first[2] + offset)
        n.twice = L.Crop(n.once, n.data, axis=2, offset=offset)
        self.assertEqual(coord_map_from_to(n.twice, n.data)[2], first[2] + 2 * offset)

    def test_crop_makes_a_layer_that_undoes_the_shift(self):
        n = map_net(pad=0)
        n.cropped = crop(n.data, n.conv)
        self.assertEqual(n.to_proto().layer[-1].crop_param.offset[0], 1)
        self.assertEqual(coord_map(n.cropped.fn)[2], -1)

    def test_three_refusals(self):
        n = map_net()
        with self.assertRaises(RuntimeError):
            coord_map_from_to(n.deconv, n.aux)  # not connected
        n = map_net(dstride=4)
        with self.assertRaises(AssertionError):
            crop(n.deconv, n.data)  # another scale
        n = map_net(dpad=10)
        with self.assertRaises(AssertionError):
            crop(n.deconv, n.data)  # begins outside


class Files(unittest.TestCase):

    def test_blobs_old_new_and_bare(self):
        values = np.zeros((10, 10), dtype=np.float32) + 3
        new = caffe_pb2.BlobProto()
        new.data.extend(list(values.flatten()))
        new.shape.dim.extend(list(values.shape))
        self.assertEqual(caffe.io.blobproto_to_array(new).shape, values.shape)
        old = caffe_pb2.BlobProto()
        old.data.extend(list(values.flatten()))
        old.num, old.channels, old.height, old.width = 1, 1, 10, 10
        self.assertEqual(caffe.io.blobproto_to_array(old).shape, (1, 1, 10, 10))
        bare = caffe_pb2.BlobProto()
        bare.data.extend(list(values.flatten()))
        with self.assertRaises(ValueError):
            caffe.io.blobproto_to_array(bare)
        scalar = caffe_pb2.BlobProto()
        scalar.data.extend([123])
        self.assertEqual(caffe.io.blobproto_to_array(scalar), 123)

    def test_a_datum_without_label_is_smaller(self):
        with_label = caffe.io.array_to_datum(np.ones((10, 10, 3)), label=1)
        without = caffe.io.array_to_datum(np.ones((10, 10, 3)))
        self.assertGreater(len(with_label.SerializeToString()), len(without.SerializeToString()))


# A file as Caffe's tests have them: its layers are in the module that runs.
DISCOVERED = """
    import os
    import tempfile
    import unittest

    import numpy as np
    import six

    import caffe


    class Ten(caffe.Layer):
        def setup(self, bottom, top):
            pass

        def reshape(self, bottom, top):
            top[0].reshape(*bottom[0].data.shape)

        def forward(self, bottom, top):
            top[0].data[...] = 10 * bottom[0].data

        def backward(self, top, propagate_down, bottom):
            bottom[0].diff[...] = 10 * top[0].diff


    class Weight(caffe.Layer):
        def setup(self, bottom, top):
            self.blobs.add_blob(1)
            self.blobs[0].data[0] = 0

        def reshape(self, bottom, top):
            top[0].reshape(*bottom[0].data.shape)

        def forward(self, bottom, top):
            pass

        def backward(self, top, propagate_down, bottom):
            self.blobs[0].diff[0] = 1


    def net_file(kind):
        with tempfile.NamedTemporaryFile(mode='w+', delete=False) as f:
            f.write('''name: 'net' force_backward: true input: 'data' input_shape { dim: 10 dim: 9 dim: 8 }
                layer { type: 'Python' name: 'layer' bottom: 'data' top: 'top'
                  python_param { module: 'test_discovered' layer: '%s' } }''' % kind)
            return f.name


    @unittest.skipIf('Python' not in caffe.layer_type_list(), 'no Python layers')
    class Discovered(unittest.TestCase):
        def setUp(self):
            self.file = net_file('Ten')
            self.net = caffe.Net(self.file, caffe.TRAIN)
            os.remove(self.file)

        def test_forward_backward_reshape(self):
            x = 8
            self.net.blobs['data'].data[...] = x
            self.net.forward()
            for y in self.net.blobs['top'].data.flat:
                self.assertEqual(y, 10 * x)
            self.net.blobs['top'].diff[...] = 7
            self.net.backward()
            for y in self.net.blobs['data'].diff.flat:
                self.assertEqual(y, 70)
            s = 4
            self.net.blobs['data'].reshape(s, s, s, s)
            self.net.forward()
            for blob in six.itervalues(self.net.blobs):
                for d in blob.data.shape:
                    self.assertEqual(s, d)

        def test_parameters(self):
            file = net_file('Weight')
            net = caffe.Net(file, caffe.TRAIN)
            net.forward()
            net.backward()
            layer = net.layers[list(net._layer_names).index('layer')]
            self.assertEqual((layer.blobs[0].data[0], layer.blobs[0].diff[0]), (0, 1))
            layer.blobs[0].data[0] += layer.blobs[0].diff[0]
            self.assertEqual(layer.blobs[0].data[0], 1)
            handle, path = tempfile.mkstemp()
            net.save(path)
            os.close(handle)
            layer.blobs[0].data[0] = -1
            self.assertEqual(layer.blobs[0].data[0], -1)
            net.copy_from(path)
            self.assertEqual(layer.blobs[0].data[0], 1)
            os.remove(path)
            other = caffe.Net(file, caffe.TRAIN)
            os.remove(file)
            other.share_with(net)
            layer = other.layers[list(other._layer_names).index('layer')]
            self.assertEqual(layer.blobs[0].data[0], 1)


    if __name__ == '__main__':
        unittest.main()
"""


class Discovery(WithNets):

    @unittest.skipUnless("PYTHONPATH" in os.environ, "the package is an installed one")
    def test_from_the_root_of_the_clone_with_two_folders_on_the_path(self):
        folder = self.path("test")
        os.mkdir(folder)
        self.write("test/test_discovered.py", textwrap.dedent(DISCOVERED))
        variables = dict(environment(), PYTHONPATH=os.pathsep.join(
            os.path.relpath(path, ROOT) for path in os.environ["PYTHONPATH"].split(os.pathsep) if path))
        done = subprocess.run([sys.executable, "-m", "unittest", "discover", "-s", folder], cwd=ROOT, env=variables,
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Ran 2 tests", done.stderr)


class Names(unittest.TestCase):

    def test_all_of_the_surface(self):
        for name in ("Net SGDSolver NesterovSolver AdaGradSolver RMSPropSolver AdaDeltaSolver AdamSolver NCCL Timer init_log "
                     "log set_mode_cpu set_mode_gpu set_device Layer get_solver layer_type_list set_random_seed "
                     "solver_count set_solver_count solver_rank set_solver_rank set_multiprocess has_nccl __version__ "
                     "TRAIN TEST Classifier Detector io layers params NetSpec to_proto").split():
            self.assertTrue(hasattr(caffe, name), name)
        for name in ("blobs blob_loss_weights params layer_dict layers inputs outputs top_names bottom_names forward backward "
                     "forward_all forward_backward_all reshape clear_param_diffs copy_from share_with save save_hdf5 "
                     "load_hdf5 set_input_arrays before_forward after_forward before_backward after_backward _layer_names "
                     "_blob_names _inputs _outputs _forward _backward").split():
            self.assertTrue(hasattr(caffe.Net, name), name)
        for name in ("net test_nets iter lr param solve step restore snapshot apply_update share_weights "
                     "add_callback").split():
            self.assertTrue(hasattr(caffe.SGDSolver, name), name)
        for module, names in ((caffe.io, "blobproto_to_array array_to_blobproto arraylist_to_blobprotovector_str "
                                         "blobprotovector_str_to_arraylist array_to_datum datum_to_array load_image "
                                         "resize_image oversample Transformer"),
                              (caffe.draw, "get_pydot_graph draw_net draw_net_to_file"),
                              (caffe.net_spec, "NetSpec Top Function Layers Parameters to_proto layers params"),
                              (caffe.io.Transformer, "set_transpose set_channel_swap set_raw_scale set_mean "
                                                     "set_input_scale preprocess deprocess")):
            for name in names.split():
                self.assertTrue(hasattr(module, name), name)
        for name in ("Data", "Convolution", "InnerProduct"):
            self.assertIn(name, caffe.layer_type_list())
        self.assertIs(type(caffe.NCCL.new_uid()), bytes)

    def test_log_in_its_three_forms(self):
        caffe.init_log()
        caffe.init_log(2)
        caffe.init_log(1, True)
        caffe.set_mode_cpu()


if __name__ == "__main__":
    unittest.main()
