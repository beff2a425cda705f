#!/usr/bin/env python3
"""tools/extra/parse_log.py and plot_log.py read logs of all kinds, and say what is wrong with what is no log."""
import csv
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXTRA = ROOT / "tools/extra"
sys.dont_write_bytecode = True
sys.path[:0] = [str(EXTRA), str(ROOT / "tests/support")]
import svg_chart  # noqa: E402
import training_log  # noqa: E402
from counted import run_and_exit  # noqa: E402


def line(message, time="12:00:00.000000", date="1231", tag=""):
    return f"{tag}I{date} {time} 12345 solver.cpp:204] {message}"


LOG = [
    "a line of another program",
    line("Use CPU."),
    line("Solving LeNet", "12:00:01.500000"),
    line("Learning Rate Policy: inv", "12:00:01.500000"),
    line("Iteration 0, Testing net (#0)", "12:00:02.000000"),
    line("    Test net output #0: accuracy = 0.1", "12:00:02.500000"),
    line("    Test net output #1: loss = 2.3 (* 1 = 2.3 loss)", "12:00:02.500000"),
    line("Iteration 0 (-nan iter/s, 0s/10 iters), loss = 2.5", "12:00:03.000000"),
    line("    Train net output #0: loss = 2.25 (* 1 = 2.25 loss)", "12:00:03.000000"),
    line("Iteration 0, lr = 0.01", "12:00:03.000000"),
    line("Iteration 10 (5 iter/s, 2s/10 iters), loss = inf", "00:00:01.500000", "0101"),
    line("    Train net output #0: loss = nan (* 1 = nan loss)", "00:00:01.500000", "0101"),
    line("Iteration 10, lr = 1e-05", "00:00:01.500000", "0101"),
    line("Iteration 20, Testing net (#0)", "00:00:02.500000", "0101"),
    line("    Test net output #0: accuracy = 0.9", "00:00:02.500000", "0101"),
    line("    Test net output #1: loss = -inf (* 1 = -inf loss)", "00:00:02.500000", "0101"),
    line("Iteration 20, loss = 0.5", "00:00:02.500000", "0101"),
    line("Optimization Done.", "00:00:02.500000", "0101"),
]


def parse(lines):
    return training_log.parse(lines, 2015)


