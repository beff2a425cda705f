#!/usr/bin/env python3
"""Training on a cluster of network namespaces (cluster.sh): the same weights as on one machine; a rank that dies, hangs
or is cut off ends the others with its name. Needs root and iproute2; elsewhere it says so and skips."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import CARAFE, CarafeTest, environment, main  # noqa: E402

CLUSTER = pathlib.Path(__file__).resolve().parent / "cluster.sh"
HOSTS = 4
NAME = f"test{os.getpid()}"
# A daemon of Open MPI that is cut off is noticed by its keepalives after 2 s + 3 times 1 s; later would be too late, for
# keepalives stop once something is sent. Ranks that are told to end get 3 s, also on a machine with much to do.
KEEPALIVE = {"OMPI_MCA_odls_base_sigkill_timeout": "3", "OMPI_MCA_oob_tcp_keepalive_time": "2",
             "OMPI_MCA_oob_tcp_keepalive_intvl": "1",
             "OMPI_MCA_oob_tcp_keepalive_probes": "3"}


def cluster_environment(mpi="openmpi"):
    return {**environment(), **KEEPALIVE, "CLUSTER_NAME": NAME, "CLUSTER_SUBNET": f"10.77.{os.getpid() % 200 + 20}",
            "CLUSTER_MPI": mpi}


def cluster(*arguments, mpi="openmpi", variables=None, **options):
    options = {"check": True, "capture_output": True, "text": True, "timeout": 60, **options}
    return subprocess.run([CLUSTER, *map(str, arguments)], env=cluster_environment(mpi) | (variables or {}), **options)


def why_not():
    """What this machine lacks, or an empty text."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program, package in (("ip", "iproute2"), ("nsenter", "util-linux"), ("hostname", "hostname")):
        if shutil.which(program) is None:
            return f"there is no {program} (Debian: {package})"
    result = cluster("up", HOSTS, check=False)
    if result.returncode != 0:
        cluster("down", check=False)
        return "no cluster can be made here: " + result.stderr.strip().replace("\n", " ")
    return ""


