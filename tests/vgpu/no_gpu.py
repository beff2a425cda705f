#!/usr/bin/env python3
"""A build with CUDA on a host without a GPU: CARAFE_BUILD is the build's folder (default: build-vgpu)."""
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("CARAFE_BUILD", str(ROOT / "build-vgpu"))
sys.path.insert(0, str(ROOT / "tests/support"))
from cli import CarafeTest, difference, main, weights  # noqa: E402

# Hides real GPUs, and takes the driver from the virtual GPU; either says that there is none.
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "CARAFE_VGPU_FAULTS": "no_driver"}
REASON = r"(NVIDIA's driver is missing or older than CUDA 13 requires|the driver lists no GPU.*)"


class NoGpu(CarafeTest):
    def test_device_query_says_what_is_missing(self):
        out = self.carafe("device_query", env=NO_GPU).stdout
        self.assertRegex(out, rf"(?m)^GPU: none that can be used: {REASON}\n  fix: (install|see) .*omit --gpu$")
        self.assertRegex(out, r"(?m)^cuBLAS: (\d+\.\d+\.\d+|cuBLAS cannot be loaded: .*)$")

    def test_an_explicit_gpu_is_an_error_with_the_remedy(self):
        for gpu in "0", "all", "auto":
            error = self.carafe("train", "--solver=solver.prototxt", f"--gpu={gpu}", expect=1, env=NO_GPU).stderr
            self.assertRegex(error, rf"there is no GPU 0: {REASON}\n  fix: (install|see) .*omit --gpu")

    def test_training_on_the_cpu_works(self):
        self.write_solver(max_iter=10)
        self.carafe("train", "--solver=solver.prototxt", env=NO_GPU)
        on_cpu = weights(self.dir / "snap/small_iter_10.caffemodel")
        self.write_solver(max_iter=10, more="solver_mode: GPU\n")
        log = "\n".join(self.log_of(self.carafe("train", "--solver=solver.prototxt", env=NO_GPU)))
        self.assertEqual(len(re.findall("solver_mode is GPU, but no GPU can be used here", log)), 1)
        self.assertEqual(difference(on_cpu, weights(self.dir / "snap/small_iter_10.caffemodel")), 0)


if __name__ == "__main__":
    main()
