#!/usr/bin/env python3
"""Training on several virtual GPUs: '1 against P' for every exchange, resuming, and mistakes."""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("CARAFE_BUILD", str(ROOT / "build-vgpu"))
sys.path.insert(0, str(ROOT / "tests/support"))
from cli import CarafeTest, difference, main, weights  # noqa: E402

SANITY = 1e-4  # of '1 against P' in float
EXCHANGES = "allreduce", "server", "tree", "ssp", "sfb"
LAYOUTS = ((1, "--gpu=0,1,2,3"), (2, "--gpu=0,1,2,3"))  # ranks, and the GPUs that they divide
# A bias in front of BatchNorm has no effect: its gradient is rounding.
NO_BIAS = ("num_output: 4 ", "num_output: 4 bias_term: false ")
NORM = ('layer { name: "relu1"', 'layer { name: "bn" type: "BatchNorm" bottom: "conv1" top: "conv1" }\nlayer { name: "relu1"')
FROZEN = ('name: "conv1"', 'name: "conv1"\n  param { lr_mult: 0 }')


class ManyGpus(CarafeTest):
    iterations = 12

    def train(self, *flags, batch=8, replace=(), snapshot=0, more="", ranks=1, **options):
        self.write_net(batch=batch, replace=replace)
        self.write_solver(max_iter=self.iterations, snapshot=snapshot, more=more)
        return self.carafe("train", "--solver=solver.prototxt", *flags, ranks=ranks, **options)

    def model(self, iteration=None):
        return weights(self.dir / f"snap/small_iter_{iteration or self.iterations}.caffemodel")

    def of_one(self, **options):
        """What one worker on one GPU learns from the whole batch."""
        self.train("--gpu=0", batch=32, **options)
        return self.model()

    def assert_law(self, expected, *flags, limit=SANITY, **options):
        self.train(*flags, **options)
        self.assertLess(difference(expected, self.model()), limit, f"{flags} {options}")

    def test_four_gpus_learn_what_one_learns(self):
        expected = self.of_one()
        for exchange in EXCHANGES:
            for ranks, gpus in LAYOUTS:
                self.assert_law(expected, gpus, f"--exchange={exchange}", ranks=ranks)

    def test_so_they_do_in_any_order_of_work(self):
        expected = self.of_one()
        for seed in "0", "2":
            self.assert_law(expected, "--gpu=2,1,0,3", ranks=2, env={"CARAFE_VGPU_SEED": seed})

    def test_gradients_are_clipped_by_the_norm_of_all(self):
        for more in "clip_gradients: 0.5\n", "clip_gradients: 0.5 iter_size: 2\n":
            expected = self.of_one(more=more)
            for exchange in EXCHANGES:
                self.assert_law(expected, "--gpu=all", f"--exchange={exchange}", more=more, ranks=2,
                                env={"CARAFE_VGPU_DEVICES": "4"})

    def test_running_statistics_and_frozen_layers_reach_all_gpus(self):
        """Statistics of each worker's own rows: so CPUs with as many workers are the reference."""
        for exchange in "allreduce", "server", "ssp":
            options = {"replace": (NORM, NO_BIAS, FROZEN), "ranks": 2}
            self.train("--workers=2", f"--exchange={exchange}", **options)
            self.assert_law(self.model(), "--gpu=0,1,2,3", f"--exchange={exchange}", **options)

    def test_synchronised_statistics_are_those_of_one_worker(self):
        expected = self.of_one(replace=(NORM, NO_BIAS))
        self.assert_law(expected, "--gpu=0,1,2,3", "--batch_norm=sync", replace=(NORM, NO_BIAS), ranks=2)

    def test_encoded_gradients(self):
        self.train("--workers=2", "--wire=bf16", ranks=2)
        self.assert_law(self.model(), "--gpu=0,1,2,3", "--wire=bf16", ranks=2, limit=1e-2)

    def test_two_workers_may_share_a_gpu(self):
        expected = self.of_one()
        self.assert_law(expected, "--gpu=auto", "--workers=2", ranks=2)

    def test_training_goes_on_across_cpus_and_gpus(self):
        half = self.iterations // 2
        expected = self.of_one()
        on_gpus, on_cpu = {"flags": ["--gpu=0,1,2,3"], "batch": 8, "ranks": 2}, {"flags": [], "batch": 32, "ranks": 1}
        for exchange in "allreduce", "ssp":
            for first, second in (on_gpus, on_cpu), (on_cpu, on_gpus):
                self.train(*first["flags"], f"--exchange={exchange}", snapshot=half, batch=first["batch"], ranks=first["ranks"])
                self.assert_law(expected, *second["flags"], f"--exchange={exchange}", f"--snapshot=snap/small_iter_{half}.solverstate",
                                batch=second["batch"], ranks=second["ranks"])

    def test_weights_are_loaded_on_all_gpus(self):
        self.train("--gpu=0", batch=32)
        (self.dir / "snap/small_iter_12.caffemodel").rename(self.dir / "start.caffemodel")
        start = "--weights=start.caffemodel"
        self.train("--gpu=0", start, batch=32, replace=(FROZEN,))
        self.assert_law(self.model(), "--gpu=0,1,2,3", start, replace=(FROZEN,))

    def test_the_command_of_caffe_mpi(self):
        expected = self.of_one()
        self.write_net(batch=8)
        self.write_solver(max_iter=self.iterations)
        result = self.carafe("train", "--solver=solver.prototxt", "--gpu=0,1,2,3", ranks=2)
        self.assertIn("4 workers on 1 host", result.stderr)
        self.assertIn("GPU 2 (Carafe virtual GPU", result.stderr)
        self.assertLess(difference(expected, self.model()), SANITY)

    def test_mistakes_are_errors_with_the_remedy(self):
        for flags, ranks, what, fix in ((["--gpu=0,1,2"], 2, "names 3 GPUs for 2 ranks", "--gpu=auto"),
                                        (["--gpu=0,1", "--workers=2"], 1, "--workers=2 beside --gpu=0,1", "remove --workers"),
                                        (["--gpu=0,1", "--exchange=local"], 2, "--exchange=local keeps", "train on CPUs"),
                                        (["--gpu=0,1", "--exchange=ssp", "--server_update=arrival"], 2, "--server_update=arrival keeps", "train on CPUs"),
                                        (["--gpu=7,8"], 1, "there is no GPU 8", "device_query")):
            error = self.train(*flags, ranks=ranks, expect=1).stderr
            self.assertIn(what, error)
            self.assertIn(fix, error)
            self.assertEqual(error.count("fix:"), 1, error)

    def test_a_lost_gpu_ends_all_workers_and_ranks(self):
        for ranks, gpus in LAYOUTS:
            self.write_net(batch=8)
            self.write_solver(max_iter=1000)
            result = self.finish(self.start("train", "--solver=solver.prototxt", gpus, ranks=ranks,
                                            env={"CARAFE_VGPU_FAULTS": "lost@3000"}))
            self.assertNotEqual(result.returncode, 0)
            self.assertRegex(result.stderr, r"GPU [0-3]: error: .*unavailable")


if __name__ == "__main__":
    main()
