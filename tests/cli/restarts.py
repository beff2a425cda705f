#!/usr/bin/env python3
"""`carafe launch --restarts`: a training that fails is continued without a person, and ends with the weights of one that
did not fail."""
import csv
import os
import pathlib
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import BUILD, CARAFE, CarafeTest, main  # noqa: E402

# Stands in for the program: on rank 1, in the first $FAILURES attempts, it is killed once the file $WHEN exists, or the k-th
# snapshot in the k-th attempt.
PROGRAM = """#!/bin/bash
rank=${{OMPI_COMM_WORLD_RANK-$PMI_RANK}}
echo "$@" >>commands.$rank
if [ "$rank" != 1 ] || [ $(wc -l <commands.1) -gt ${{FAILURES-1}} ]; then exec {carafe} "$@"; fi
{carafe} "$@" &
until [ -e ${{WHEN-snap/small_iter_$(($(wc -l <commands.1) * 1000)).manifest}} ] || ! kill -0 $! 2>/dev/null; do sleep 0.01; done
kill -9 $!
wait $!
"""


class Restarts(CarafeTest):
    def setUp(self):
        super().setUp()
        if shutil.which("mpirun.openmpi") is None or not (BUILD / "lib/libcarafe_mpi_openmpi.so").exists():
            self.skipTest("openmpi is not installed, or its plug-in was not built")
        self.write_solver(max_iter=6000, snapshot=1000, more="test_initialization: false\n")
        self.write("caffe", PROGRAM.format(carafe=CARAFE))
        (self.dir / "caffe").chmod(0o755)

    def launch(self, *flags, program="./caffe", more=(), expect=0, **variables):
        os.environ.update({name: str(value) for name, value in variables.items()})
        try:
            return self.carafe("launch", "--mpi=openmpi", "-n", "2", *flags, "--", program, "train", "--solver=solver.prototxt",
                               "--threads=1", "--comm_timeout=20", *more, expect=expect)
        finally:
            for name in variables:
                del os.environ[name]

    def commands(self, rank=0):
        return (self.dir / f"commands.{rank}").read_text().splitlines()

    def incidents(self):
        with open(self.dir / "snap/small_incidents.csv", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def final(self):
        return (self.dir / "snap/small_iter_6000.caffemodel").read_bytes()

    def test_a_rank_that_is_killed_twice_costs_nothing_but_time(self):
        self.launch(program=CARAFE)
        whole = self.final()
        shutil.rmtree(self.dir / "snap")
        result = self.launch("--restarts=5", FAILURES=2)
        self.assertEqual(self.final(), whole)
        rows = self.incidents()
        self.assertEqual([row["attempt"] for row in rows], ["1", "2"], result.stderr)
        for row in rows:
            self.assertRegex(row["failed"], r"^rank 1 (on \S+|\(not started\))$")
            self.assertEqual(row["ranks"], "2")
            self.assertGreaterEqual(int(row["resumes_at"]), 1000)
        self.assertIn("; starting again from iteration ", result.stderr)
        self.assertNotIn("--snapshot", self.commands()[0])
        for command, row in zip(self.commands()[1:], rows):
            self.assertTrue(command.endswith(f"--snapshot=snap/small_iter_{row['resumes_at']}.solverstate"), command)

    def test_the_snapshots_of_an_earlier_run_are_not_taken(self):
        self.write_solver(max_iter=1100, snapshot=1000, more="test_initialization: false\n")
        self.launch(program=CARAFE)
        old = {path.name: path.stat().st_mtime_ns for path in (self.dir / "snap").iterdir()}
        self.assertIn("small_iter_1000.manifest", old)
        # The first attempt ends at once (the manifest is there), before it has written anything.
        self.write_solver(max_iter=1200, snapshot=2000, more="test_initialization: false\n")
        result = self.launch("--restarts=1")
        self.assertIn("; starting again from the start in 2 s", result.stderr)
        self.assertEqual(self.incidents()[0]["resumes_at"], "0")
        self.assertNotIn("--snapshot", self.commands()[1])

    def test_attempts_that_come_no_further_end(self):
        result = self.launch("--restarts=100", FAILURES=100, WHEN="solver.prototxt", expect=137)
        self.assertIn("; no restart: 3 attempts in a row wrote no snapshot\n", result.stderr)
        self.assertEqual(len(self.commands(1)), 3)
        self.assertEqual([row["resumes_at"] for row in self.incidents()], ["0"] * 3)

    def test_an_error_of_settings_is_not_repeated(self):
        result = self.launch("--restarts=5", more=["--global_batch=1"], expect=1)
        self.assertIn("no restart: the error above would come again", result.stderr)
        self.assertEqual(len(self.commands()), 1)

    def test_ctrl_c_is_the_end(self):
        process = self.start("launch", "--mpi=openmpi", "-n", "2", "--restarts=5", "--", str(CARAFE), "train",
                             "--solver=solver.prototxt", "--threads=1")
        while not (self.dir / "snap/small_iter_1000.manifest").exists():
            self.assertIsNone(process.poll())
        os.kill(process.pid, signal.SIGINT)
        result = self.finish(process)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse((self.dir / "snap/small_incidents.csv").exists())

    def test_bad_flags(self):
        for flags, command, words in (
                (["--restarts=-1"], ["train"], "--restarts is -1"),
                (["--min_ranks=2"], ["train"], "--min_ranks is for restarts"),
                (["--restarts=1"], ["test", "--model=net.prototxt"], "this command is none"),
                (["--restarts=1"], ["train"], "the command has no --solver"),
                (["--restarts=1"], ["train", "-solver", "nowhere.prototxt"], "nowhere.prototxt")):
            result = self.carafe("launch", "-n", "2", *flags, "--", *command, expect=1)
            self.assertIn(words, result.stderr)
            self.assertIn("fix: ", result.stderr)


if __name__ == "__main__":
    main()
