#!/usr/bin/env python3
"""Help, version, lists and mistakes in the command line."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import ROOT, CarafeTest, main  # noqa: E402


class Help(CarafeTest):
    def commands(self):
        """Those that `carafe --help` lists."""
        listed = self.carafe("--help").stdout.split("Subcommands:\n")[1].split("\n\n")[0]
        commands = re.findall(r"^  (\w+)", listed, re.MULTILINE)
        self.assertIn("train", commands)
        return commands

    def test_no_arguments_print_help_with_examples(self):
        result = self.carafe()
        self.assertIn("examples:", result.stdout)
        self.assertIn("train", result.stdout)

    def test_every_command_has_help(self):
        for command in self.commands():
            self.assertIn("examples:", self.carafe(command, "--help").stdout, command)

    def test_every_command_is_in_the_readme(self):
        section = (ROOT / "README.md").read_text().split("## What it does")[1].split("\n## ")[0]
        words = set(re.findall(r"\w+", section))
        self.assertEqual([command for command in self.commands() if command not in words], [])

    def test_unknown_command(self):
        self.assertEqual(self.carafe("trian", expect=1).stderr,
                         'error: unknown command "trian"\n  fix: did you mean "train"?\n')

    def test_unknown_flag(self):
        result = self.carafe("train", "--solver=solver.prototxt", "--wieghts=x", expect=1)
        self.assertEqual(result.stderr, "error: unknown flag --wieghts\n  fix: did you mean --weights?\n")

    def test_a_misspelt_flag_is_named_before_the_one_that_is_missing(self):
        result = self.carafe("train", "--solvr=solver.prototxt", expect=1)
        self.assertEqual(result.stderr, "error: unknown flag --solvr\n  fix: did you mean --solver?\n")

    def test_missing_flag(self):
        self.assertIn("--solver is required", self.carafe("train", expect=1).stderr)

    def test_version(self):
        self.assertRegex(self.carafe("--version").stdout, r"^carafe \d+\.\d+\.\d+$")

    def test_layers_are_those_of_the_docs(self):
        self.assertEqual(self.carafe("layers", "--markdown").stdout, (ROOT / "docs/layers.md").read_text())

    def test_options_are_those_of_the_docs(self):
        self.assertEqual(self.carafe("options", "--markdown").stdout, (ROOT / "docs/options.md").read_text())

    def test_help_shows_choices_range_default_and_source(self):
        text = " ".join(self.carafe("train", "--help").stdout.split())
        self.assertIn("--sum auto|owners|halving allreduce: every rank sums its part (owners), or halving and doubling; "
                      "default: auto", text)
        self.assertIn("--workers NUMBER replicas of the net in each rank, each with --threads threads (1 to 4096); default: 1",
                      text)
        self.assertIn("in the solver: exchange_timeout; default: -1", text)

    def test_time_prints_the_lines_that_scripts_read(self):
        log = self.log_of(self.carafe("time", "-model", "net.prototxt", "-iterations", "2"))
        for line in ("*** Benchmark begins ***", "Average time per layer: ", "*** Benchmark ends ***"):
            self.assertIn(line, log)
        self.assertTrue(any(line.startswith("     conv1\tforward: ") for line in log), log)

    def test_check_describes_a_good_solver(self):
        self.assertIn("solver.prototxt: this solver is fine", self.carafe("check", "solver.prototxt").stdout)

    def test_device_query(self):
        self.assertIn("CPU: ", self.carafe("device_query").stdout)


if __name__ == "__main__":
    main()
