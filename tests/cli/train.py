#!/usr/bin/env python3
"""Training from the command line: log, metrics, snapshots, resuming, signals."""
import csv
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import BUILD, TIMEOUT, CarafeTest, difference, main, weights  # noqa: E402
import subprocess

PREFIX = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ \w+\.cpp:\d+\] ")


class Train(CarafeTest):
    def wait_for(self, process, text, stream="stderr"):
        """Reads until a line holds `text`; returns all that was read."""
        read = ""
        for line in getattr(process, stream):
            read += line
            if text in line:
                return read
        self.fail(f"no line with {text!r}:\n{read}")

    def test_log_has_the_lines_that_tools_parse(self):
        result = self.carafe("train", "--solver=solver.prototxt")
        for line in result.stderr.splitlines():
            self.assertRegex(line, PREFIX)
        log = "\n".join(self.log_of(result))
        for pattern in (r"^Solving small$", r"^Learning Rate Policy: inv$", r"^Iteration 0, Testing net \(#0\)$",
                        r"^    Test net output #0: accuracy = [\d.e-]+$",
                        r"^    Test net output #1: loss = [\d.e-]+ \(\* 1 = [\d.e-]+ loss\)$",
                        r"^Iteration 20 \([\d.e+-]+ iter/s, [\d.e+-]+s/20 iters\), loss = [\d.e-]+$",
                        r"^    Train net output #0: loss = [\d.e-]+ \(\* 1 = [\d.e-]+ loss\)$",
                        r"^Iteration 20, lr = 0\.009985\d*$",
                        r"^Snapshotting to binary proto file snap/small_iter_40\.caffemodel$",
                        r"^Snapshotting solver state to binary proto file snap/small_iter_40\.solverstate$",
                        r"^Iteration 40, loss = [\d.e-]+$", r"^Optimization Done\.$"):
            self.assertRegex(log, re.compile(pattern, re.M))
        self.assertEqual((self.dir / "snap/small_train.log").read_text().count("Optimization Done."), 1)

    def test_metrics_hold_what_the_log_shows(self):
        self.carafe("train", "--solver=solver.prototxt", "--run_dir=run")
        rows = list(csv.DictReader((self.dir / "run/metrics.csv").open()))
        self.assertEqual(list(rows[0]), ["iteration", "seconds", "phase", "net", "name", "value"])
        tests = [r for r in rows if r["phase"] == "test" and r["name"] == "accuracy"]
        self.assertEqual([r["iteration"] for r in tests], ["0"])
        self.assertEqual({r["iteration"] for r in rows if r["name"] == "lr"}, {"0", "20"})
        waits = [float(r["value"]) for r in rows if r["name"] == "data_wait"]
        self.assertEqual(len(waits), 1)
        self.assertTrue(0 <= waits[0] <= 1, waits)

    def test_the_solver_chooses_the_exchange_unless_the_flag_does(self):
        self.write_solver(max_iter=2, more='exchange: "server" overlap: false\n')
        for flags, plan in ([], "server"), (["--exchange=tree"], "tree"):
            log = "\n".join(self.log_of(self.carafe("train", "--solver=solver.prototxt", *flags, ranks=2)))
            self.assertEqual(re.findall(r"^exchange plan: (\w+):", log, re.M), [plan])
        self.write_solver(max_iter=2, more='exchange: "gossip"\n')
        self.assertIn('solver.prototxt:16:1: error: exchange is "gossip"\n  fix: use one of allreduce, auto, local, server, sfb, ssp, tree',
                      self.carafe("train", "--solver=solver.prototxt", expect=1).stderr)
        self.carafe("train", "--solver=solver.prototxt", "--exchange=server")

    def test_both_spellings_of_flags_and_the_old_name(self):
        self.write_solver(max_iter=2)
        for arguments in (["-solver", "solver.prototxt"], ["--solver", "solver.prototxt"], ["-solver=solver.prototxt"]):
            subprocess.run([BUILD / "tools/caffe", "train", *arguments], cwd=self.dir, check=True,
                           stderr=subprocess.DEVNULL)

    def test_several_ranks_print_one_log(self):
        for mpi in ("openmpi", "mpich"):
            result = self.carafe("train", "--solver=solver.prototxt", ranks=2, mpi=mpi)
            log = self.log_of(result)
            self.assertEqual(log.count("Optimization Done."), 1)
            self.assertTrue(any("2 workers on 1 host" in line and "global batch 32" in line for line in log), log)

    def test_test_scores_of_1_2_and_3_ranks_are_equal_to_the_last_digit(self):
        self.carafe("train", "--solver=solver.prototxt")
        outputs = []
        for ranks in (1, 2, 3):
            result = self.carafe("test", "--model=net.prototxt", "--weights=snap/small_iter_40.caffemodel",
                                 "--iterations=5", ranks=ranks)
            outputs.append([line for line in self.log_of(result) if " = " in line or line.startswith("Loss")])
        self.assertGreater(len(outputs[0]), 10)
        self.assertEqual(outputs[0], outputs[1])
        self.assertEqual(outputs[0], outputs[2])

    def test_a_killed_run_resumes_to_the_weights_of_the_whole_run_bit_for_bit(self):
        for ranks in (1, 2):
            self.write_solver(max_iter=200, snapshot=100)
            self.carafe("train", "--solver=solver.prototxt", ranks=ranks)
            whole = (self.dir / "snap/small_iter_200.caffemodel").read_bytes()
            for file in (self.dir / "snap").iterdir():
                file.unlink()
            self.write_solver(max_iter=1000000, snapshot=100)  # so that it runs, however late it is killed
            process = self.start("train", "--solver=solver.prototxt", ranks=ranks)
            self.wait_for(process, "Snapshotting solver state to binary proto file snap/small_iter_100")
            while not (self.dir / "snap/small_iter_100.solverstate").exists():
                time.sleep(0.01)
            subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=True)
            process.communicate(timeout=TIMEOUT)
            for file in (self.dir / "snap").glob("small_iter_*"):
                if not file.name.startswith("small_iter_100."):
                    file.unlink()
            self.write_solver(max_iter=200, snapshot=100)
            result = self.carafe("train", "--solver=solver.prototxt", "--snapshot=auto", ranks=ranks)
            self.assertIn("Restoring previous solver status from snap/small_iter_", result.stderr)
            self.assertEqual((self.dir / "snap/small_iter_200.caffemodel").read_bytes(), whole, f"{ranks} ranks")

    def test_hdf5_snapshots_resume_bit_for_bit_and_load_as_weights(self):
        self.write_solver(max_iter=40, snapshot=20, more="snapshot_format: HDF5\n")
        log = self.log_of(self.carafe("train", "--solver=solver.prototxt"))
        self.assertIn("Snapshotting to HDF5 file snap/small_iter_20.caffemodel.h5", log)
        self.assertIn("Snapshotting solver state to HDF5 file snap/small_iter_20.solverstate.h5", log)
        last = self.dir / "snap/small_iter_40.caffemodel.h5"
        whole = last.read_bytes()
        for file in (self.dir / "snap").glob("small_iter_40.*"):
            file.unlink()
        result = self.carafe("train", "--solver=solver.prototxt", "--snapshot=auto", ranks=2)
        self.assertIn("Restoring previous solver status from snap/small_iter_20.solverstate.h5", result.stderr)
        last.unlink()
        self.carafe("train", "--solver=solver.prototxt", "--snapshot=snap/small_iter_20.solverstate.h5")
        self.assertEqual(last.read_bytes(), whole)
        self.assertEqual(sorted(p.name for p in (self.dir / "snap").glob("*.tmp.*")), [])
        self.carafe("test", "--model=net.prototxt", f"--weights={last}", "--iterations=2")
        cut = self.dir / "cut.h5"
        cut.write_bytes(whole[:-100])
        result = self.carafe("test", "--model=net.prototxt", f"--weights={cut}", expect=1)
        self.assertIn("cut.h5: error: the HDF5 file cannot be opened: truncated file", result.stderr)

    def stop_with(self, number, ranks, expect):
        self.write_solver(max_iter=1000000)
        process = self.start("train", "--solver=solver.prototxt", ranks=ranks)
        self.wait_for(process, "Iteration 20 ")
        process.send_signal(number)
        result = self.finish(process)
        self.assertEqual(result.returncode, expect, result.stderr)
        snapshots = sorted(p.suffix for p in (self.dir / "snap").glob("small_iter_*"))
        self.assertEqual(snapshots, [".caffemodel", ".manifest", ".solverstate"])
        self.assertEqual(result.stderr.count("Optimization stopped early."), 1, result.stderr)
        iteration = int(re.search(r"small_iter_(\d+)", str(next((self.dir / "snap").glob("small_iter_*"))))[1])
        self.assertRegex(result.stderr, rf"\] stopped at iteration {iteration}; .* the same command with --snapshot=auto\n$")

    def test_a_stop_without_a_snapshot_is_said(self):
        self.write_solver(max_iter=1000000, more="snapshot_after_train: false\n")
        process = self.start("train", "--solver=solver.prototxt")
        self.wait_for(process, "Iteration 20 ")
        process.send_signal(signal.SIGINT)
        self.assertRegex(self.finish(process).stderr, r"stopped at iteration \d+, without a snapshot")

    def test_a_trace_that_cannot_be_written_is_found_before_training(self):
        self.write_solver(max_iter=20)
        for ranks in (1, 2):
            result = self.carafe("train", "--solver=solver.prototxt", "--trace=nope/x.json", ranks=ranks, expect=1)
            self.assertIn("nope/x.json", result.stderr)
            self.assertNotIn("Iteration 0", result.stderr)

    def test_sigint_stops_with_exit_0(self):
        self.stop_with(signal.SIGINT, 1, 0)

    def test_sigterm_stops_with_a_snapshot_and_exit_75(self):
        self.stop_with(signal.SIGTERM, 1, 75)

    def test_sighup_takes_a_snapshot_and_goes_on(self):
        self.write_solver(max_iter=1000000)
        process = self.start("train", "--solver=solver.prototxt")
        self.wait_for(process, "Iteration 20 ")
        process.send_signal(signal.SIGHUP)
        self.wait_for(process, "Snapshotting solver state")
        self.wait_for(process, "Iteration ")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process).returncode, 0)

    def test_p_ranks_reach_the_weights_of_one_with_the_global_batch(self):
        self.write_solver(max_iter=50)
        for ranks, mpi in ((2, "openmpi"), (3, "openmpi"), (2, "mpich"), (3, "mpich")):
            self.write_net(batch=8 * ranks)
            self.carafe("train", "--solver=solver.prototxt")
            one = weights(self.dir / "snap/small_iter_50.caffemodel")
            self.write_net(batch=8)
            self.carafe("train", "--solver=solver.prototxt", "--check_replicas=10", ranks=ranks, mpi=mpi)
            many = weights(self.dir / "snap/small_iter_50.caffemodel")
            self.assertEqual(list(one), [("conv1", 0), ("conv1", 1), ("ip", 0), ("ip", 1)])
            self.assertLess(difference(one, many), 1e-4, f"{ranks} ranks, {mpi}")

    def test_ctrl_c_on_mpirun_within_a_long_iteration_snapshots(self):
        for mpi in ("openmpi", "mpich"):
            self.write_net(batch=2000)
            self.write_solver(max_iter=1000000, more="iter_size: 10\n")
            process = self.start("train", "--solver=solver.prototxt", "--run_dir=run", ranks=2, mpi=mpi,
                                 env={"OMPI_MCA_odls_base_sigkill_timeout": "8"})
            self.wait_for(process, "Iteration 0, lr")
            process.send_signal(signal.SIGINT)
            self.finish(process)
            self.assertIn("Optimization stopped early.", (self.dir / "run/train.log").read_text())
            state = max((self.dir / "snap").glob("*.solverstate"))
            self.assertGreater(len(weights(state.with_suffix(".caffemodel"))), 0)
            state.unlink()

    def test_reduce_buckets_of_nvcaffe_sets_the_size_of_buckets(self):
        self.write_solver(max_iter=2)
        net = self.dir / "net.prototxt"
        net.write_text("reduce_buckets: 2\n" + net.read_text())
        log = "\n".join(self.log_of(self.carafe("train", "--solver=solver.prototxt", ranks=2)))
        self.assertIn("reduce_buckets of NVCaffe is read as --bucket_mb=0.0112\n", log)  # 5,874 floats in two
        log = "\n".join(self.log_of(self.carafe("train", "--solver=solver.prototxt", "--bucket_mb=1", ranks=2)))
        self.assertNotIn("reduce_buckets of NVCaffe is read", log)

    def test_flags_of_glog(self):
        self.write_solver(max_iter=3)
        train = ("train", "--solver=solver.prototxt")
        result = self.carafe(*train, "-logtostderr=1", "-alsologtostderr", "--v", "1", "--nocolorlogtostderr")
        self.assertIn("Optimization Done.", result.stderr)
        self.assertNotIn("Optimization Done.", self.carafe(*train, "-minloglevel=1").stderr)
        self.assertNotIn("Optimization Done.", self.carafe(*train, env={"GLOG_minloglevel": "2"}).stderr)
        (self.dir / "logs").mkdir()
        self.carafe(*train, "--log_dir", "logs")
        self.assertIn("Optimization Done.", (self.dir / "logs/carafe.INFO").read_text())
        self.assertIn('minloglevel is "x"', self.carafe(*train, "--minloglevel=x", expect=1).stderr)
        self.assertIn("--log_dir has no value", self.carafe(*train, "--log_dir", expect=1).stderr)
        self.assertIn("cannot be opened", self.carafe(*train, "--log_dir=net.prototxt/x", expect=1).stderr)

    def test_two_runs_at_once_do_not_share_their_files(self):
        self.write_solver(max_iter=1000000)
        first = self.start("train", "--solver=solver.prototxt")
        self.wait_for(first, "Iteration 0 ")
        second = self.carafe("train", "--solver=solver.prototxt", expect=1)
        self.assertIn("error: another run is writing snap/small_metrics.csv\n  fix: ", second.stderr)
        first.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(first).returncode, 0)

    def test_gpu_in_the_file_without_one_is_a_warning(self):
        self.write_solver(max_iter=2, more="solver_mode: GPU\n")
        result = self.carafe("train", "--solver=solver.prototxt")
        self.assertIn("solver_mode is GPU, but no GPU can be used here: running on the CPU", result.stderr)

    def test_gpu_in_the_file_is_one_warning_of_all_ranks(self):
        self.write_solver(max_iter=2, more="solver_mode: GPU\n")
        result = self.carafe("train", "--solver=solver.prototxt", ranks=3)
        self.assertEqual(result.stderr.count("no GPU can be used here: running on the CPU"), 1, result.stderr)

    def test_a_gpu_that_a_flag_asks_for_must_be_there(self):
        for flag, ranks in (("--gpu=0", 1), ("--gpu=auto", 2), ("--gpu=all", 1)):
            result = self.carafe("train", "--solver=solver.prototxt", flag, ranks=ranks, expect=1)
            self.assertRegex(result.stderr, r"error: .*GPU.*\n +fix: ")
            self.assertEqual(result.stderr.count("fix:"), 1, result.stderr)

    def test_the_servers_patience_comes_from_flag_or_solver(self):
        plan = "exchange plan: server: .*{} s"
        for flags, more, seconds in ((["--exchange=server", "--exchange_timeout=41"], "", 41),
                                     (["--exchange=server", "--timeout=42"], "", 42),
                                     ([], 'exchange: "server" exchange_timeout: 43\n', 43),
                                     (["--timeout=44"], 'exchange: "server" exchange_timeout: 43\n', 44)):
            self.write_solver(max_iter=2, more=more)
            result = self.carafe("train", "--solver=solver.prototxt", *flags, ranks=2)
            self.assertRegex(result.stderr, plan.format(seconds))
        result = self.carafe("train", "--solver=solver.prototxt", "--timeout=-1", ranks=2)  # the flag comes first: for ever
        self.assertIn("exchange plan: server: ", result.stderr)
        self.assertNotRegex(result.stderr, plan.format(43))
        for more, flags, words in (("exchange_timeout: 5\n", [], "is for --exchange=server, not for allreduce"),
                                   ('exchange: "server" exchange_timeout: 1e6\n', [], "solver.prototxt:16:20: error: exchange_timeout is 1000000"),
                                   ("", ["--exchange=server", "--timeout=nan"], "--exchange_timeout is nan")):
            self.write_solver(max_iter=2, more=more)
            result = self.carafe("train", "--solver=solver.prototxt", *flags, ranks=2, expect=1)
            self.assertIn(words, result.stderr)
            self.assertEqual(result.stderr.count("fix:"), 1, result.stderr)

    def test_a_pipe_gets_no_control_characters(self):
        result = self.carafe("train", "--solver=solver.prototxt")
        self.assertNotRegex(result.stderr, r"[\r\x1b]")


if __name__ == "__main__":
    main()
