#!/usr/bin/env python3
"""Test results are counted rightly, above all those of programs that end badly."""

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

GOOD_LOG = "[ RUN      ] A.B\n[       OK ] A.B (0 ms)\n[ RUN      ] A.C/0\n[       OK ] A.C/0 (1 ms)\n"
BAD_LOG = "[ RUN      ] A.B\n[       OK ] A.B (0 ms)\n[ RUN      ] A.C\n[  FAILED  ] A.C, where GetParam() = 1 (1 ms)\n"
RACE_LOG = "[ RUN      ] A.B\nWARNING: ThreadSanitizer: data race (pid=1)\n[       OK ] A.B (0 ms)\n"


def xml(*results):
    cases = {
        "ok": '<testcase name="B" status="run" result="completed" classname="A"/>',
        "bad": '<testcase name="C" status="run" result="completed" classname="A"><failure/></testcase>',
        "skipped": '<testcase name="D" status="run" result="skipped" classname="A"><skipped/></testcase>',
        "off": '<testcase name="E" status="notrun" result="suppressed" classname="A"/>',
    }
    return "<testsuites><testsuite>" + "".join(cases[r] for r in results) + "</testsuite></testsuites>"


# name, log, exit code, XML (None: a script; "": a GoogleTest program that wrote none), first line, a part of the rest
CASES = [
    ("all passed", GOOD_LOG, 0, xml("ok", "ok"), "2 0 0", ""),
    ("one failed", BAD_LOG, 1, xml("ok", "bad"), "1 1 0", "A.C"),
    ("skipped ones are counted and named", GOOD_LOG, 0, xml("ok", "skipped", "off"), "1 0 1", "skipped: A.D"),
    ("nothing but skipped ones", GOOD_LOG, 0, xml("skipped"), "0 0 1", "skipped: A.D"),
    ("a crash counts the running test", GOOD_LOG + "[ RUN      ] A.D\n", 139, "", "2 1 0", "A.D (the program ended"),
    ("a crash keeps earlier failures", BAD_LOG + "[ RUN      ] A.D\n", 134, "", "1 2 0", "A.C"),
    ("a report cut short is no report", GOOD_LOG + "[ RUN      ] A.D\n", 1, "<testsuites><tests", "2 1 0", "A.D"),
    ("an early exit with 0", GOOD_LOG, 0, "", "2 1 0", "before its report"),
    ("a leak at the end", GOOD_LOG, 23, xml("ok", "ok"), "2 1 0", "code 23"),
    ("a race is its test's failure", RACE_LOG, 66, xml("ok"), "0 1 0", "A.B (WARNING: ThreadSanitizer"),
    ("a filter that matches nothing", "", 0, xml(), "0 1 0", "no test ran"),
    ("a program that is not there", "", 127, "", "0 1 0", "code 127"),
    ("a script's own count", "x\n12 passed, 0 failed\n", 0, None, "12 0 0", ""),
    ("a script that skipped all", "0 passed, 0 failed, 2 skipped\n", 0, None, "0 0 2", "does not name"),
    ("skips that a script names", "SKIPPED nets: no data\n1 passed, 0 failed, 1 skipped\n", 0, None, "1 0 1",
     "skipped: nets: no data"),
    ("a script's failures", "FAILED a\n2 passed, 2 failed\n", 1, None, "2 2 0", "FAILED a"),
    ("failures as unittest names them", "FAIL: t\nFAILED (failures=1)\n1 passed, 1 failed\n", 1, None, "1 1 0", "FAIL: t"),
    ("a script that ends badly", "2 passed, 0 failed\n", 1, None, "2 1 0", "although nothing failed"),
    ("a script that crashes", "1 passed, 0 failed\nand then\n", 1, None, "0 1 0", "code 1"),
    ("a script without a count", "fine\n", 0, None, "1 0 0", ""),
    ("a script that did nothing", "0 passed, 0 failed\n", 0, None, "0 1 0", "no check ran"),
]


def run(folder, log, code, report):
    log_path, xml_path = pathlib.Path(folder, "log"), pathlib.Path(folder, "xml")
    log_path.write_text(log, encoding="utf-8")
    command = [sys.executable, str(ROOT / "scripts/count_tests.py"), str(log_path), str(code)]
    if report is not None:
        command.append(str(xml_path))
    if report:
        xml_path.write_text(report, encoding="utf-8")
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def main():
    failed = 0
    for name, log, code, report, first, rest in CASES:
        with tempfile.TemporaryDirectory() as folder:
            printed = run(folder, log, code, report)
        head, _, tail = printed.partition("\n")
        if head != first or (rest not in tail if rest else tail):
            failed += 1
            print(f"FAILED {name}: printed {printed!r}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
