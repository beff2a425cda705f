#!/usr/bin/env python3
"""The smaller commands, and the log tools on a log of our own."""
import csv
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import BUILD, ROOT, CarafeTest, difference, main, weights  # noqa: E402

# Every line that scripts of Caffe's users look for in a training log, as they look for it.
TRAIN_LINES = (
    r"Solving small",
    r"Learning Rate Policy: inv",
    r"Iteration 0, Testing net \(#0\)",
    r"    Test net output #0: accuracy = [\d.e-]+",
    r"    Test net output #1: loss = [\d.e-]+ \(\* 1 = [\d.e-]+ loss\)",
    r"Iteration 20 \([\d.e+-]+ iter/s, [\d.e+-]+s/20 iters\), loss = [\d.e-]+",
    r"    Train net output #0: loss = [\d.e-]+ \(\* 1 = [\d.e-]+ loss\)",
    r"Iteration 20, lr = [\d.e-]+",
    r"Snapshotting to binary proto file snap/small_iter_100\.caffemodel",
    r"Snapshotting solver state to binary proto file snap/small_iter_100\.solverstate",
    r"Iteration 100, loss = [\d.e-]+",
    r"Optimization Done\.",
)

TEST_LINES = (
    r"Batch 0, accuracy = [\d.e-]+",
    r"Batch 1, loss = [\d.e-]+",
    r"Loss: [\d.e-]+",
    r"accuracy = [\d.e-]+",
    r"loss = [\d.e-]+ \(\* 1 = [\d.e-]+ loss\)",
)

TIME_LINES = (
    r"\*\*\* Benchmark begins \*\*\*",
    r"Average time per layer: ",
    r"     conv1\tforward: [\d.e-]+ ms\.",
    r"     conv1\tbackward: [\d.e-]+ ms\.",
    r"Average Forward pass: [\d.e-]+ ms\.",
    r"Average Backward pass: [\d.e-]+ ms\.",
    r"Average Forward-Backward: [\d.e-]+ ms\.",
    r"Total Time: [\d.e-]+ ms\.",
    r"\*\*\* Benchmark ends \*\*\*",
)


