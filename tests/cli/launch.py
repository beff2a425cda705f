#!/usr/bin/env python3
"""Starting ranks with `carafe launch` and with mpirun's own forms; seeing what they did (--trace, --stats)."""
import collections
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import BUILD, CARAFE, CarafeTest, environment, main  # noqa: E402


def has(mpi):
    return shutil.which(f"mpirun.{mpi}") is not None and (BUILD / f"lib/libcarafe_mpi_{mpi}.so").exists()


def numbers(core_list):
    """The cores of a list as the kernel writes it: 0-3,8."""
    cores = set()
    for part in core_list.split(","):
        first, _, last = part.partition("-")
        cores |= set(range(int(first), int(last or first) + 1))
    return cores


def png(side):
    """A black picture."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(bytes(side * (side + 1)))) + chunk(b"IEND", b""))


class Launch(CarafeTest):
    def run_line(self, *command, expect=0):
        process = subprocess.Popen([str(c) for c in command], cwd=self.dir, env=environment(), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        result = self.finish(process)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result

    def need(self, mpi):
        if not has(mpi):
            self.skipTest(f"{mpi} is not installed, or its plug-in was not built")

    def test_dry_run_prints_the_command_and_the_host_file(self):
        self.need("openmpi")
        self.write("hosts", "# PMLS-Caffe\n0 10.0.0.1 9999\n1 10.0.0.2 9999\n\n")
        result = self.carafe("launch", "--mpi=openmpi", "--hostfile", "hosts", "--dry-run", "--", "train",
                             "--solver=solver.prototxt", "-weights", "a b.caffemodel")
        lines = result.stdout.splitlines()
        self.assertEqual(lines[1:3], ["#   10.0.0.1 slots=1", "#   10.0.0.2 slots=1"])
        self.assertRegex(lines[3], r"^mpirun\S* .*-n 2 --hostfile HOSTFILE --bind-to none .*carafe train "
                                   r"--solver=solver.prototxt --weights 'a b.caffemodel'$")

    def test_launched_ranks_train_like_those_of_mpirun_under_each_mpi(self):
        self.carafe("train", "--solver=solver.prototxt", ranks=2)
        expected = (self.dir / "snap/small_iter_40.caffemodel").read_bytes()
        for mpi in ("openmpi", "mpich"):
            if not has(mpi):
                continue
            (self.dir / "snap/small_iter_40.caffemodel").unlink()
            result = self.carafe("launch", "-n", 2, f"--mpi={mpi}", "--", "train", "--solver=solver.prototxt")
            self.assertIn("2 workers on 1 host", result.stderr)
            self.assertEqual((self.dir / "snap/small_iter_40.caffemodel").read_bytes(), expected)

    def wait_until_gone(self, process):
        """A process that was killed stays a zombie until its new parent has looked."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                if pathlib.Path("/proc", process, "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                    return
            except OSError:
                return
            time.sleep(0.05)
        self.fail(f"process {process} is still there")

    def test_an_mpirun_that_does_not_end_is_ended_with_all_its_processes(self):
        """The program in its place starts rank 0 only, and a process of its own that ignores SIGTERM."""
        self.need("openmpi")
        folder = self.dir / "bin"
        folder.mkdir()
        (folder / "mpirun.openmpi").write_text(
            "#!/bin/bash\nwhile [ \"${1##*/}\" != carafe ]; do shift; done\ntrap '' TERM\n"
            "setsid sleep 1000 & echo $! >daemon\necho $$ >mpirun\n\"$@\"\nwhile true; do sleep 1000; done\n")
        (folder / "mpirun.openmpi").chmod(0o755)
        env = {"PATH": f"{folder}:{os.environ['PATH']}"}
        for arguments, text in ((("--solver=none.prototxt",), "although rank 0 on \\S+ has \\(with code 1\\)"),
                                (("--solver=solver.prototxt", "--comm_timeout=2"), "has \\(with code 0\\)")):
            result = self.carafe("launch", "-n", 2, "--mpi=openmpi", "--", "train", *arguments, env=env, expect=1)
            self.assertRegex(result.stderr, "error: rank 1, which has not started, has not ended, " + text if "code 1" in text
                             else text)
            for name in ("mpirun", "daemon"):
                self.wait_until_gone((self.dir / name).read_text().strip())

    def test_the_exit_code_is_that_of_the_ranks(self):
        self.need("openmpi")
        result = self.carafe("launch", "-n", 2, "--", "train", "--solver=none.prototxt", expect=1)
        self.assertEqual(result.stderr.count("fix:"), 1, result.stderr)  # said once

    def stop_with(self, wish, code):
        self.need("openmpi")
        self.write_solver(max_iter=1000000)
        process = self.start("launch", "-n", 2, "--mpi=openmpi", "--", "train", "--solver=solver.prototxt")
        for line in process.stderr:
            if "Iteration 20 " in line:
                break
        process.send_signal(wish)
        result = self.finish(process)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(len(list(self.dir.glob("snap/*.solverstate"))), 1)

    def test_ctrl_c_ends_well_with_a_snapshot(self):
        self.stop_with(signal.SIGINT, 0)

    def test_sigusr2_is_passed_on(self):
        self.stop_with(signal.SIGUSR2, 0)

    def test_mistakes_are_explained(self):
        for arguments, words in ((["-n", 2], "what to launch"), (["--", "train"], "how many ranks"),
                                 (["-n", 2, "--mpi=lam", "--", "train"], "use openmpi or mpich"),
                                 (["-H", "a:x", "--", "train"], "no number of ranks"),
                                 (["--hostfile", "none", "--", "train"], "cannot be read"),
                                 (["-n", 2, "--bind=threads", "--", "train"], "--threads")):
            result = self.carafe("launch", *arguments, expect=1)
            self.assertIn(words, result.stderr)
            self.assertIn("fix:", result.stderr)

    def test_variables_that_stand_for_options_reach_other_hosts(self):
        self.need("openmpi")
        result = self.carafe("launch", "-H", "a:1,b:1", "--mpi=openmpi", "--dry-run", "--", "train", "--solver=s",
                             env={"CARAFE_ALGORITHM": "gemm"})
        self.assertIn("-x CARAFE_ALGORITHM", result.stdout)

    def mpmd(self, first, second, expect, mpi="openmpi"):
        self.need(mpi)
        options = ["--oversubscribe", "--bind-to", "none"] if mpi == "openmpi" else []
        return self.run_line(f"mpirun.{mpi}", *options, "-n", 1, *first, ":", "-n", 1, *second, expect=expect)

    def other_folder(self, *replaced):
        """A folder with the same files, but for the content of those in `replaced`: (name, old, new)."""
        other = self.dir / "other"
        other.mkdir()
        for path in self.dir.iterdir():
            if path.is_symlink():
                (other / path.name).symlink_to(path.resolve())
            elif path.is_file():
                shutil.copy(path, other)
        for name, old, new in replaced:
            text = (other / name).read_text()
            self.assertIn(old, text)
            (other / name).write_text(text.replace(old, new))
        return other

    def test_ranks_with_command_lines_of_their_own_may_differ_in_threads_only(self):
        train = [CARAFE, "train", "--solver=solver.prototxt"]
        self.mpmd([*train, "--threads=1"], [*train, "--threads=2"], expect=0)
        result = self.mpmd([*train, "--warmup=3"], [*train, "--warmup=4"], expect=1)
        self.assertRegex(result.stderr, r"error: --warmup differs: 3 on rank 0 \(\S+\), 4 on rank 1")
        self.assertEqual(result.stderr.count("differs"), 1, result.stderr)

    def test_command_lines_of_their_own_work_under_mpich_too(self):
        train = [CARAFE, "train", "--solver=solver.prototxt"]
        result = self.mpmd([*train, "--threads=1"], [*train, "--threads=2"], expect=0, mpi="mpich")
        self.assertIn("2 workers on 1 host", result.stderr)
        result = self.mpmd([*train, "--overlap=on"], [*train, "--overlap=off"], expect=1, mpi="mpich")
        self.assertRegex(result.stderr, r"error: --overlap differs: on on rank 0 \(\S+\), off on rank 1")
        self.assertEqual(result.stderr.count("differs"), 1, result.stderr)

    def test_ranks_may_name_different_gpus(self):
        """Where there is none, all end with the remedy, and not because the flags differ."""
        train = [CARAFE, "train", "--solver=solver.prototxt"]
        for mpi in ("openmpi", "mpich"):
            if not has(mpi):
                continue
            result = self.mpmd([*train, "--gpu=0"], [*train, "--gpu=1"], expect=1, mpi=mpi)
            self.assertRegex(result.stderr, r"error: .*GPU")
            self.assertEqual(result.stderr.count("fix:"), 1, result.stderr)
            self.assertNotIn("differs", result.stderr)

    def test_solver_files_may_differ_in_the_device_only(self):
        train = [CARAFE, "train", "--solver=solver.prototxt"]
        other = self.other_folder(("solver.prototxt", "random_seed: 3", "random_seed: 3\nsolver_mode: GPU device_id: 1"))
        result = self.mpmd(["-wdir", self.dir, *train], ["-wdir", other, *train], expect=0)
        self.assertIn("2 workers on 1 host", result.stderr)
        shutil.rmtree(other)
        other = self.other_folder(("solver.prototxt", "momentum: 0.9", "momentum: 0.8"))
        for mpi in ("openmpi", "mpich"):
            if not has(mpi):
                continue
            result = self.mpmd(["-wdir", self.dir, *train], ["-wdir", other, *train], expect=1, mpi=mpi)
            self.assertRegex(result.stderr, r"error: the content of solver.prototxt differs: hash \w+ on rank 0 \(\S+\), "
                                            r"hash \w+ on rank 1")
            self.assertEqual(result.stderr.count("differs"), 1, result.stderr)

    def test_nets_that_differ_are_noticed(self):
        train = [CARAFE, "train", "--solver=solver.prototxt"]
        other = self.other_folder(("net.prototxt", 'type: "Dropout"', 'type: "Dropout" dropout_param { dropout_ratio: 0.4 }'))
        result = self.mpmd(["-wdir", self.dir, *train], ["-wdir", other, *train], expect=1)
        self.assertRegex(result.stderr, r"error: the content of the (training|test) net( #0)? differs: ")

    def test_copies_of_the_data_that_differ_are_named(self):
        other = self.dir / "other"
        subprocess.run([CARAFE, "digits", "--out", other, "--train", "300", "--test", "100"], check=True,
                       stdout=subprocess.DEVNULL)
        for name in ("net.prototxt", "solver.prototxt"):
            shutil.copy(self.dir / name, other)
        train = [CARAFE, "train", "--solver=solver.prototxt"]
        result = self.mpmd(["-wdir", self.dir, *train], ["-wdir", other, *train], expect=1)
        self.assertRegex(result.stderr, r'the data of layer "data" differs: 600 records, keys .* on rank 0 .*'
                                        r'300 records, keys .* on rank 1')

    def test_copies_of_as_many_records_with_other_keys_are_named(self):
        """Databases of the same pictures in another order: keys are made of number and name."""
        for name in ("a", "b", "c", "d"):
            (self.dir / f"{name}.png").write_bytes(png(1))
        self.write("solver.prototxt", 'net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 2 random_seed: 1\n'
                                      'snapshot_prefix: "run"\n')
        self.write("net.prototxt", 'layer { name: "data" type: "Data" top: "x" top: "y" data_param { source: "pictures_lmdb" '
                                   "backend: LMDB batch_size: 1 } }\n"
                                   'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" '
                                   "inner_product_param { num_output: 2 } }\n"
                                   'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "y" top: "loss" }\n')

        def convert(order, database):
            self.write("list.txt", "".join(f"{name}.png 0\n" for name in order))
            self.carafe("convert_imageset", "--gray", "./", "list.txt", database)

        convert("abc", "pictures_lmdb")
        other = self.other_folder()
        train = [CARAFE, "train", "--solver=solver.prototxt"]
        for order, says in (("bac", r'keys "\w*b.png" to "\w*c.png" on rank 1'),
                            ("abd", r'keys "\w*a.png" to "\w*d.png" on rank 1')):
            convert(order, other / "pictures_lmdb")
            result = self.mpmd(["-wdir", self.dir, *train], ["-wdir", other, *train], expect=1)
            self.assertRegex(result.stderr, r'the data of layer "data" differs: 3 records, keys "\w*a.png" to "\w*c.png" on '
                                            r"rank 0 \(\S+\), 3 records, " + says)
            shutil.rmtree(other / "pictures_lmdb")
        convert("abc", other / "pictures_lmdb")
        self.mpmd(["-wdir", self.dir, *train], ["-wdir", other, *train], expect=0)

    def test_the_start_says_what_batch_and_rate_mean(self):
        def start_of(*flags, **options):
            log = self.log_of(self.carafe("train", "--solver=solver.prototxt", *flags, **options))
            line = next(line for line in log if " on 1 host, " in line)
            rate = next(line for line in log if line.startswith("Iteration 0, lr = "))
            return line, float(rate.split(" = ")[1]), log

        line, rate, _ = start_of()
        self.assertEqual(line, "1 worker on 1 host, 1 thread each; batch per worker 16, global batch 16, iter_size 1; "
                               "lr as written in the solver")
        self.assertEqual(rate, 0.01)
        line, rate, _ = start_of("--workers=2", ranks=2)
        self.assertEqual(line, "4 workers on 1 host, 1 thread each; batch per worker 16, global batch 64, iter_size 1; "
                               "lr as written in the solver")
        self.assertEqual(rate, 0.01)
        line, rate, _ = start_of("--lr_scaling=linear", ranks=3)
        self.assertRegex(line, r"batch per worker 16, global batch 48, .*; lr scaled \(linear\) by the growth of the batch$")
        self.assertAlmostEqual(rate, 0.03, delta=1e-7)
        self.write_solver(more="iter_size: 2\n")
        line, rate, log = start_of("--global_batch=65", "--lr_scaling=sqrt", ranks=2)
        self.assertRegex(line, r"batch per worker 32 or one more, global batch 65, iter_size 2; lr scaled \(sqrt\) by ")
        self.assertAlmostEqual(rate, 0.01 * (65 / 16) ** 0.5, delta=1e-6)
        rows = [line.split() for line in log if re.match(r"^  [01] ", line)]
        self.assertEqual([(row[0], row[-1]) for row in rows], [("0", "33"), ("1", "32")])

    def test_the_start_shows_a_table_of_ranks(self):
        log = self.log_of(self.carafe("train", "--solver=solver.prototxt", ranks=2))
        header = next(i for i, line in enumerate(log) if line.split() == ["rank", "host", "device", "cores", "threads",
                                                                         "batch"])
        self.assertRegex(log[header + 1], r"^  0-1 +\S+ +CPU +\d+ of \d+ +1 +16$")

    def cores(self, count):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < count:
            self.skipTest(f"there are not {count} cores")
        return cores

    def test_threads_that_share_one_core_are_warned_of(self):
        """Each rank has two threads and may use one core, as Open MPI's mpirun gives it where it is not told."""
        core = self.cores(2)[0]
        warning = r"(\d) of (\d) ranks are pinned to fewer cores than they have threads \(rank 0 on \S+: 2 threads on 1 of "
        pinned = ["taskset", "-c", core, CARAFE, "train", "--solver=solver.prototxt", "--threads=2"]
        for ranks in (1, 2):
            self.need("openmpi")
            result = self.run_line("mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", ranks, *pinned)
            found = re.findall(warning, result.stderr)
            self.assertEqual(found, [(str(ranks), str(ranks))], result.stderr)
            self.assertIn("--bind-to none", result.stderr)
        free = self.carafe("train", "--solver=solver.prototxt", "--threads=2", ranks=2)
        self.assertNotIn("are pinned to fewer cores", free.stderr)

    def pinned_cores(self, ranks, *flags, prefix=()):
        """The log of a run, and by rank the set of core lists of its threads while it trains."""
        self.need("openmpi")
        self.write_net(batch=200)
        self.write_solver(max_iter=1000000)
        command = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", ranks, *prefix, CARAFE, "train",
                   "--solver=solver.prototxt", "--run_dir=run", "--quiet", *flags]
        process = subprocess.Popen([str(c) for c in command], cwd=self.dir, env=environment(), text=True,
                                   stderr=subprocess.PIPE, start_new_session=True)
        log = self.dir / "run/train.log"
        while process.poll() is None and not (log.exists() and "Iteration 20 " in log.read_text()):
            time.sleep(0.05)
        found, root = {}, None
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.getsid(int(path.name)) != process.pid or (path / "exe").resolve() != CARAFE.resolve():
                    continue
                rank = int(re.search(rb"\0OMPI_COMM_WORLD_RANK=(\d+)", (path / "environ").read_bytes()).group(1))
                found[rank] = {re.search(r"Cpus_allowed_list:\s*(\S+)", status.read_text()).group(1)
                               for status in path.glob("task/*/status")}
                root = int(path.name) if rank == 0 else root
            except (FileNotFoundError, ProcessLookupError):
                pass  # it ended meanwhile
        if root is not None:
            os.kill(root, signal.SIGUSR2)  # the end after this iteration, on all ranks
        result = self.finish(process)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr + log.read_text(), found

    def test_pin_gives_each_rank_its_share_of_the_cores(self):
        cores = self.cores(2)
        log, found = self.pinned_cores(2, "--pin=on", "--threads=1")
        half = len(cores) // 2
        shares = {0: set(cores[:half]), 1: set(cores[half:])}
        self.assertEqual(sorted(found), [0, 1], log)
        for rank, lists in found.items():  # all threads of a rank, that of the communication too
            self.assertEqual(len(lists), 1, lists)
            self.assertEqual(numbers(lists.pop()), shares[rank], f"rank {rank}")
        self.assertIn("--pin: 2 of 2 ranks are pinned to their shares of the cores (rank 0: ", log)
        self.assertRegex(log, rf" CPU +{half} of \d+ +1 +200\n")

    def test_more_ranks_than_cores_go_round(self):
        core = self.cores(1)[-1]
        log, found = self.pinned_cores(3, "--pin=on", prefix=["taskset", "-c", core])
        self.assertEqual(found, {rank: {str(core)} for rank in range(3)}, log)

    def test_pin_leaves_alone_what_the_launcher_has_pinned(self):
        cores = self.cores(2)
        self.need("openmpi")
        train = [CARAFE, "train", "--solver=solver.prototxt", "--pin=on"]
        result = self.mpmd(["taskset", "-c", cores[0], *train], ["taskset", "-c", cores[1], *train], expect=0)
        self.assertRegex(result.stderr, rf"--pin: 0 of 2 ranks are pinned .*; on \S+ nothing is changed, for the launcher has "
                                        rf"given its ranks cores of their own \(rank 0: {cores[0]}, rank 1: {cores[1]}\)")

    def test_without_pin_every_rank_keeps_all_cores(self):
        cores = self.cores(2)
        _, found = self.pinned_cores(2, "--threads=1")
        self.assertEqual([{frozenset(numbers(text)) for text in lists} for _, lists in sorted(found.items())],
                         [{frozenset(cores)}] * 2)
        result = self.carafe("train", "--solver=solver.prototxt", "--pin=yes", expect=1)
        self.assertIn('error: --pin is "yes"\n  fix: use one of off, on', result.stderr)

    def test_stats_name_a_slow_rank_and_who_waits_for_it(self):
        """Rank 1's copies of the pictures have a million times as many pixels, so it waits long for its data."""
        self.write("list.txt", "a.png 0\nb.png 1\n")
        for name in ("a.png", "b.png"):
            (self.dir / name).write_bytes(png(2))
        self.write("net.prototxt", 'layer { name: "data" type: "ImageData" top: "x" top: "y" image_data_param { source: '
                                   '"list.txt" batch_size: 2 new_height: 4 new_width: 4 is_color: false } }\n'
                                   'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" '
                                   "inner_product_param { num_output: 2 } }\n"
                                   'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "y" top: "loss" }\n')
        self.write("solver.prototxt", 'net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 20 random_seed: 1\n'
                                      'snapshot_prefix: "run"\n')
        other = self.other_folder()
        for name in ("a.png", "b.png"):
            (other / name).write_bytes(png(2000))
        train = [CARAFE, "train", "--solver=solver.prototxt", "--stats=stats.csv"]
        result = self.mpmd(["-wdir", self.dir, *train], ["-wdir", other, *train], expect=0)
        rows = list(csv.DictReader((self.dir / "stats.csv").open()))
        sums = collections.Counter()
        for row in rows:
            for column in ("ready", "comm_wait", "data_wait"):
                sums[column, row["rank"]] += float(row[column])
        self.assertGreater(sums["ready", "1"], sums["ready", "0"])
        self.assertGreater(sums["data_wait", "1"], sums["data_wait", "0"])
        self.assertGreater(sums["comm_wait", "0"], sums["comm_wait", "1"])  # exposed: rank 0 waits for rank 1
        last = re.search(r"last one ready: rank (\d) on \S+ in (\d+)% of the iterations", result.stderr)
        self.assertEqual(last.group(1), "1", result.stderr)
        ready = {(row["iteration"], row["rank"]): float(row["ready"]) for row in rows}
        late = sum(ready[str(i), "1"] > ready[str(i), "0"] for i in range(20))
        self.assertEqual(int(last.group(2)), round(100 * late / 20))

    def test_a_trace_holds_nested_spans_and_messages_of_every_rank(self):
        self.write_net(batch=200)  # iterations far longer than the error of the clocks' alignment
        self.carafe("train", "--solver=solver.prototxt", "--trace=trace.json", "--trace_iterations=5:8",
                    "--stats=stats.csv", ranks=2)
        events = json.loads((self.dir / "trace.json").read_text())["traceEvents"]
        for rank in (0, 1):
            mine = [e for e in events if e["pid"] == rank]
            spans = [e for e in mine if e["ph"] == "X"]
            names = {(e["cat"], e["name"]) for e in spans}
            for wanted in (("forward", "conv1"), ("backward", "ip"), ("exchange", "votes"), ("load", "data")):
                self.assertIn(wanted, names)
            self.assertTrue(any(category == "update" for category, _ in names))
            iterations = sorted(e["name"] for e in spans if e["cat"] == "iteration")
            self.assertEqual(iterations, ["iteration 5", "iteration 6", "iteration 7"])
            self.assertTrue(any(e["ph"] == "b" and e["cat"] == "comm" and e["args"]["bytes"] > 0 for e in mine))
            lanes = {e["args"]["name"] for e in mine if e["ph"] == "M" and e["name"] == "thread_name"}
            self.assertEqual(lanes, {"compute", "data", "communication"})
            self.check_nesting(spans)
        # Clocks are aligned: both ranks run iteration 6 at the same time.
        begin = {e["pid"]: (e["ts"], e["ts"] + e["dur"]) for e in events if e.get("name") == "iteration 6"}
        self.assertLess(max(b for b, _ in begin.values()), min(e for _, e in begin.values()))
        rows = list(csv.DictReader((self.dir / "stats.csv").open()))
        self.assertEqual(len(rows), 2 * 40)
        self.assertEqual([r for r in rows if float(r["bytes_sent"]) <= 0 or float(r["bytes_received"]) <= 0], [])
        self.assertTrue(all(0 <= float(r["hidden"]) <= 1 for r in rows))

    def check_nesting(self, spans):
        for lane in {e["tid"] for e in spans}:
            open_ends = []
            for e in sorted((e for e in spans if e["tid"] == lane), key=lambda e: (e["ts"], -e["dur"])):
                while open_ends and open_ends[-1] <= e["ts"] + 0.002:  # written with three digits
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(e["ts"] + e["dur"], open_ends[-1] + 0.004, e)
                open_ends.append(e["ts"] + e["dur"])

    def test_one_process_can_be_traced_too(self):
        self.carafe("train", "--solver=solver.prototxt", "--trace=trace.json", "--stats=stats.csv")
        self.assertGreater(len(json.loads((self.dir / "trace.json").read_text())["traceEvents"]), 100)
        for flags, words in ((["--trace=t", "--trace_iterations=8:5"], "--trace_iterations"),
                             (["--stats=/nowhere/s.csv"], "/nowhere/s.csv")):
            result = self.carafe("train", "--solver=solver.prototxt", *flags, expect=1)
            self.assertIn(words, result.stderr)


if __name__ == "__main__":
    main()
