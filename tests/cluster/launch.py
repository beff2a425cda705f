#!/usr/bin/env python3
"""`carafe launch` starts ranks on other hosts, named in every form that it reads. Needs root and iproute2 (cluster.sh)."""
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import CARAFE, main  # noqa: E402
from cluster import REMOTE_SHELL, ClusterTest, cluster, cluster_environment  # noqa: E402

class Launch(ClusterTest):
    def launch(self, *arguments, flags=()):
        """On the login node; returns the log and the weights."""
        shutil.rmtree(self.dir / "snap", ignore_errors=True)
        result = cluster("exec", 0, CARAFE, "launch", *arguments, "--", "train", "--solver=solver.prototxt", *flags,
                         cwd=self.dir, check=False, variables=REMOTE_SHELL)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return self.log_of(result), (self.dir / "snap/small_iter_40.caffemodel").read_bytes()

    def rows(self, log):
        """The table of ranks, without its header: [ranks, host, device, cores, threads, batch]."""
        rows = [line.split(maxsplit=3) for line in log if line.startswith("  ")]
        header = next(i for i, row in enumerate(rows) if row[0] == "rank")
        rows = rows[header + 1:]
        return [[row[0], row[1], *row[3].rsplit(maxsplit=2)] for row in rows if row[2] == "CPU"]

    def test_every_way_to_name_hosts_starts_the_same_ranks(self):
        subnet = cluster_environment()["CLUSTER_SUBNET"]
        forms = {"host": "h1\nh1\nh2\nh2\n", "host:n": "h1:2\nh2:2\n", "host slots=n": "h1 slots=2\nh2 slots=2\n",
                 "id address port": "".join(f"{i} {subnet}.{11 + i // 2} {9000 + i}\n" for i in range(4))}
        log, expected = self.launch("--mpi=openmpi", "-H", "h1:2,h2:2")
        self.assertEqual([row[:2] for row in self.rows(log)], [["0-1", "h1"], ["2-3", "h2"]])
        for name, text in forms.items():
            with self.subTest(form=name):
                self.write("hosts", text)
                log, weights = self.launch("--mpi=openmpi", "--hostfile", "hosts")
                self.assertEqual([row[:2] for row in self.rows(log)], [["0-1", "h1"], ["2-3", "h2"]])
                self.assertEqual(weights, expected)
        if shutil.which("mpirun.mpich"):
            for hosts in (["-H", "h1:2,h2:2"], ["--hostfile", "hosts"]):
                with self.subTest(mpi="mpich", hosts=hosts):
                    log, weights = self.launch("--mpi=mpich", *hosts)
                    self.assertEqual([row[:2] for row in self.rows(log)], [["0-1", "h1"], ["2-3", "h2"]])
                    self.assertEqual(weights, expected)

    def test_ranks_are_bound_to_as_many_cores_as_they_have_threads(self):
        cores = os.cpu_count()
        if cores < 2:
            self.skipTest("one core cannot be shared out")
        for mpi in ("openmpi", "mpich"):
            if shutil.which(f"mpirun.{mpi}"):
                with self.subTest(mpi=mpi):
                    log, _ = self.launch(f"--mpi={mpi}", "-H", "h1:2,h2:2", "--bind=threads", flags=["--threads=1"])
                    self.assertEqual({row[2] for row in self.rows(log)}, {f"1 of {cores}"})
                    log, _ = self.launch(f"--mpi={mpi}", "-H", "h1:2,h2:2", flags=["--threads=1"])
                    self.assertEqual({row[2] for row in self.rows(log)}, {f"{cores} of {cores}"})


if __name__ == "__main__":
    main()
