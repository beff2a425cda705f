#!/usr/bin/env python3
"""`carafe launch --restarts` goes on without a host that has crashed. Needs root and iproute2 (cluster.sh)."""
import csv
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import CARAFE, main  # noqa: E402
from cluster import CLUSTER, REMOTE_SHELL, ClusterTest, cluster, cluster_environment  # noqa: E402

BATCH = 16  # rows of a rank


class Restarts(ClusterTest):
    def launch(self, *launch_flags, flags=(), crash=None):
        """On the login node; `crash` is a host that crashes once there is a snapshot. Returns the final weights."""
        command = [CLUSTER, "exec", "0", CARAFE, "launch", "--mpi=openmpi", *launch_flags, "--", "train",
                   "--solver=solver.prototxt", "--threads=1", "--comm_timeout=20", *flags]
        with open(self.dir / "output", "w", encoding="utf-8") as output:
            process = subprocess.Popen([str(word) for word in command], cwd=self.dir, env={**cluster_environment(), **REMOTE_SHELL}, stdout=output,
                                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        if crash:
            while not (self.dir / "snap/small_iter_2500.manifest").exists():
                self.assertIsNone(process.poll(), self.output())
            cluster("crash", crash)
        self.assertEqual(process.wait(600), 0, self.output())
        return (self.dir / "snap/small_iter_20000.caffemodel").read_bytes()

    def output(self):
        return (self.dir / "output").read_text(encoding="utf-8", errors="replace")

    def test_a_host_that_crashes_is_done_without(self):
        self.write_solver(max_iter=20000, snapshot=2500, more="test_initialization: false\n")  # long enough to crash in it
        weights = self.launch("-H", "h1:2,h2:1", "--restarts=3", "--min_ranks=2", crash=2)
        with open(self.dir / "snap/small_incidents.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["ranks"] for row in rows], ["3"], self.output())
        self.assertEqual(rows[0]["failed"], "rank 2 on h2", self.output())
        batch = re.search(r"--global_batch=(\d+)", self.output())
        self.assertIsNotNone(batch, self.output())
        self.assertEqual(int(batch.group(1)), 3 * BATCH)
        by_hand = self.launch("-H", "h1:2", flags=[f"--snapshot=snap/small_iter_{rows[0]['resumes_at']}.solverstate",
                                                   f"--global_batch={3 * BATCH}"])
        self.assertEqual(weights, by_hand)


if __name__ == "__main__":
    main()