class Cluster(CarafeTest):
    @classmethod
    def setUpClass(cls):
        reason = why_not()
        if reason:
            raise unittest.SkipTest(reason)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        cluster("down", check=False)
        super().tearDownClass()

    def need(self, mpi):
        if shutil.which(f"mpirun.{mpi}") is None:
            self.skipTest(f"there is no mpirun.{mpi}")

    def ranks(self):
        """{rank: process id, as this machine numbers it} of our program on the hosts."""
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(folder / "exe") != str(CARAFE.resolve()) or os.readlink(folder / "cwd") != str(self.dir):
                    continue
                variables = dict(v.split("=", 1) for v in (folder / "environ").read_text().split("\0") if "=" in v)
            except OSError:
                continue
            rank = variables.get("OMPI_COMM_WORLD_RANK", variables.get("PMI_RANK"))
            if rank is not None:
                found[int(rank)] = int(folder.name)
        return found

    def weights_after(self, run, *arguments):
        shutil.rmtree(self.dir / "snap", ignore_errors=True)
        result = run(*arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return (self.dir / "snap/small_iter_40.caffemodel").read_bytes(), result

    def check_same_weights(self, ranks, mpi, way="by TCP sockets", hosts=None, **variables):
        self.need(mpi)
        hosts = hosts or ranks
        here, _ = self.weights_after(
            lambda: self.carafe("train", "--solver=solver.prototxt", ranks=ranks, mpi=mpi))
        before = cluster("stats", 1).stdout
        there, result = self.weights_after(
            lambda: cluster("run", "-n", ranks, CARAFE, "train", "--solver=solver.prototxt", mpi=mpi, cwd=self.dir,
                            check=False, variables=variables))
        self.assertIn(f"{ranks} workers on {hosts} hosts", result.stderr)
        self.assertRegex(result.stderr, f"exchange plan: .*; {way}")
        self.assertNotEqual(before, cluster("stats", 1).stdout)  # it did go over the cable
        self.assertEqual(here, there)

    def test_two_hosts_reach_the_weights_of_two_ranks_on_one_machine(self):
        self.check_same_weights(2, "openmpi")

    def test_four_hosts_reach_the_weights_of_four_ranks_on_one_machine(self):
        self.check_same_weights(4, "openmpi")

    def test_hosts_of_two_ranks_do_too(self):
        self.check_same_weights(4, "openmpi", "by shared memory inside this host, TCP sockets to others", hosts=2,
                                CLUSTER_SLOTS="2")

    def test_without_sockets_mpi_carries_the_same(self):
        self.check_same_weights(2, "openmpi", "by two-sided messages of openmpi", CARAFE_TCP="off")

    def test_a_network_that_is_not_there_is_an_error(self):
        result = cluster("run", "-n", 2, CARAFE, "train", "--solver=solver.prototxt", cwd=self.dir, check=False,
                         variables={"CARAFE_TCP": "eth77"})
        self.assertNotEqual(result.returncode, 0)
        self.assertIn('CARAFE_TCP is "eth77", and no such network interface is up here\n  fix: set it to one of eth0, or',
                      result.stderr)

    def test_four_hosts_under_mpich_do_too(self):
        self.check_same_weights(4, "mpich")

    def fail_in_the_middle(self, fault, mpi="openmpi", kills=False, tcp="on"):
        """Three ranks train, `fault(process ids by rank)` happens after the second snapshot; returns the output and the
        seconds from then to the end. When it kills a rank the launcher kills the others, at times while rank 0 writes."""
        self.need(mpi)
        self.write_solver(max_iter=1000000, snapshot=50)
        with (self.dir / "output").open("w") as output:
            process = subprocess.Popen(
                [CLUSTER, "run", "-n", "3", CARAFE, "train", "--solver=solver.prototxt", "--comm_timeout=5"],
                cwd=self.dir, env={**cluster_environment(mpi), "CARAFE_TCP": tcp}, stdout=output, stderr=output,
                start_new_session=True)
        try:
            end = time.time() + 60
            while not (self.dir / "snap/small_iter_100.solverstate").exists():
                self.assertIsNone(process.poll(), (self.dir / "output").read_text())
                self.assertLess(time.time(), end, "no snapshot within 60 s")
                time.sleep(0.1)
            processes = self.ranks()
            self.assertEqual(sorted(processes), [0, 1, 2])
            begin = time.time()
            fault(processes)
            process.wait(timeout=60)
            seconds = time.time() - begin
            deadline = time.time() + 10
            while self.ranks() and time.time() < deadline:
                time.sleep(0.2)
            self.assertEqual(self.ranks(), {}, "processes are left")
        finally:
            for pid in [process.pid, *self.ranks().values()]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        output = (self.dir / "output").read_text()
        self.assertNotEqual(process.returncode, 0, output)
        self.check_newest_snapshot(r"(\.tmp\.\d+)?" if kills else "")
        return output, seconds

    def check_newest_snapshot(self, may_follow):
        newest = max(int(p.stem.rsplit("_", 1)[1]) for p in self.dir.glob("snap/*.solverstate"))
        self.write_solver(max_iter=newest + 1)
        result = self.carafe("train", "--solver=solver.prototxt", "--snapshot=auto")
        self.assertIn(f"Restoring previous solver status from snap/small_iter_{newest}.solverstate",
                      "\n".join(self.log_of(result)))
        for left in self.dir.glob("snap/small_iter_*"):
            self.assertRegex(left.name, rf"^small_iter_\d+\.(caffemodel|solverstate){may_follow}$")

    def test_a_killed_rank_is_named_within_seconds(self):
        through_sockets = r"error: {} is lost: the connection .* is broken: .*; awaited here: \w+"
        through_mpi = r"was told to end .* waits for .*{}.*: \w+"
        for rank, tcp, said in ((1, "on", through_sockets), (0, "on", through_sockets), (1, "off", through_mpi)):
            with self.subTest(rank=rank, tcp=tcp):
                output, seconds = self.fail_in_the_middle(lambda ranks: os.kill(ranks[rank], signal.SIGKILL),
                                                          kills=True, tcp=tcp)
                self.assertRegex(output, said.format(f"rank {rank} on h{rank + 1}"))
                self.assertRegex(output, rf"rank {rank} .*on node h{rank + 1} exited on signal 9")
                self.assertLess(seconds, 20, output)
                shutil.rmtree(self.dir / "snap")

    def test_a_hanging_rank_is_named_after_comm_timeout(self):
        output, seconds = self.fail_in_the_middle(lambda ranks: os.kill(ranks[1], signal.SIGSTOP))
        self.assertRegex(output, r"error: rank \d on h\d: waited 5\.\d s for rank 1 on h2: ")
        self.assertEqual(output.count("error: rank"), 1, output)
        self.assertLess(seconds, 30, output)

    def test_a_rank_whose_cable_is_cut_is_named_after_comm_timeout(self):
        self.addCleanup(cluster, "heal", 2)
        output, seconds = self.fail_in_the_middle(lambda _: cluster("cut", 2))
        # Whichever is first: the ranks' own patience, or mpirun, which ends them.
        self.assertRegex(output, r"error: rank \d on h\d: waited 5\.\d s for rank 1 on h2: |"
                                 r"was told to end .* waits for rank 1 on h2: ")
        self.assertLess(seconds, 40, output)

    def test_a_killed_rank_ends_the_others_under_mpich(self):
        output, seconds = self.fail_in_the_middle(lambda ranks: os.kill(ranks[1], signal.SIGKILL), mpi="mpich",
                                                  kills=True)
        self.assertIn("RUNNING AT h2", output)  # Hydra kills the others before they can speak
        self.assertLess(seconds, 20, output)


if __name__ == "__main__":
    main()
