"""What the tests on a cluster of network namespaces (tests/cluster/cluster.sh) share: the cluster, and the ranks on it.
Needs root and iproute2; elsewhere the tests say so and skip."""
import os
import pathlib
import shutil
import subprocess
import unittest

from cli import CARAFE, ROOT, CarafeTest, environment

CLUSTER = ROOT / "tests" / "cluster" / "cluster.sh"
HOSTS = 4
NAME = f"test{os.getpid()}"
RUN_DIR = pathlib.Path(f"/run/cluster-{NAME}")
# A daemon of Open MPI that is cut off is noticed by its keepalives after 2 s + 3 times 1 s; later would be too late, for
# keepalives stop once something is sent. Ranks that are told to end get 3 s, also on a machine with much to do.
KEEPALIVE = {"OMPI_MCA_odls_base_sigkill_timeout": "3", "OMPI_MCA_oob_tcp_keepalive_time": "2",
             "OMPI_MCA_oob_tcp_keepalive_intvl": "1",
             "OMPI_MCA_oob_tcp_keepalive_probes": "3"}
# What the launchers call instead of ssh (docs/running.md), and the only network of the hosts.
REMOTE_SHELL = {"OMPI_MCA_plm_rsh_agent": str(RUN_DIR / "agent"), "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
                "OMPI_MCA_oob_tcp_if_include": "eth0", "OMPI_MCA_btl_tcp_if_include": "eth0", "OMPI_MCA_pml": "ob1",
                "OMPI_MCA_btl": "self,vader,tcp", "OMPI_MCA_mpi_yield_when_idle": "1",
                "HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": str(RUN_DIR / "agent"),
                "UCX_NET_DEVICES": "eth0", "UCX_TLS": "tcp,self,sysv,posix"}


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


class ClusterTest(CarafeTest):
    """The hosts h1 to h4 are up during all tests of a class."""

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

    def left_on_hosts(self):
        """Command lines of all processes on the hosts, but for those that keep the hosts alive."""
        left = []
        holders = {}
        for host in range(HOSTS + 1):
            pid, _ = (RUN_DIR / f"h{host}.pid").read_text().split()
            kind = "pid" if host > 0 else "net"  # the login node shares the machine's processes
            holders[kind, os.readlink(f"/proc/{pid}/ns/{kind}")] = pid
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                holder = next((holders[kind, space] for kind in ("pid", "net")
                               if (kind, space := os.readlink(folder / "ns" / kind)) in holders), None)
                state, parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:2]
                command = (folder / "cmdline").read_text().replace("\0", " ").strip()
            except OSError:
                continue
            if holder not in (None, folder.name) and state != "Z" and not (parent == holder and "sleep" in command):
                left.append(command)
        return left

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
