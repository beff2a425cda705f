#!/usr/bin/env python3
"""Tests that run in several processes at once are all counted, whatever happens to one of the processes."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from cli import main  # noqa: E402

# A GoogleTest program as far as it is seen from outside: its shards, its log and its report.
FAKE = """#!/usr/bin/env python3
import os, sys
parts, part = int(os.environ.get("GTEST_TOTAL_SHARDS", 1)), int(os.environ.get("GTEST_SHARD_INDEX", 0))
kinds = {kinds!r}
report = next(a for a in sys.argv if a.startswith("--gtest_output=xml:"))[19:]
cases = ""
for i in range(part, len(kinds), parts):
    print(f"[ RUN      ] A.T{{i}}", flush=True)
    if kinds[i] == "crash":
        os.abort()
    end = {{"ok": "      OK", "bad": " FAILED ", "skip": "SKIPPED"}}[kinds[i]]
    print(f"[ {{end}} ] A.T{{i}} (0 ms)")
    inner = {{"ok": "", "bad": "<failure/>", "skip": "<skipped/>"}}[kinds[i]]
    cases += f'<testcase name="T{{i}}" status="run" result="completed" classname="A">{{inner}}</testcase>'
open(report, "w").write(f"<testsuites><testsuite>{{cases}}</testsuite></testsuites>")
sys.exit(1 if "<failure" in cases else 0)
"""


class Parallel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="carafe_parallel_")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def program(self, name, text):
        path = self.dir / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def shards(self, *kinds, jobs=2):
        program = self.program("unit", FAKE.format(kinds=kinds))
        return subprocess.run([sys.executable, ROOT / "scripts/unit_shards.py", program, "*", self.dir / "out", str(jobs)],
                              capture_output=True, text=True)

    def test_every_part_counts(self):
        result = self.shards(*["ok"] * 30, "skip")
        self.assertEqual(result.stdout.splitlines()[-2:], ["SKIPPED A.T30", "30 passed, 0 failed, 1 skipped"])
        self.assertEqual(result.returncode, 0)

    def test_parts_without_a_test_are_no_failure(self):
        self.assertEqual(self.shards("ok", "ok").stdout.splitlines()[-1], "2 passed, 0 failed")

    def test_a_failure_is_named_with_its_log(self):
        result = self.shards(*["ok"] * 20, "bad")
        self.assertIn("FAILED A.T20\n20 passed, 1 failed\n", result.stdout)
        self.assertIn("[  FAILED  ] A.T20", result.stdout)
        self.assertEqual(result.returncode, 1)

    def test_a_crash_is_the_failure_of_its_test_and_of_no_other_part(self):
        result = self.shards(*["ok"] * 5, "crash", *["ok"] * 20)
        self.assertRegex(result.stdout, r"FAILED A.T5 \(the program ended in it, code -6\)")
        self.assertRegex(result.stdout.splitlines()[-1], r"^2[34] passed, 1 failed$")  # T17 was to follow in the same part

    def test_no_test_at_all_is_a_failure(self):
        result = self.shards()
        self.assertEqual(result.stdout.splitlines()[-1], "0 passed, 1 failed")
        self.assertEqual(result.returncode, 1)

    def test_scripts_that_run_together_keep_their_logs_and_codes(self):
        good = self.program("good", "#!/bin/sh\necho fine\n")
        bad = self.program("bad", "#!/bin/sh\necho poor\nexit 3\n")
        killed = self.program("killed", "#!/bin/sh\nkill -9 $$\n")
        subprocess.run([sys.executable, ROOT / "scripts/run_together.py", self.dir / "logs", good, bad, killed], check=True)
        read = {path.name: path.read_text() for path in (self.dir / "logs").iterdir()}
        self.assertEqual(read, {"good.log": "fine\n", "good.code": "0\n", "bad.log": "poor\n", "bad.code": "3\n",
                                "killed.log": "", "killed.code": "137\n"})

    def test_scripts_end_with_the_one_that_runs_them(self):
        endless = self.program("endless", f"#!/bin/sh\necho $$ > {self.dir}/pid.tmp\nmv {self.dir}/pid.tmp {self.dir}/pid\n"
                               "while true; do sleep 1; done\n")
        process = subprocess.Popen([sys.executable, ROOT / "scripts/run_together.py", self.dir / "logs", endless])
        while not (self.dir / "pid").exists():
            self.assertIsNone(process.poll())
        process.terminate()
        self.assertEqual(process.wait(), 143)
        state = pathlib.Path("/proc", (self.dir / "pid").read_text().strip(), "stat")
        while state.exists() and state.read_text().split()[2] != "Z":  # it ends, or this test does not
            os.sched_yield()


if __name__ == "__main__":
    main()
