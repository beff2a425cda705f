"""What scripts do at a bad moment or with the wrong things: an exception at most, never a crash. CI runs this under the
address sanitizer too, so memory that is read or written after its end shows even where nothing crashes."""

import gc
import os
import subprocess
import sys
import threading
import unittest
import weakref

import numpy as np

import caffe
import layers_for_tests
from nets import INPUTS, ROOT, TWO_LAYERS, WithNets, environment

CONVOLUTIONS = """
name: "convolutions" force_backward: true
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 9 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv" convolution_param { num_output: 4 kernel_size: 3 pad: 1
  weight_filler { type: "gaussian" std: 0.1 } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "norm" type: "LRN" bottom: "conv" top: "norm" }
layer { name: "pool" type: "Pooling" bottom: "norm" top: "pool" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "batch" type: "BatchNorm" bottom: "pool" top: "batch" }
layer { name: "drop" type: "Dropout" bottom: "batch" top: "batch" }
layer { name: "soft" type: "Softmax" bottom: "batch" top: "soft" }
"""

PYTHON = """
name: "bad moments" force_backward: true
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "py" type: "Python" bottom: "x" top: "y" python_param { module: "layers_for_tests" layer: "%s" param_str: "%s" } }
layer { name: "ip" type: "InnerProduct" bottom: "y" top: "z"
  inner_product_param { num_output: 2 weight_filler { type: "gaussian" std: 1 } } }
"""


def crowd_out():
    """Puts something where memory that was freed by mistake would be."""
    gc.collect()
    return [np.full(count, 7, np.float32) for count in (6, 12, 60, 432) for _ in range(100)]


