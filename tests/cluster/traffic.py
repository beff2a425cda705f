#!/usr/bin/env python3
"""Bytes on the cables are those of the formulas (docs/exchanges.md, three levels and inside a host): two workers on a
host, as ranks or inside one rank, halve what travels between hosts. Needs root and iproute2 (cluster.sh)."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import CARAFE, main, weights  # noqa: E402
from cluster import HOSTS, ClusterTest, cluster  # noqa: E402

FEW, MANY = 10, 30  # iterations: the difference of two runs is without start and end


class Traffic(ClusterTest):
    def setUp(self):
        super().setUp()
        # 0.58 million parameters, so that headers and signs of life are few beside the gradients.
        self.write_net(batch=2, replace=(("num_output: 4 ", "num_output: 400 "),))

    def sent(self):
        return [int(re.search(r"tx_bytes=(\d+)", cluster("stats", host).stdout)[1]) for host in range(1, HOSTS + 1)]

    def bytes_of_run(self, iterations, ranks, slots, flags, variables):
        self.write_solver(max_iter=iterations)
        solver = (self.dir / "solver.prototxt").read_text().replace("test_interval: 50", "test_interval: 1000000")
        self.write("solver.prototxt", solver + "test_initialization: false\n")
        before = self.sent()
        result = cluster("run", "-n", ranks, CARAFE, "train", "--solver=solver.prototxt", "--bucket_mb=1", *flags,
                         cwd=self.dir, check=False, variables={"CLUSTER_SLOTS": str(slots), **variables})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return [after - b for after, b in zip(self.sent(), before)], result.stderr

    def per_step(self, ranks, slots, *flags, **variables):
        """What each host sends in an iteration, in units of the gradients' bytes."""
        few, _ = self.bytes_of_run(FEW, ranks, slots, flags, variables)
        many, log = self.bytes_of_run(MANY, ranks, slots, flags, variables)
        self.assertIn("4 workers", log)
        count = sum(len(values) for values in weights(self.dir / f"snap/small_iter_{MANY}.caffemodel").values())
        self.assertIn(f"{count} parameters", log)
        return [(m - f) / (MANY - FEW) / (4 * count) for f, m in zip(few, many)]

    def expect(self, measured, expected):
        """Never less, and at most 10 % more: frames of the network, headers, acknowledgements and votes."""
        for host, (got, wanted) in enumerate(zip(measured, expected), 1):
            self.assertGreater(got, 0.98 * wanted - 0.02, f"h{host}: {measured}, expected {expected}")
            self.assertLess(got, 1.10 * wanted + 0.06, f"h{host}: {measured}, expected {expected}")

    def test_allreduce_sends_once_per_host_however_many_workers_it_has(self):
        flat, two_hosts = [2 * 3 / 4] * 4, [2 * 1 / 2] * 2 + [0, 0]  # 2n(H-1)/H
        self.expect(self.per_step(4, 1), flat)
        self.expect(self.per_step(4, 2), two_hosts)
        self.expect(self.per_step(2, 1, "--workers=2"), two_hosts)

    def test_ranks_that_are_no_neighbours_are_summed_inside_their_host_too(self):
        # Ranks 0 and 2 on h1, 1 and 3 on h2: 2n(H-1)/H per host, as with neighbours.
        self.expect(self.per_step(4, 2, CLUSTER_MPI_ARGS="--map-by slot --rank-by node"), [1, 1, 0, 0])

    def test_the_server_gets_one_gradient_per_host(self):
        self.expect(self.per_step(4, 1, "--exchange=server"), [3, 1, 1, 1])
        self.expect(self.per_step(4, 2, "--exchange=server"), [1, 1, 0, 0])
        self.expect(self.per_step(2, 1, "--exchange=server", "--workers=2"), [1, 1, 0, 0])

    def test_the_tree_enters_every_host_once(self):
        self.expect(self.per_step(4, 2, "--exchange=tree"), [1, 1, 0, 0])
        self.expect(self.per_step(2, 1, "--exchange=tree", "--workers=2"), [1, 1, 0, 0])


if __name__ == "__main__":
    main()
