#!/usr/bin/env python3
"""A rank that dies, hangs or is cut off ends the others, at any moment: with an error that names it, its host and what was
waited for; with an exit code other than 0, with no process left on the hosts and with whole snapshots. Needs root and
iproute2 (cluster.sh). Nothing here depends on how fast the machine is: moments are conditions that are waited for, and time
limits only turn a hang into a failure."""
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import CARAFE, main  # noqa: E402
from cluster import CLUSTER, ClusterTest, cluster, cluster_environment  # noqa: E402

COMM_TIMEOUT = 5  # seconds
HANG = 300  # seconds after which a wait has failed: far more than any of them takes, even on a busy machine
# Open MPI waits so many seconds before it asks the other ranks to end, and again before it kills them (decision 7). Where
# ranks notice by themselves what happened, they report it long before; where only mpirun tells them, the second wait is all
# that they have, however busy the machine is.
KILL_TIMEOUT, LONG_KILL_TIMEOUT = 4, 20

# Keeps the code of its rank; not for ranks that are killed, for the launcher is to see that.
KEEP_CODE = """#!/bin/sh
trap : TERM
"$@"
code=$?
echo "${OMPI_COMM_WORLD_RANK-$PMI_RANK} $code" >>codes
exit $code
"""

# What ranks wait for: in training, when a snapshot may be near, and in a test.
STEP = (r"(the votes of step \d+|the sum of the gradients of \S+( \.\. \S+)? in step \d+|"
        r"the snapshot|train outputs|a sum over all ranks)")
TEST = "test results"
ANYTHING = f"({STEP}|{TEST}|[a-z][\\w ]{{4,}})"
# What survivors say of rank {}; {} is then what they wait for.
WAITED = r"error: rank \d on h\d: waited \d+\.\d s for {}: {}"
SILENT = r"error: {} is lost: no sign of life for \d+\.\d s; this rank was waiting for: {}"  # while a test or snapshot is announced
BROKEN = r"error: {} is lost: the connection .* is broken: .*; this rank was waiting for: {}"
# In a snapshot, rank 0 sends to all and cannot say who has not received it.
TOLD_TO_END = r"got SIGTERM while it waits for (?:(?:.*, )?{}\b.*|the others to receive what was sent): {}"
NOT_STARTED = r"error: rank \d on h\d waited \d+\.\d s for all ranks to start"  # inside of MPI_Init, which names nobody
NOT_INTRODUCED = r"error: rank \d on h\d waited \d+ s for (the other ranks to connect|{}|rank \d to start)"


