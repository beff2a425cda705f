#!/usr/bin/env python3
"""Training on a cluster of network namespaces (cluster.sh): the same weights as on one machine, whatever carries them.
Needs root and iproute2; elsewhere it says so and skips."""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import CARAFE, main  # noqa: E402
from cluster import ClusterTest, cluster  # noqa: E402


class Weights(ClusterTest):
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


if __name__ == "__main__":
    main()
