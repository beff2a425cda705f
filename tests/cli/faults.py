#!/usr/bin/env python3
"""Full disks, damaged snapshots, readers that go away, and two runs with the same snapshots."""
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import TIMEOUT, CarafeTest, main  # noqa: E402

RANKS = ((1, "openmpi"), (2, "openmpi"), (2, "mpich"))


class Faults(CarafeTest):
    def block(self, *iterations):
        """The weights of these iterations cannot be written: a folder lies in their place."""
        for iteration in iterations:
            (self.dir / f"snap/small_iter_{iteration}.caffemodel").mkdir(parents=True, exist_ok=True)

    def test_a_run_without_its_final_model_never_ends_with_zero(self):
        self.write_solver(max_iter=8, snapshot=4)
        self.block(4, 8)
        for ranks, mpi in RANKS:
            result = self.carafe("train", "--solver=solver.prototxt", ranks=ranks, mpi=mpi, expect=1)
            self.assertIn("the snapshot of iteration 4 failed: ", result.stderr)
            self.assertIn("snap/small_iter_8.caffemodel: error: renaming failed", result.stderr)
        self.write_solver(max_iter=8, snapshot=4, more="snapshot_after_train: false\n")
        self.carafe("train", "--solver=solver.prototxt", ranks=2)

    def test_sigterm_without_a_snapshot_is_an_error(self):
        self.write_solver(max_iter=1000000, more="snapshot_after_train: false\n")
        first = self.start("train", "--solver=solver.prototxt", "--run_dir=.")  # there is no folder snap
        while "Iteration 20 " not in first.stderr.readline():
            self.assertIsNone(first.poll())
        first.send_signal(signal.SIGTERM)
        result = self.finish(first)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("No such file or directory", result.stderr)

    def test_a_log_on_a_full_disk_does_not_end_the_run(self):
        self.write_solver(max_iter=4)
        (self.dir / "run").mkdir()
        (self.dir / "run/train.log").symlink_to("/dev/full")
        (self.dir / "run/metrics.csv").symlink_to("/dev/full")
        result = self.carafe("train", "--solver=solver.prototxt", "--run_dir=run")
        self.assertIn("run/train.log cannot be written: ", result.stderr)
        self.assertIn("writing run/metrics.csv failed: No space left on device", result.stderr)
        self.assertTrue((self.dir / "snap/small_iter_4.caffemodel").exists())

    def test_an_error_after_a_failed_snapshot_is_reported_at_once(self):
        """Rank 1 finds a record that is missing; the harness would notice a wait for --comm_timeout."""
        (self.dir / "one.pgm").write_bytes(b"P5 4 4 255\n" + bytes(range(16)))
        self.write("list.txt", "".join(f"{'absent' if i == 41 else 'one'}.pgm {i % 10}\n" for i in range(60)))
        self.write("net.prototxt", """
            layer { name: "data" type: "ImageData" top: "data" top: "label"
              image_data_param { source: "list.txt" batch_size: 1 is_color: false } }
            layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
              inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
            layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }""")
        self.write("solver.prototxt", 'net: "net.prototxt" base_lr: 0.0001 lr_policy: "fixed" max_iter: 30 snapshot: 10 '
                   'snapshot_prefix: "snap/small"')
        self.block(10)
        for ranks, mpi in RANKS[1:]:
            result = self.carafe("train", "--solver=solver.prototxt", "--comm_timeout=300", ranks=ranks, mpi=mpi, expect=1)
            self.assertIn("the snapshot of iteration 10 failed: ", result.stderr)
            self.assertRegex(result.stderr, r"rank 1 on \S+: .*absent\.pgm")

    def test_a_reader_of_the_log_that_goes_away_does_not_end_the_run(self):
        self.write_solver(max_iter=60)
        process = self.start("train", "--solver=solver.prototxt")
        process.stderr.readline()
        process.stderr.close()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=TIMEOUT), 0)
        self.assertTrue((self.dir / "snap/small_iter_60.caffemodel").exists())

    def test_two_runs_do_not_write_the_same_snapshots(self):
        self.write_solver(max_iter=1000000)
        first = self.start("train", "--solver=solver.prototxt", "--run_dir=a")
        try:
            while "Iteration 0," not in first.stderr.readline():
                self.assertIsNone(first.poll())
            result = self.carafe("train", "--solver=solver.prototxt", "--run_dir=b", ranks=2, expect=1)
            self.assertIn("another run writes snapshots snap/small_iter_*\n  fix: ", result.stderr)
        finally:
            first.send_signal(signal.SIGINT)
            self.assertEqual(self.finish(first).returncode, 0)
        self.write_solver(max_iter=2)
        self.carafe("train", "--solver=solver.prototxt", "--run_dir=b")  # the lock ended with its process

    def test_snapshots_are_listed_and_verified(self):
        self.write_solver(max_iter=6, snapshot=2)
        self.carafe("train", "--solver=solver.prototxt", "--keep=2")
        text = self.carafe("snapshots", "snap").stdout
        self.assertRegex(text, r"(?s)iteration 6 +snap/small_iter_6.solverstate  whole\n.*"
                               r"iteration 4 +snap/small_iter_4.solverstate  whole\n2 snapshots, 0 damaged\n$")
        path = self.dir / "snap/small_iter_6.solverstate"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        text = self.carafe("snapshots", "snap", expect=1).stdout
        self.assertRegex(text, r"iteration 6 .* DAMAGED: snap/small_iter_6.solverstate: its content does not match")
        self.assertIn("2 snapshots, 1 damaged", text)
        result = self.carafe("train", "--solver=solver.prototxt", "--snapshot=auto", ranks=2)
        self.assertIn("resuming from iteration 4, the newest snapshot that is whole", result.stderr)
        self.assertIn("2 snapshots, 0 damaged", self.carafe("snapshots", "snap").stdout)
        self.assertIn("absent is no folder", self.carafe("snapshots", "absent", expect=1).stderr)

    def test_settings_that_are_not_finite_are_refused(self):
        for setting in ("clip_gradients: nan", "rms_decay: inf"):
            self.write_solver(more=setting + "\n")
            for command in (("check", "solver.prototxt"), ("train", "--solver=solver.prototxt")):
                name, value = setting.split(": ")
                self.assertIn(f"error: {name} is {value}\n  fix: give a finite number",
                              self.carafe(*command, expect=1).stderr)


if __name__ == "__main__":
    main()