class Job:
    """Three ranks that train, one on each of h1 to h3."""

    def __init__(self, test, mpi, tcp, keep_codes, kill_timeout):
        self.test = test
        (test.dir / "keep_code").write_text(KEEP_CODE)
        (test.dir / "keep_code").chmod(0o755)
        (test.dir / "codes").unlink(missing_ok=True)
        keeper = ["./keep_code"] if keep_codes else []
        with (test.dir / "output").open("w") as output:
            self.process = subprocess.Popen(
                [CLUSTER, "run", "-n", "3", *keeper, CARAFE, "train", "--solver=solver.prototxt",
                 f"--comm_timeout={COMM_TIMEOUT}"], cwd=test.dir, stdout=output, stderr=output,
                env={**cluster_environment(mpi), "CARAFE_TCP": tcp,
                     "OMPI_MCA_odls_base_sigkill_timeout": str(kill_timeout)}, start_new_session=True)

    def output(self):
        return (self.test.dir / "output").read_text()

    def wait_until(self, what, condition, pause=0.002):
        end = time.time() + HANG
        while not condition():
            self.test.assertIsNone(self.process.poll(), self.output())
            self.test.assertLess(time.time(), end, f"not within {HANG} s: {what}\n{self.output()}")
            time.sleep(pause)

    def signal(self, rank, number):
        try:
            os.kill(self.processes[rank], number)
        except ProcessLookupError:
            self.test.fail(f"rank {rank} has ended:\n{self.output()}")

    def find_ranks(self):
        self.wait_until("three ranks", lambda: len(self.test.ranks()) == 3)
        self.processes = self.test.ranks()

    def clean_up(self):
        for pid in [self.process.pid, *self.test.ranks().values()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


# Moments: each waits for itself. One that can pass returns the rank that it has stopped meanwhile.

def at_the_start(job):
    """The ranks are there, and load libraries or are inside of MPI_Init."""


def before_the_first_step(job):
    job.wait_until("the plan", lambda: "exchange plan" in job.output())


def in_training(job):
    job.wait_until("the second snapshot", (job.test.dir / "snap/small_iter_100.manifest").exists)  # its last file
    job.wait_until("training after it", lambda: "Iteration 120 " in job.output() or "Iteration 100, Testing" in job.output())


def in_a_test(job):
    """Tests last for minutes then, see `write_solver_for`."""
    job.wait_until("a test", lambda: "Iteration 100, Testing net" in job.output())
    time.sleep(0.2)


def while_a_snapshot_is_written(job, names="snap/*.tmp.*"):
    folder = job.test.dir
    in_training(job)
    end = time.time() + HANG
    while time.time() < end:
        if not any(folder.glob(names)):
            continue
        job.signal(0, signal.SIGSTOP)
        time.sleep(0.02)  # it is not said when a signal arrives
        if any(folder.glob(names)):
            return 0
        job.signal(0, signal.SIGCONT)
    job.test.fail("no snapshot was caught while it was written")


def at_the_end(job):
    """The last snapshot is being written, or was; the last test, which lasts for minutes, and the farewell follow."""
    folder = job.test.dir
    job.wait_until("the last snapshot", lambda: any(folder.glob("snap/small_iter_150.*")), pause=0)
    job.signal(0, signal.SIGSTOP)
    job.test.assertNotIn("Optimization Done", job.output())
    return 0


class Failures(ClusterTest):
    def write_solver_for(self, moment):
        self.write_solver(max_iter=150 if moment is at_the_end else 1000000, snapshot=50)
        solver = (self.dir / "solver.prototxt").read_text()
        if moment is in_a_test:
            solver = solver.replace("test_iter: 5", "test_iter: 10000000").replace("test_interval: 50",
                                                                                   "test_interval: 100")
            solver += "test_initialization: false\n"
        elif moment is at_the_end:
            solver = solver.replace("test_iter: 5", "test_iter: 10000000").replace("test_interval: 50",
                                                                                   "test_interval: 150")
            solver += "test_initialization: false\n"
        else:
            solver = solver.replace("test_interval: 50", "test_interval: 1000000")
        self.write("solver.prototxt", solver)

    def fail_at(self, moment, fault, rank, mpi="openmpi", tcp="on", kill_timeout=KILL_TIMEOUT):
        """Kills, stops or cuts off a rank at this moment; returns what was said. Checks how the others end."""
        self.need(mpi)
        shutil.rmtree(self.dir / "snap", ignore_errors=True)
        self.write_solver_for(moment)
        job = Job(self, mpi, tcp, keep_codes=fault != "kill", kill_timeout=kill_timeout)
        try:
            job.find_ranks()
            paused = moment(job)
            if fault == "cut":
                self.addCleanup(cluster, "heal", rank + 1)
                cluster("cut", rank + 1)
            else:
                job.signal(rank, signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
            if paused is not None and (fault == "cut" or paused != rank):
                job.signal(paused, signal.SIGCONT)
            try:
                job.process.wait(timeout=HANG)
            except subprocess.TimeoutExpired:
                self.fail(f"the job does not end:\n{job.output()}\n{self.left_on_hosts()}")
            self.check_nothing_is_left()
        finally:
            job.clean_up()
            if fault == "cut":
                cluster("heal", rank + 1)
        output = job.output()
        self.assertNotEqual(job.process.returncode, 0, output)
        self.check_codes(rank, output)
        self.check_newest_snapshot(job)
        return output

    def check_nothing_is_left(self):
        end = time.time() + HANG
        while (left := self.left_on_hosts()) and time.time() < end:
            time.sleep(0.2)
        self.assertEqual(left, [], "processes are left")

    def check_codes(self, culprit, output):
        codes = self.dir / "codes"
        for line in codes.read_text().splitlines() if codes.exists() else []:
            rank, code = map(int, line.split())
            if rank != culprit:
                self.assertNotEqual(code, 0, f"of rank {rank}\n{output}")

    def check_newest_snapshot(self, job):
        """A run goes on from the newest one, and nothing lies beside but what a writer that was killed leaves."""
        states = [int(p.stem.rsplit("_", 1)[1]) for p in self.dir.glob("snap/*.solverstate")]
        for left in self.dir.glob("snap/small_iter_*"):
            self.assertRegex(left.name, r"^small_iter_\d+\.(caffemodel|solverstate|manifest)(\.tmp\.\d+)?$")
        if not states:
            return
        self.write_solver(max_iter=max(states) + 1)
        result = self.carafe("train", "--solver=solver.prototxt", "--snapshot=auto")
        self.assertIn(f"Restoring previous solver status from snap/small_iter_{max(states)}.solverstate",
                      "\n".join(self.log_of(result)))

    def assert_named(self, output, rank, awaited, *forms):
        who = f"rank {rank} on h{rank + 1}"
        self.assertRegex(output, "|".join(form.format(who, awaited) for form in forms))

    def test_a_killed_rank_is_named_within_seconds(self):
        for moment, rank, awaited in ((in_training, 1, STEP), (in_training, 0, STEP), (in_a_test, 2, TEST),
                                      (while_a_snapshot_is_written, 1, STEP),
                                      (while_a_snapshot_is_written, 0, STEP), (at_the_end, 1, ANYTHING)):
            with self.subTest(moment=moment.__name__, rank=rank):
                output = self.fail_at(moment, "kill", rank)
                self.assert_named(output, rank, awaited, BROKEN)
                # mpirun names the first end that it hears of: on a busy machine that may be one of the others'.
                self.assertRegex(output, rf"rank {rank} .*on node h{rank + 1} exited on signal 9|processes exited with non-zero status")

    def test_without_sockets_it_is_named_when_mpirun_ends_the_others(self):
        output = self.fail_at(in_training, "kill", 1, tcp="off", kill_timeout=LONG_KILL_TIMEOUT)
        self.assert_named(output, 1, STEP, TOLD_TO_END)
        self.assertRegex(output, r"rank 1 .*on node h2 exited on signal 9")

    def test_a_rank_that_is_killed_at_the_start_is_named_by_mpirun(self):
        for moment, rank in ((at_the_start, 1), (before_the_first_step, 0)):
            with self.subTest(moment=moment.__name__):
                output = self.fail_at(moment, "kill", rank)
                self.assertRegex(output, rf"rank {rank} .*on node h{rank + 1} exited on signal 9")

    def test_a_hanging_rank_is_named_after_comm_timeout(self):
        for moment, rank, awaited in ((in_training, 1, STEP), (in_training, 0, STEP), (in_a_test, 1, TEST),
                                      (while_a_snapshot_is_written, 0, STEP), (at_the_end, 1, ANYTHING)):
            with self.subTest(moment=moment.__name__, rank=rank):
                output = self.fail_at(moment, "stop", rank)
                self.assert_named(output, rank, awaited, WAITED, SILENT)
                if rank != 0:  # rank 0 chooses who speaks; stopped, it wakes when mpirun ends it, and complains
                    self.assertEqual(output.count("error: rank"), 1, output)

    def test_ranks_do_not_wait_for_ever_for_one_that_hangs_before_it_is_there(self):
        for mpi in ("openmpi", "mpich"):
            with self.subTest(mpi=mpi):
                output = self.fail_at(at_the_start, "stop", 1, mpi=mpi)
                self.assert_named(output, 1, ANYTHING, NOT_STARTED, NOT_INTRODUCED, WAITED)

    def test_a_rank_whose_cable_is_cut_is_named_after_comm_timeout(self):
        for moment, awaited in ((in_training, STEP), (while_a_snapshot_is_written, STEP)):
            with self.subTest(moment=moment.__name__):
                output = self.fail_at(moment, "cut", 1)
                # Whichever is first: the ranks' own patience, or mpirun, which ends them.
                self.assert_named(output, 1, awaited, WAITED, SILENT, TOLD_TO_END)

    def test_under_mpich_a_killed_rank_ends_the_others(self):
        output = self.fail_at(in_training, "kill", 1, mpi="mpich")
        # Hydra kills the others at once, mostly before they can speak.
        self.assertRegex(output, "RUNNING AT h2|" + BROKEN.format("rank 1 on h2", STEP))

    def test_under_mpich_a_rank_that_hangs_or_is_cut_off_is_named(self):
        for fault in ("stop", "cut"):
            with self.subTest(fault=fault):
                output = self.fail_at(in_training, fault, 1, mpi="mpich")
                self.assert_named(output, 1, STEP, WAITED)

    def test_at_random_moments(self):
        seed = int(os.environ.get("CARAFE_TEST_SEED", random.randrange(10**6)))
        choose = random.Random(seed)
        for run in range(3):
            delay, fault, rank = choose.uniform(0, 2), choose.choice(("kill", "stop")), choose.randrange(3)
            with self.subTest(seed=seed, run=run, delay=delay, fault=fault, rank=rank):
                output = self.fail_at(lambda _: time.sleep(delay), fault, rank)
                who = f"rank {rank} on h{rank + 1}"
                if fault == "kill" and not re.search(BROKEN.format(who, ANYTHING), output):
                    self.assertRegex(output, rf"rank {rank} .*on node h{rank + 1} exited on signal 9")
                elif fault == "stop":
                    self.assert_named(output, rank, ANYTHING, WAITED, SILENT, NOT_STARTED, NOT_INTRODUCED)


if __name__ == "__main__":
    main()