class Tools(CarafeTest):
    def train(self):
        self.write_solver(max_iter=100)
        result = self.carafe("train", "--solver=solver.prototxt")
        self.write("run.log", result.stderr)
        return result

    def expect_in_order(self, patterns, log):
        """Each pattern is a whole line, and they come in this order, with others between."""
        at = 0
        for pattern in patterns:
            while at < len(log) and not re.fullmatch(pattern, log[at]):
                at += 1
            self.assertLess(at, len(log), f"no line {pattern!r} here or further down:\n" + "\n".join(log))

    def extra(self, script, *arguments):
        subprocess.run([ROOT / "tools/extra" / script, *arguments], cwd=self.dir, check=True, timeout=60)

    def test_features_of_two_blobs_become_two_databases(self):
        self.train()
        result = self.carafe("extract_features", "snap/small_iter_100.caffemodel", "net.prototxt", "conv1,ip",
                             "conv1_lmdb,ip_lmdb", "3", "lmdb", "CPU", "DEVICE_ID=0")
        self.assertIn("Extracted features of 60 query images for feature blob ip", result.stderr)
        # They can be read again: a net on them sees 4x12x12 of the one and 10 of the other.
        for name, channels, size in (("conv1", 4, 12), ("ip", 10, 1)):
            self.write("features.prototxt", f'layer {{ name: "data" type: "Data" top: "data" data_param {{ source: '
                                            f'"{name}_lmdb" backend: LMDB batch_size: 20 }} }}')
            out = self.carafe("summary", "features.prototxt").stdout
            self.assertIn(f"20x{channels}x{size}x{size}", out)

    def test_a_backend_is_given_as_pmls_gives_it(self):
        """compute_image_mean DB OUT leveldb, and convert_cifar_data --backend=leveldb."""
        for number, backend in enumerate((("lmdb",), ("--backend=lmdb",), ())):
            self.carafe("compute_image_mean", "digits_test_lmdb", f"mean{number}", *backend)
        means = [(self.dir / f"mean{number}").read_bytes() for number in range(3)]
        self.assertEqual(means[0], means[1])
        self.assertEqual(means[0], means[2])
        self.assertIn("digits_test_lmdb", self.carafe("compute_image_mean", "digits_test_lmdb", "mean3", "leveldb",
                                                      expect=1).stderr)
        batches = self.dir / "batches"
        batches.mkdir()
        for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
            (batches / name).write_bytes(bytes(3073 * 2))
        self.carafe("convert_cifar_data", "--backend=leveldb", "batches", ".")
        self.assertTrue((self.dir / "cifar10_train_leveldb").is_dir())

    def test_a_command_that_is_not_distributed_runs_once(self):
        result = self.carafe("compute_image_mean", "digits_test_lmdb", "mean", ranks=3)
        self.assertEqual(result.stderr.count("Write to mean"), 1, result.stderr)
        self.assertEqual(result.stderr.count("compute_image_mean was started by mpirun"), 1, result.stderr)
        result = self.carafe("check", "net.prototxt", ranks=2)
        self.assertEqual(result.stdout.count("is fine"), 1, result.stdout)

    def test_extract_features_is_a_program_of_its_own_too(self):
        self.train()
        subprocess.run([BUILD / "tools/extract_features", "snap/small_iter_100.caffemodel", "net.prototxt", "ip", "ip_lmdb",
                        "1", "lmdb"], cwd=self.dir, check=True, stderr=subprocess.DEVNULL, timeout=60)
        self.assertTrue((self.dir / "ip_lmdb/data.mdb").exists())

    def test_bad_wishes_for_features(self):
        self.train()
        before = sorted(path.name for path in self.dir.iterdir())
        start = ("extract_features", "snap/small_iter_100.caffemodel", "net.prototxt")
        for arguments, text in (
                (("ip,conv1", "a", "1", "lmdb"), "2 blobs and 1 databases\n  fix: "),
                (("ipp", "a", "1", "lmdb"), 'the net has no blob "ipp"\n  fix: did you mean "ip"'),
                (("ip", "a", "0", "lmdb"), "the number of batches is 0\n  fix: "),
                (("ip", "a", "1", "mdb"), 'the backend "mdb" is unknown\n  fix: use lmdb or leveldb'),
                (("ip", "a", "1", "lmdb", "TPU"), 'the device is "TPU"\n  fix: '),
                (("ip", "digits_test_lmdb", "1", "lmdb"), "digits_test_lmdb")):
            self.assertIn(text, self.carafe(*start, *arguments, expect=1).stderr)
        self.assertEqual(before, sorted(path.name for path in self.dir.iterdir()))

    def test_the_log_has_every_line_that_scripts_look_for(self):
        result = self.train()
        log = self.log_of(result)
        self.expect_in_order(TRAIN_LINES, log)
        # Positions, as awk counts them: the value of a test line is field 11, a rate is field 9.
        for line in result.stderr.splitlines():
            words = line.split()
            if "Test net output #0:" in line:
                self.assertEqual(words[9], "=")
                float(words[10])
            if ", lr = " in line:
                float(words[8])
        # Within a display: loss, outputs, rate; every test shows the same outputs.
        display = [line for line in log if re.match(r"Iteration 40[ ,]|    Train", line)]
        at = next(i for i, line in enumerate(display) if line.startswith("Iteration 40 ("))
        self.assertRegex(display[at + 1], "    Train net output #0")
        self.assertRegex(display[at + 2], "Iteration 40, lr = ")
        tests = [re.sub(r"[\d.e-]+( |$)", "", line.split("=")[0]) for line in log if "Test net output" in line]
        self.assertEqual(len(tests), 2 * 3)
        self.assertEqual(tests[:2], tests[2:4])

    def test_the_logs_of_test_and_time_have_their_lines_too(self):
        self.train()
        self.expect_in_order(TEST_LINES, self.log_of(self.carafe(
            "test", "-model", "net.prototxt", "-weights", "snap/small_iter_100.caffemodel", "-iterations", "2")))
        self.expect_in_order(TIME_LINES, self.log_of(self.carafe("time", "-model", "net.prototxt", "-iterations", "2")))

    def test_resumed_and_stopped_runs_say_so(self):
        self.train()
        self.write_solver(max_iter=120)
        result = self.carafe("train", "--solver=solver.prototxt", "--snapshot=snap/small_iter_100.solverstate")
        self.assertIn("Restoring previous solver status from snap/small_iter_100.solverstate", self.log_of(result))

    def test_our_log_goes_through_parse_log_and_plot_log(self):
        self.train()
        self.extra("parse_log.py", "run.log", ".")
        train = list(csv.DictReader((self.dir / "run.log.train").open()))
        test = list(csv.DictReader((self.dir / "run.log.test").open()))
        self.assertEqual(list(train[0]), ["NumIters", "Seconds", "LearningRate", "loss"])
        self.assertEqual([row["NumIters"] for row in train], ["0", "20", "40", "60", "80"])
        self.assertEqual([row["NumIters"] for row in test], ["0", "50", "100"])
        self.assertEqual(float(train[0]["LearningRate"]), 0.01)
        self.assertGreaterEqual(float(train[-1]["Seconds"]), float(train[0]["Seconds"]))
        self.extra("plot_log.py", "run.svg", "run.log")
        xml.etree.ElementTree.parse(self.dir / "run.svg")

    def test_a_text_becomes_databases_that_an_lstm_reads(self):
        text = subprocess.run([ROOT / "examples/lstm/write_text.py", "20000"], check=True, capture_output=True, text=True)
        self.assertEqual(len(text.stdout), 20000)
        self.write("text.txt", text.stdout)
        (self.dir / "examples/lstm").mkdir(parents=True)
        out = self.carafe("convert_text_data", "text.txt", "examples/lstm/text_train_lmdb",
                          "examples/lstm/text_test_lmdb").stdout
        self.assertRegex(out, r"bigram entropy of the text: [12]\.\d+ nats")
        for name in ("lstm_train_test.prototxt", "lstm_solver.prototxt"):
            text = (ROOT / "examples/lstm" / name).read_text()
            self.write(f"examples/lstm/{name}", re.sub(r"(max_iter|display|average_loss): \d+", r"\1: 12",
                                                       text.replace("test_iter: 78", "test_iter: 3")))
        self.carafe("train", "--solver=examples/lstm/lstm_solver.prototxt", "--run_dir=run")
        rows = (self.dir / "run/metrics.csv").read_text().splitlines()
        losses = [float(row.split(",")[5]) for row in rows if ",train,0,loss," in row]
        self.assertAlmostEqual(losses[0], 4.85, delta=0.1)  # log 128: nothing is known yet
        # Two ranks have half of the stretches each, with their states, and reach the same weights.
        one = weights(self.dir / "examples/lstm/lstm_iter_12.caffemodel")
        self.carafe("train", "--solver=examples/lstm/lstm_solver.prototxt", "--run_dir=run", "--global_batch=512", ranks=2)
        self.assertLess(difference(one, weights(self.dir / "examples/lstm/lstm_iter_12.caffemodel")), 1e-4)

    def test_a_text_that_is_too_short(self):
        self.write("text.txt", "short")
        self.assertIn("text.txt: error: 4 characters are too few",
                      self.carafe("convert_text_data", "text.txt", "a", "b", expect=1).stderr)
        self.assertFalse((self.dir / "a").exists())


if __name__ == "__main__":
    main()
