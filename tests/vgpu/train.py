#!/usr/bin/env python3
"""The program on virtual GPUs, in the build folder of the preset vgpu."""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("CARAFE_BUILD", str(ROOT / "build-vgpu"))
sys.path.insert(0, str(ROOT / "tests/support"))
from cli import CarafeTest, difference, main, weights  # noqa: E402

SANITY = 1e-4  # of '1 against P' in float


class VirtualGpu(CarafeTest):
    def train(self, *flags, solver="solver.prototxt", **options):
        return self.carafe("train", f"--solver={solver}", *flags, **options)

    def model(self, iteration=40):
        return weights(self.dir / f"snap/small_iter_{iteration}.caffemodel")

    def test_device_query_says_that_it_is_a_test_bed(self):
        out = self.carafe("device_query", env={"CARAFE_VGPU_DEVICES": "3"}).stdout
        self.assertEqual(out.count("test bed"), 3)
        self.assertIn("GPU 2 (Carafe virtual GPU", out)

    def test_a_gpu_learns_what_the_cpu_learns(self):
        self.train()
        on_cpu = self.model()
        for seed in "0", "1", "2":
            self.train("--gpu=0", env={"CARAFE_VGPU_SEED": seed})
            self.assertLess(difference(on_cpu, self.model()), SANITY)

    def test_the_solver_may_ask_for_it(self):
        broken = {"CARAFE_VGPU_FAULTS": "lost@50"}
        self.write_solver(max_iter=2)
        self.train(env=broken)
        self.write_solver(max_iter=2, more="solver_mode: GPU\n")
        self.assertIn("GPU 0: error: ", self.train(expect=1, env=broken).stderr)

    def test_training_goes_on_across_cpu_and_gpu(self):
        self.write_solver(snapshot=20)
        self.train()
        expected = self.model()
        for first, second in ([], ["--gpu=0"]), (["--gpu=1"], []):
            self.train(*first)
            self.train("--snapshot=snap/small_iter_20.solverstate", *second)
            self.assertLess(difference(expected, self.model()), SANITY)

    def test_two_ranks_with_a_gpu_each_learn_what_one_cpu_learns(self):
        self.write_net(batch=32)
        self.train()
        expected = self.model()
        self.write_net(batch=16)
        for exchange in "allreduce", "server", "tree":
            self.train("--gpu=auto", f"--exchange={exchange}", ranks=2)
            self.assertLess(difference(expected, self.model()), SANITY, exchange)

    def test_trained_nets_are_tested_and_timed(self):
        self.train()
        self.carafe("test", "--model=net.prototxt", "--weights=snap/small_iter_40.caffemodel", "--iterations=2", "--gpu=0")
        self.carafe("time", "--model=net.prototxt", "--iterations=2", "--gpu=0")

    def test_failures_end_in_an_error_with_the_remedy(self):
        for faults, what, fix in (("oom@7", "out of memory", "use a smaller batch_size"),
                                  ("ecc@500", "uncorrectable ECC error", "resume with --snapshot=auto"),
                                  ("lost@500", "unavailable", "resume with --snapshot=auto")):
            error = self.train("--gpu=0", expect=1, env={"CARAFE_VGPU_FAULTS": faults}).stderr
            self.assertRegex(error, rf"GPU 0: error: .*{what}")
            self.assertIn(fix, error)

    def test_a_lost_gpu_ends_all_ranks(self):
        result = self.finish(self.start("train", "--solver=solver.prototxt", "--gpu=auto", ranks=2,
                                        env={"CARAFE_VGPU_FAULTS": "lost@500"}))
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"GPU [01]: error: .*unavailable")


if __name__ == "__main__":
    main()