class LogTools(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="carafe_log_")
        self.addCleanup(self.folder.cleanup)
        self.dir = pathlib.Path(self.folder.name)

    def write(self, lines, name="run.log"):
        (self.dir / name).write_text("\n".join(lines) + "\n")
        return self.dir / name

    def run_tool(self, tool, *arguments, expect=0):
        result = subprocess.run([EXTRA / tool, *arguments], cwd=self.dir, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result

    def table(self, name):
        with open(self.dir / name, newline="") as file:
            return list(csv.reader(file))

    def test_tables_have_caffes_columns(self):
        self.run_tool("parse_log.py", self.write(LOG), self.dir)
        train, test = self.table("run.log.train"), self.table("run.log.test")
        self.assertEqual(train[0], ["NumIters", "Seconds", "LearningRate", "loss"])
        self.assertEqual(test[0], ["NumIters", "Seconds", "LearningRate", "accuracy", "loss"])
        self.assertEqual(train[1], ["0", "1.5", "0.01", "2.25"])
        self.assertEqual(test[1], ["0", "1.0", "0.01", "0.1", "2.3"])

    def test_nan_and_inf_are_values(self):
        log = parse(LOG)
        self.assertTrue(math.isnan(log.train[1].values()["loss"]))
        self.assertEqual(log.train[1].loss, math.inf)
        self.assertEqual(log.tests[0][1].values()["loss"], -math.inf)

    def test_the_clock_goes_on_at_new_year_and_reads_years(self):
        self.assertEqual(parse(LOG).train[1].seconds, 12 * 3600)
        with_year = [text.replace("I1231", "I20191231").replace("I0101", "I20200101") for text in LOG]
        self.assertEqual(parse(with_year).train[1].seconds, 12 * 3600)

    def test_a_date_that_does_not_exist_is_no_crash(self):
        log = parse([line("Solving x", date="0229"), *[text.replace("I1231", "I0230") for text in LOG]])
        self.assertEqual(len(log.train), 3)

    def test_a_test_without_display_has_the_last_rate(self):
        self.assertEqual(parse(LOG).tests[0][1].rate, 1e-05)

    def test_tags_of_mpirun_do_not_matter(self):
        self.assertEqual(len(parse(["[1,0]<stderr>:" + text for text in LOG]).train), 3)

    def test_old_loss_lines_without_speed(self):
        log = parse([line("Solving x"), line("Iteration 100, loss = 0.25"), line("    Train net output #0: loss = 0.5"),
                     line("Iteration 100, lr = 0.1")])
        self.assertEqual((log.train[0].loss, log.train[0].rate, log.train[0].values()), (0.25, 0.1, {"loss": 0.5}))

    def test_several_test_nets_and_vectors(self):
        lines = [line("Solving x")]
        for net in (0, 1):
            lines.append(line(f"Iteration 5, Testing net (#{net})"))
            lines += [line(f"    Test net output #{k}: prob = 0.{net}{k}") for k in range(3)]
        self.run_tool("parse_log.py", self.write(lines), self.dir)
        self.assertEqual(self.table("run.log.test1"),
                         [["NumIters", "Seconds", "LearningRate", "prob[0]", "prob[1]", "prob[2]"],
                          ["5", "0.0", "", "0.1", "0.11", "0.12"]])
        self.assertEqual(self.table("run.log.test")[1][3:], ["0.0", "0.01", "0.02"])

    def test_an_output_that_appears_later_gets_a_column(self):
        log = LOG + [line("Iteration 30 (1 iter/s, 1s/1 iters), loss = 1"), line("    Train net output #0: other = 7")]
        self.run_tool("parse_log.py", self.write(log), self.dir, "--delimiter", ";")
        rows = (self.dir / "run.log.train").read_text().splitlines()
        self.assertEqual(rows[0], "NumIters;Seconds;LearningRate;loss;other")
        self.assertTrue(rows[1].endswith(";2.25;"), rows)
        self.assertTrue(rows[-1].endswith(";;7.0"), rows)

    def test_what_is_no_log_is_an_error(self):
        self.assertIn("no line of it is of a training run",
                      self.run_tool("parse_log.py", self.write(["hello"]), self.dir, expect=1).stderr)
        self.assertIn("error: ", self.run_tool("parse_log.py", "absent.log", self.dir, expect=1).stderr)
        self.run_tool("plot_log.py", "x.svg", "absent.log", expect=1)
        self.run_tool("plot_log.py", "x.gif", "run.log", expect=2)
        self.assertEqual([path.name for path in self.dir.iterdir()], ["run.log"])

    def test_one_picture_of_several_logs(self):
        self.write(LOG, "a.log")
        self.write([text.replace("accuracy", "a<b&c") for text in LOG], "b.log")
        for flags in ([], ["--log"]):
            self.run_tool("plot_log.py", *flags, "out.svg", "a.log", "b.log")
            picture = (self.dir / "out.svg").read_text()
            xml.etree.ElementTree.fromstring(picture)
            for text in ("a.log: train loss", "b.log: test a&lt;b&amp;c", "learning rate", "test score", "not shown"):
                self.assertIn(text, picture)
            self.assertNotIn("nan", picture.replace("not shown", ""))
            self.assertEqual(picture.count("font-weight"), 3)

    def test_large_vectors_are_no_curves(self):
        lines = [line("Solving x"), line("Iteration 5, Testing net (#0)"), line("    Test net output #0: accuracy = 1")]
        lines += [line(f"    Test net output #{k + 1}: prob = 0.{k}") for k in range(1000)]
        lines += [line(f"    Test net output #{k}: few = 0.{k}") for k in range(1001, 1004)]
        self.write(lines)
        self.run_tool("plot_log.py", "out.svg", "run.log")
        picture = (self.dir / "out.svg").read_text()
        self.assertIn("test accuracy", picture)
        self.assertIn("test few[2]", picture)
        self.assertNotIn("prob", picture)

    def test_ticks_are_round_and_few(self):
        self.assertEqual(svg_chart.ticks(0, 60), [0, 10, 20, 30, 40, 50, 60])
        self.assertEqual([round(t, 6) for t in svg_chart.ticks(0.05, 1.0)], [0.2, 0.4, 0.6, 0.8, 1.0])
        self.assertEqual(svg_chart.log_ticks(0.001, 10), [0.001, 0.01, 0.1, 1, 10])
        for low, high in ((0, 1e-9), (-3, 1e12), (0.0099, 0.01)):
            self.assertIn(len(svg_chart.ticks(low, high)), range(2, 9))


if __name__ == "__main__":
    run_and_exit(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