class Owners(WithNets):

    def test_what_is_held_of_a_net_stays_usable_without_it(self):
        net = self.net(TWO_LAYERS)
        net.forward()
        net.backward()
        blobs, params, layers = list(net.blobs.values()), list(net.params.values()), list(net.layers)
        del net
        junk = crowd_out()
        for blob in blobs + [blob for vector in params for blob in vector]:
            blob.data[...] += 1
            blob.diff[...] += 1
        self.assertEqual([layer.type for layer in layers][1], "Convolution")
        self.assertEqual(layers[1].blobs[0].shape, (4, 2, 2, 2))
        blobs[0].reshape(50, 2, 3, 4)
        blobs[0].data[...] = 2
        del junk

    def test_shared_weights_outlive_the_net_they_came_from(self):
        net, other = self.net(INPUTS), self.net(INPUTS)
        own = other.params["a"][0].data
        other.share_with(net)
        net.params["a"][0].data[...] = 2
        del net
        junk = crowd_out()
        self.assertTrue((other.params["a"][0].data == 2).all())
        own[...] = 3  # no longer the net's, but still memory
        other.forward(x=np.ones((4, 3)))
        self.assertTrue((other.blobs["a"].data == 6).all())
        del junk

    def test_a_solver_lives_as_long_as_a_piece_of_it_is_held(self):
        solver = caffe.SGDSolver(self.solver_file())
        solver.step(1)
        param, blob, test = solver.param, solver.net.blobs["conv"], solver.test_nets[0]
        del solver
        junk = crowd_out()
        self.assertEqual(param.max_iter, 20)
        test.forward()
        blob.data[...] = 1
        del junk, param, test
        gc.collect()
        self.assertTrue((blob.data == 1).all())

    def test_memory_data_keeps_its_arrays(self):
        net = self.net("""layer { name: "m" type: "MemoryData" top: "x" top: "y"
            memory_data_param { batch_size: 2 channels: 1 height: 1 width: 3 } }""")
        net.set_input_arrays(np.full((4, 1, 1, 3), 5, np.float32), np.full(4, 2, np.float32))
        junk = crowd_out()
        for _ in range(3):
            net.forward()
            self.assertTrue((net.blobs["x"].data == 5).all() and (net.blobs["y"].data == 2).all())
        with self.assertRaises(caffe.ConfigError):
            net.set_input_arrays(np.zeros((4, 1, 1, 4), np.float32), np.zeros(4, np.float32))
        net.forward()
        self.assertTrue((net.blobs["x"].data == 5).all())
        del junk

    def test_nets_and_solvers_in_a_circle_are_collected(self):
        net, solver = self.net(INPUTS), caffe.SGDSolver(self.solver_file())
        net.after_forward(lambda layer, net=net: net.name)
        solver.net.before_forward(lambda layer, solver=solver: solver.iter)
        solver.add_callback(lambda solver=solver: solver.iter, lambda solver=solver: solver.net)
        gc.collect()
        net.forward()
        solver.step(1)  # nothing was taken away that is still in use
        held, gone = solver.net, [weakref.ref(net), weakref.ref(solver)]
        del net, solver
        gc.collect()
        self.assertEqual(gone[0](), None)
        self.assertIsNot(gone[1](), None)  # the net's hook has it
        del held
        gc.collect()
        self.assertEqual(gone[1](), None)

    def test_the_collector_may_come_at_any_time(self):
        script = self.write("run.py", "import gc, caffe\n"
                                      "gc.set_threshold(1)\n"
                                      "solver = caffe.SGDSolver(%r)\n"
                                      "solver.add_callback(lambda: solver.iter, lambda: [[] for _ in range(20)])\n"
                                      "solver.net.after_forward(lambda layer: [solver])\n"
                                      "solver.step(3)\n" % self.solver_file())
        done = subprocess.run([sys.executable, script], timeout=120, capture_output=True, text=True, env=environment())
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_dlpack_holds_the_memory_whether_it_is_used_or_not(self):
        net = self.net(INPUTS)
        unused = net.blobs["x"].__dlpack__()
        shared = np.from_dlpack(net.blobs["x"])
        net.blobs["x"].data[...] = 4
        net.blobs["x"].reshape(900, 3)
        net.forward()
        del net
        junk = crowd_out()
        self.assertTrue((shared == 4).all())
        del unused, shared, junk
        gc.collect()

    def test_the_process_may_end_with_everything_still_there(self):
        with open(self.path("run.py"), "w") as file:
            file.write("import caffe, threading\n"
                       "solver = caffe.SGDSolver(%r)\n"
                       "solver.step(2)\n"
                       "solver.net.after_forward(lambda layer: solver.iter)\n"
                       "held = [solver.net.blobs['data'].data, solver.net.layers, solver.test_nets[0].params]\n"
                       "net = caffe.Net(%r, caffe.TEST)\n"
                       "held.append(net.blobs['y'].__dlpack__())\n"
                       % (self.solver_file(), self.write("py.prototxt", PYTHON % ("Times", "2"))))
        done = subprocess.run([sys.executable, self.path("run.py")], timeout=120, capture_output=True, text=True,
                              env=environment(os.path.join(ROOT, "tests", "python")))
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Views(WithNets):

    def test_survive_every_reshape(self):
        net = self.net(CONVOLUTIONS)
        views = []
        for height in (9, 30, 5, 60, 9):
            net.blobs["x"].reshape(2, 3, height, 8)
            views += [blob.data for blob in net.blobs.values()] + [blob.diff for blob in net.blobs.values()]
            net.forward()
            net.backward()
            self.assertEqual(net.blobs["pool"].shape, (2, 4, (height + 1) // 2, 4))
        for view in views:
            view[...] = view + 1

    def test_a_backward_pass_after_a_reshape_uses_no_stale_sizes(self):
        for shape in ((7, 3, 40, 30), (1, 3, 3, 3)):
            net = self.net(CONVOLUTIONS)
            net.forward()
            net.blobs["x"].reshape(*shape)
            with self.assertRaisesRegex(caffe.ConfigError, "forward"):
                net.backward()
            net.reshape()
            with self.assertRaisesRegex(caffe.ConfigError, "forward"):
                net.backward()
            net.forward()
            net.backward()
            self.assertEqual(net.blobs["x"].diff.shape, shape)

    def test_a_backward_pass_may_come_first(self):
        for text in (CONVOLUTIONS, TWO_LAYERS, INPUTS):
            self.net(text).backward()

    def test_blobs_between_layers_may_be_reshaped_at_any_time(self):
        net = self.net(CONVOLUTIONS)
        for name in ("conv", "pool", "soft"):
            net.forward()
            net.blobs[name].reshape(1, 1, 2, 2)
            with self.assertRaisesRegex(caffe.ConfigError, "forward"):
                net.backward()
            try:
                net.forward(start="norm", end="soft")
            except caffe.Error as error:
                self.assertIn("fix:", str(error))
            net.forward()
            net.backward()
            self.assertEqual(net.blobs["pool"].shape, (2, 4, 5, 4))

    def test_wrong_types_and_shapes_are_refused_and_change_nothing(self):
        net = self.net(INPUTS)
        net.blobs["x"].data[...] = 3
        for wrong in (np.ones((4, 4)), np.ones((3, 4)), np.array(["a"] * 12).reshape(4, 3), [[1, 2], [3]], object(), None,
                      np.ones((4, 3, 1)), np.ones(0)):
            with self.assertRaises(Exception):
                net.forward(x=wrong)
            self.assertTrue((net.blobs["x"].data == 3).all())
        for wrong in (np.ones((4, 3), np.float64), np.ones((4, 3), np.int8), np.ones((4, 3), np.float16),
                      np.asfortranarray(np.ones((4, 3))), np.ones((8, 6))[::2, ::2], [[1] * 3] * 4):
            self.assertEqual(net.forward(x=wrong)["b"].shape, (4, 2))
            self.assertTrue((net.blobs["x"].data == 1).all())

    def test_shapes_that_cannot_be_are_refused(self):
        net = self.net(INPUTS)
        for dims in ((-1, 3), (2**62, 2**62), (2**31, 2**31), ("4",), (4.0,), (None,), ((1, 2), 3), (10**30,), (1,) * 40):
            with self.assertRaises((RuntimeError, TypeError, OverflowError, ValueError, MemoryError), msg=dims):
                net.blobs["x"].reshape(*dims)
            self.assertEqual(net.blobs["x"].shape, (4, 3))
        net.blobs["x"].reshape(4, 5)  # a convolution or product with other weights would be needed
        with self.assertRaisesRegex(caffe.ConfigError, 'layer "a"'):
            net.forward()
        net.blobs["x"].reshape(0, 3)
        self.assertEqual(net.forward()["b"].shape, (0, 2))

    def test_attributes_are_not_to_be_replaced(self):
        net = self.net(INPUTS)
        for change in (lambda: setattr(net.blobs["x"], "data", np.ones((4, 3))),
                       lambda: net.params["a"].__setitem__(0, np.ones(1)),
                       lambda: setattr(net.blobs["x"], "shape", (3, 4))):
            with self.assertRaises((AttributeError, TypeError)):
                change()


class Hooks(WithNets):

    def test_may_raise_and_the_net_goes_on(self):
        net = self.net(TWO_LAYERS)
        for hook in (net.before_forward, net.after_forward, net.before_backward, net.after_backward):
            stop = [True]

            def raises(layer, stop=stop):
                if stop and layer == 2:
                    raise KeyError("layer 2")

            hook(raises)
            with self.assertRaisesRegex(KeyError, "layer 2"):
                net.forward()
                net.backward()
            stop.clear()
            net.forward()
            net.backward()

    def test_may_add_hooks_run_the_net_and_reshape_its_blobs(self):
        net = self.net(INPUTS)
        seen, inside = [], []

        def more(layer):
            for _ in range(20):
                net.after_forward(lambda layer: seen.append(layer))
            if not inside:
                inside.append(layer)
                net.forward(end="a")
            if layer == 0:
                net.blobs["x"].reshape(9, 3)

        net.after_forward(more)
        self.assertEqual(net.forward()["b"].shape, (9, 2))
        self.assertGreater(len(seen), 40)

    def test_may_let_go_of_the_last_name_of_the_net(self):
        nets = [self.net(INPUTS)]
        nets[0].before_forward(lambda layer: nets.clear())
        self.assertEqual(list(nets[0].forward()), ["b"])
        self.assertEqual(nets, [])

    def test_callbacks_cannot_step_within_a_step(self):
        solver = caffe.SGDSolver(self.solver_file())
        asked = [lambda: solver.step(1), solver.solve, solver.apply_update, lambda: solver.restore("nowhere"),
                 lambda: solver.add_callback(lambda: None, lambda: None)]
        refused = []

        def ask():
            for call in asked:
                with self.assertRaisesRegex(caffe.ConfigError, "in the middle of a step"):
                    call()
                refused.append(call)

        solver.add_callback(ask, ask)
        solver.step(2)
        self.assertEqual((solver.iter, len(refused)), (2, 20))

    def test_callbacks_may_raise_and_the_solver_goes_on(self):
        solver = caffe.SGDSolver(self.solver_file())
        stop = [True]

        def maybe():
            if stop:
                raise LookupError("not now")

        solver.add_callback(maybe, lambda: None)
        with self.assertRaisesRegex(LookupError, "not now"):
            solver.step(3)
        self.assertEqual(solver.iter, 0)
        stop.clear()
        solver.step(3)
        self.assertEqual(solver.iter, 3)


class PythonLayers(WithNets):

    def test_that_raise_anywhere_leave_net_and_memory_whole(self):
        layers_for_tests.Raises.where = "setup"
        with self.assertRaisesRegex(ArithmeticError, "in setup"):
            self.net(PYTHON % ("Raises", "5"))
        layers_for_tests.Raises.where = None
        net = self.net(PYTHON % ("Raises", "5"))
        for where in ("reshape", "forward", "backward"):
            layers_for_tests.Raises.where = where
            try:
                net.forward()
                net.backward()
                self.fail("nothing was raised")
            except ArithmeticError as error:
                self.assertIn("in " + where, str(error))
                frames = error.__traceback__  # holds what the layer's method had: self, bottom, top
            layers_for_tests.Raises.where = None
            self.assertTrue((net.forward(x=np.ones((4, 3)), blobs=["y"])["y"] == 5).all())
            net.backward()
        del net
        junk = crowd_out()
        while frames.tb_next.tb_next is not None:
            frames = frames.tb_next
        bottom = frames.tb_frame.f_locals["bottom"][0]
        self.assertEqual(bottom.data.shape, (4, 3))
        del junk, frames
        junk = crowd_out()
        with self.assertRaisesRegex(caffe.Error, "gone"):
            bottom.data
        del junk

    def test_may_reshape_their_tops_in_forward(self):
        net = self.net(PYTHON % ("Proposals", ""))
        for rows in (3, 500, 1, 0, 40):
            net.blobs["x"].data[...] = rows
            self.assertEqual(net.forward()["z"].shape, (rows, 2))
            self.assertTrue((net.blobs["y"].data == rows).all())
            net.backward()

    def test_that_give_a_wrong_shape_are_refused(self):
        net = self.net(PYTHON % ("Times", ""))
        net.blobs["y"].reshape(4, 4)
        net.forward()
        net.blobs["x"].reshape(4, 7)
        with self.assertRaisesRegex(caffe.ConfigError, 'layer "ip"'):
            net.forward()

    def test_may_run_another_net(self):
        layers_for_tests.RunsANet.net = self.net(INPUTS)
        try:
            net = self.net(PYTHON % ("RunsANet", ""))
            self.assertEqual(net.forward()["z"].shape, (4, 2))
        finally:
            layers_for_tests.RunsANet.net = None


class Threads(WithNets):

    def together(self, *bodies):
        """Runs them all at once; raises what the first of them raised."""
        raised = []

        def run(body):
            try:
                body()
            except BaseException as error:
                raised.append(error)

        threads = [threading.Thread(target=run, args=(body,)) for body in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            self.assertFalse(thread.is_alive())
        if raised:
            raise raised[0]

    def test_run_nets_of_their_own(self):
        nets = [self.net(PYTHON % ("Times", "3")) for _ in range(4)]

        def run(net, value):
            for _ in range(30):
                out = net.forward(x=np.full((4, 3), value), blobs=["y"])
                np.testing.assert_array_equal(out["y"], 3 * value)
                net.backward()

        self.together(*[lambda net=net, value=value: run(net, value) for value, net in enumerate(nets)])

    def test_take_turns_at_one_net(self):
        net = self.net(PYTHON % ("Times", "3"))

        def run(rows):
            for _ in range(30):
                net.forward()
                net.backward()
                net.reshape()

        self.together(*[lambda rows=rows: run(rows) for rows in range(1, 5)])

    def test_take_turns_at_one_solver(self):
        solver = caffe.SGDSolver(self.solver_file())
        self.together(lambda: solver.step(10), lambda: solver.step(10),
                      lambda: [solver.net.forward() for _ in range(10)])
        self.assertEqual(solver.iter, 20)

    def test_others_run_while_a_net_runs(self):
        net = self.net(INPUTS)
        first, second = threading.Event(), threading.Event()

        def hook(layer):
            first.set()
            if not second.wait(60):
                raise AssertionError("the other thread did not come to run")

        net.after_forward(hook)
        self.together(net.forward, lambda: (first.wait(60), second.set()))

    def test_make_nets_at_once(self):
        file = self.write("net.prototxt", TWO_LAYERS)
        self.together(*[lambda: [caffe.Net(file, caffe.TRAIN).forward() for _ in range(5)] for _ in range(4)])


if __name__ == "__main__":
    unittest.main()
