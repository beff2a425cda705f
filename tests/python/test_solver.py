"""Solvers that Python drives."""

import gc
import os
import unittest

import numpy as np

import caffe
from nets import INPUTS, TWO_LAYERS, WithNets


def weights(net):
    return np.concatenate([blob.data.ravel() for blobs in net.params.values() for blob in blobs])


class Solving(WithNets):

    def test_ends_at_max_iter(self):
        solver = caffe.SGDSolver(self.solver_file())
        self.assertEqual(solver.iter, 0)
        solver.solve()
        self.assertEqual(solver.iter, 20)
        self.assertEqual(solver.param.max_iter, 20)

    def test_step_and_solve_go_the_same_way(self):
        whole = caffe.SGDSolver(self.solver_file())
        whole.solve()
        parts = caffe.SGDSolver(self.solver_file())
        parts.step(7)
        self.assertEqual(parts.iter, 7)
        parts.solve()
        np.testing.assert_array_equal(weights(whole.net), weights(parts.net))

    def test_snapshots_are_written_and_restored(self):
        solver = caffe.SGDSolver(self.solver_file())
        solver.step(5)
        solver.snapshot()
        for kind in (".caffemodel", ".solverstate"):
            self.assertTrue(os.path.isfile(self.path("snap_iter_5" + kind)))
        solver.step(5)
        other = caffe.SGDSolver(self.solver_file())
        other.restore(self.path("snap_iter_5.solverstate"))
        self.assertEqual(other.iter, 5)
        other.step(5)
        np.testing.assert_array_equal(weights(solver.net), weights(other.net))
        third = caffe.SGDSolver(self.solver_file())
        third.solve(self.path("snap_iter_5.solverstate"))
        self.assertEqual(third.iter, 20)

    def test_apply_update_takes_the_gradients_as_they_are(self):
        solver = caffe.SGDSolver(self.solver_file())
        data = solver.net.layers[1].blobs[0].data
        data[...] = 0
        solver.net.layers[1].blobs[0].diff[...] = 1
        solver.apply_update()
        self.assertTrue((data == np.float32(-0.01)).all())
        self.assertEqual(solver.iter, 0)

    def test_a_loop_of_its_own_learns(self):
        solver = caffe.SGDSolver(self.solver_file())
        losses = []
        for _ in range(30):
            solver.net.clear_param_diffs()
            losses.append(float(solver.net.forward()["loss"]))
            solver.net.backward()
            solver.apply_update()
        self.assertLess(np.mean(losses[-5:]), np.mean(losses[:5]))

    def test_diffs_hold_the_update_after_a_step(self):
        solver = caffe.SGDSolver(self.solver_file())
        before = solver.net.params["ip"][0].data.copy()
        solver.step(1)
        blob = solver.net.params["ip"][0]
        self.assertGreater(abs(blob.diff).sum(), 0)
        np.testing.assert_allclose(before - blob.data, blob.diff, rtol=1e-3, atol=1e-6)

    def test_nets_outlive_the_solver(self):
        solver = caffe.SGDSolver(self.solver_file())
        nets = [solver.net] + list(solver.test_nets)
        self.assertIs(solver.net, solver.net)
        del solver
        gc.collect()
        for net in nets:
            self.assertGreater(float(net.forward()["loss"]), 0)

    def test_test_nets_share_the_weights(self):
        solver = caffe.SGDSolver(self.solver_file())
        solver.net.params["ip"][0].data[...] = 4
        self.assertTrue((solver.test_nets[0].params["ip"][0].data == 4).all())
        other = caffe.Net(self.path("net.prototxt"), caffe.TEST)
        solver.share_weights(other)
        self.assertTrue((other.params["ip"][0].data == 4).all())

    def test_callbacks_see_each_iteration_and_may_change_gradients(self):
        solver = caffe.SGDSolver(self.solver_file())
        seen = []

        def ready():
            seen.append(("ready", solver.iter))
            for blobs in solver.net.params.values():
                for blob in blobs:
                    blob.diff[...] = 0

        solver.add_callback(lambda: seen.append(("start", solver.iter)), ready)
        solver.net.params["conv"][1].data[...] = 1  # not decayed, so nothing moves it
        solver.step(2)
        self.assertEqual(seen, [("start", 0), ("ready", 0), ("start", 1), ("ready", 1)])
        self.assertTrue((solver.net.params["conv"][1].data == 1).all())

    def test_an_exception_in_a_callback_comes_out_of_step(self):
        solver = caffe.SGDSolver(self.solver_file())
        solver.add_callback(lambda: None, lambda: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            solver.step(1)

    def test_the_rate_follows_its_policy(self):
        solver = caffe.SGDSolver(self.solver_file())
        self.assertAlmostEqual(solver.lr, 0.01, places=7)
        solver.step(10)
        self.assertAlmostEqual(solver.lr, 0.01 * (1 + 1e-3) ** -0.75, places=7)
        solver.param.base_lr = 0.02
        self.assertAlmostEqual(solver.lr, 0.02 * (1 + 1e-3) ** -0.75, places=7)
        self.assertAlmostEqual(solver.param.base_lr, 0.02, places=7)

    def test_every_class_has_its_rule(self):
        for kind in ("SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam"):
            more = 'type: "%s"' % kind + (" momentum2: 0.999" if kind == "Adam" else "")
            path = self.solver_file(more=more)
            if kind in ("AdaGrad", "RMSProp"):
                text = open(path).read().replace("momentum: 0.9", "")
                path = self.write("solver.prototxt", text)
            solver = caffe.get_solver(path)
            self.assertIs(type(solver), getattr(caffe, kind + "Solver"))
            self.assertEqual(solver.type, kind)
            solver.step(2)
        self.assertEqual(caffe.NesterovSolver(self.solver_file()).type, "Nesterov")

    def test_files_may_be_paths(self):
        import pathlib
        self.assertEqual(caffe.get_solver(pathlib.Path(self.solver_file())).iter, 0)


class BadInput(WithNets):

    def test_errors_keep_their_kind(self):
        with self.assertRaises(caffe.DataError):
            caffe.SGDSolver(self.path("missing.prototxt"))
        with self.assertRaises(caffe.ConfigError):
            caffe.SGDSolver(self.write("s.prototxt", "base_lr: nonsense"))
        with self.assertRaises(caffe.ConfigError):
            caffe.SGDSolver(self.solver_file(net=TWO_LAYERS + "layer { type: \"Nothing\" }"))
        solver = caffe.SGDSolver(self.solver_file())
        with self.assertRaises(caffe.DataError):
            solver.restore(self.path("missing.solverstate"))
        with self.assertRaises(ValueError):
            solver.step(-1)
        with self.assertRaises(TypeError):
            solver.add_callback(1, 2)
        solver.step(1)  # is still usable


class Names(WithNets):

    def test_the_old_surface_is_there(self):
        self.assertIn("Convolution", caffe.layer_type_list())
        self.assertIn("Python", caffe.layer_type_list())
        self.assertIn("Data", caffe.layer_type_list())
        self.assertEqual((caffe.TRAIN, caffe.TEST), (0, 1))
        self.assertEqual((caffe.rank(), caffe.size()), (0, 1))
        self.assertEqual((caffe.solver_rank(), caffe.solver_count()), (0, 1))
        self.assertIn(caffe.has_nccl(), (True, False))
        self.assertIsInstance(caffe.NCCL.new_uid(), bytes)
        timer = caffe.Timer()
        timer.start()
        timer.stop()
        self.assertGreaterEqual(timer.ms, 0)
        caffe.set_mode_cpu()
        caffe.set_multiprocess(False)
        caffe.init_log(2)
        caffe.log("not shown")
        caffe.init_log(1, True)

    def test_solver_rank_deals_the_records(self):
        with self.assertRaises(caffe.ConfigError):
            caffe.set_solver_count(0)
        caffe.set_solver_count(2)
        caffe.set_solver_rank(1)
        try:
            self.assertEqual((caffe.solver_rank(), caffe.solver_count()), (1, 2))
            self.net(INPUTS).forward()
        finally:
            caffe.set_solver_rank(0)
            caffe.set_solver_count(1)


if __name__ == "__main__":
    unittest.main()
