#!/usr/bin/env python3
"""LeNet through --exchange=ssp under mpirun: without staleness the files of allreduce, with it a training that learns, the
histogram, signals, and the end when a rank dies. Prints `N passed, N failed`."""
import csv
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import ROOT, CarafeTest, main, weights  # noqa: E402

RULES = {"SGD": "momentum: 0.9", "Adam": "momentum: 0.9 momentum2: 0.99 delta: 1e-3"}


class StaleServer(CarafeTest):
    def write_lenet(self, iterations, more="", snapshot=0):
        net = (ROOT / "examples/digits/lenet_train_test.prototxt").read_text()
        net, changed = re.subn(r'source: "[^"]*(train|test)[^"]*"', r'source: "digits_\1_lmdb"', net)
        self.assertEqual(changed, 2)
        self.write("net.prototxt", re.sub(r"batch_size: \d+", "batch_size: 8", net))
        self.write("solver.prototxt", f'net: "net.prototxt" base_lr: 0.01 weight_decay: 0.0005 lr_policy: "inv" gamma: 0.0001 '
                   f'power: 0.75 display: 5 max_iter: {iterations} test_iter: 2 test_interval: 5 snapshot: {snapshot} '
                   f'snapshot_prefix: "snap" random_seed: 3 {more}\n')

    def train(self, ranks, *flags, **options):
        return self.carafe("train", "--solver=solver.prototxt", *flags, ranks=ranks, **options)

    def test_without_staleness_files_and_log_are_those_of_allreduce(self):
        for ranks, workers, rule, clip in (2, 1, "SGD", ""), (3, 2, "Adam", "clip_gradients: 1"), (4, 1, "SGD", "iter_size: 2"):
            for file_format in "BINARYPROTO", "HDF5":
                end = ".h5" if file_format == "HDF5" else ""
                self.write_lenet(8, f'type: "{rule}" {RULES[rule]} {clip} snapshot_format: {file_format}', snapshot=4)
                found = {}
                for exchange in "allreduce", "ssp":
                    with self.subTest(ranks=ranks, workers=workers, rule=rule, format=file_format, exchange=exchange):
                        result = self.train(ranks, f"--exchange={exchange}", f"--workers={workers}")
                        scores = re.findall(r"(?:loss|accuracy) = [\d.e-]+", "\n".join(self.log_of(result)))
                        found[exchange] = scores, (self.dir / f"snap_iter_8.caffemodel{end}").read_bytes()
                        # The second half again, from the snapshot of this exchange, under the other one.
                        other = "allreduce" if exchange == "ssp" else "ssp"
                        (self.dir / f"snap_iter_8.caffemodel{end}").unlink()
                        self.train(ranks, f"--exchange={other}", f"--workers={workers}",
                                   f"--snapshot=snap_iter_4.solverstate{end}")
                        self.assertEqual((self.dir / f"snap_iter_8.caffemodel{end}").read_bytes(), found[exchange][1])
                self.assertEqual(found["ssp"], found["allreduce"])

    def test_with_staleness_it_learns_and_logs_what_it_read(self):
        self.write_lenet(60, RULES["SGD"])
        log = "\n".join(self.log_of(self.train(3, "--exchange=ssp", "--staleness=2", "--run_dir=run")))
        losses = [float(x) for x in re.findall(r"^Iteration \d+ .*, loss = ([\d.e-]+)$", log, re.M)]
        self.assertLess(losses[-1], losses[0] / 2)
        line = re.findall(r"^staleness of the weights that were read, in iterations: (.*)$", log, re.M)
        self.assertEqual(len(line), 1, log)
        shares = dict((int(lag), float(share)) for lag, share in re.findall(r"(\d+): ([\d.]+) %", line[0]))
        self.assertEqual(sorted(shares), [0, 1, 2])
        self.assertAlmostEqual(sum(shares.values()), 100, delta=0.3)
        rows = [r for r in csv.DictReader((self.dir / "run/metrics.csv").open()) if r["name"].startswith("staleness")]
        self.assertEqual([r["name"] for r in rows], ["staleness[0]", "staleness[1]", "staleness[2]"])
        self.assertAlmostEqual(sum(float(r["value"]) for r in rows), 1, places=6)

    def test_updates_on_arrival_within_a_bandwidth_learn_and_resume(self):
        self.write_lenet(60, RULES["SGD"] + ' server_update: "arrival"', snapshot=30)
        flags = ("--exchange=ssp", "--staleness=2", "--consistency=sspaggr", "--bandwidth_mbps=400",
                 "--send_order=relative_magnitude")
        log = "\n".join(self.log_of(self.train(3, *flags)))
        losses = [float(x) for x in re.findall(r"^Iteration \d+ .*, loss = ([\d.e-]+)$", log, re.M)]
        self.assertLess(losses[-1], losses[0] / 2)
        for ranks, more in (2, flags), (3, ("--exchange=allreduce", "--server_update=clock")):
            log = "\n".join(self.log_of(self.train(ranks, *more, "--snapshot=snap_iter_30.solverstate")))
            resumed = [float(x) for x in re.findall(r"^Iteration \d+ .*, loss = ([\d.e-]+)$", log, re.M)]
            self.assertLess(resumed[0], 0.8 * losses[0])  # or it did not resume
            self.assertLess(resumed[-1], losses[0] / 2)

    def test_a_signal_ends_all_ranks_at_the_same_iteration_with_a_snapshot(self):
        self.write_lenet(100000, RULES["SGD"])
        process = self.start("train", "--solver=solver.prototxt", "--exchange=ssp", "--staleness=3", ranks=2)
        for text in process.stderr:
            if "Iteration 5 " in text:
                break
        process.send_signal(signal.SIGTERM)
        result = self.finish(process)
        self.assertIn("Optimization stopped early.", result.stderr)
        states = sorted(self.dir.glob("snap_iter_*.solverstate"))
        self.assertEqual(len(states), 1)
        at = int(re.search(r"_(\d+)\.", states[0].name)[1])
        self.write_lenet(at + 2, RULES["SGD"])
        self.train(3, "--exchange=ssp", "--staleness=1", f"--snapshot={states[0].name}")
        self.assertEqual(len(weights(self.dir / f"snap_iter_{at + 2}.caffemodel")), 8)


if __name__ == "__main__":
    main()
