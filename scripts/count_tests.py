#!/usr/bin/env python3
"""Counts what a test program did, also when it crashed.

usage: count_tests.py LOG EXIT_CODE [GTEST_XML]

Prints "PASSED FAILED SKIPPED" on the first line, then a line "failed: NAME" for each failure and "skipped: NAME" for each
test that was skipped. With GTEST_XML, LOG is what a GoogleTest program printed; a crash leaves no XML and is counted from
the log, the running test as failed. Otherwise the log's last line is "N passed, N failed[, N skipped]", and lines
"SKIPPED NAME" name what was skipped; a log without such a last line counts as
one check, judged by the exit code.
A program that ends badly although no test failed (a leak, a race, a signal at exit) counts as one failure more.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree

SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$")
NAMED = re.compile(r"^(FAILED [^(]|FAIL: |ERROR: )")  # the second and third are Python's unittest
SKIPPED = re.compile(r"^SKIPPED (.+)$")
GTEST_LINE = re.compile(r"^\[ *(RUN|OK|FAILED|SKIPPED) *\] ([\w/.]+)(?:,| \(\d+ ms\)|$)")
NO_TEST = "no test ran"
RACE = re.compile(r"^(WARNING: ThreadSanitizer|==\d+==ERROR: \w+Sanitizer)")


def read_xml(path):
    """(passed, failures, skipped) of a GoogleTest report; None if it was not written to its end."""
    try:
        cases = xml.etree.ElementTree.parse(path).getroot().iter("testcase")
    except (OSError, xml.etree.ElementTree.ParseError):
        return None
    passed, skipped, failures = 0, [], []
    for case in cases:
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failures.append(name)
        elif case.get("result") == "skipped" or case.find("skipped") is not None:
            skipped.append(name)
        elif case.get("status") == "run":
            passed += 1
    return passed, failures, skipped


def read_log(lines):
    """(passed, failures, skipped, running, named): running is the test that never ended; named maps a test to a
    sanitizer's report made while it ran."""
    ends, running, named = {}, None, {}
    for line in lines:
        match = GTEST_LINE.match(line)
        if match and match.group(1) == "RUN":
            running = match.group(2)
        elif match and match.group(2) == running:
            ends[running] = match.group(1)
            running = None
        elif RACE.match(line) and running:
            named[running] = line.strip()
    failures = [name for name, end in ends.items() if end == "FAILED"]
    passed = sum(end == "OK" for end in ends.values())
    skipped = [name for name, end in ends.items() if end == "SKIPPED"]
    return passed, failures, skipped, running, named


def count_gtest(lines, code, xml_path):
    passed, failures, skipped, running, named = read_log(lines)
    report = read_xml(xml_path)
    if report is not None:
        passed, failures, skipped = report
        running = None
    if running is not None:
        failures.append(f"{running} (the program ended in it, code {code})")
    for name, what in named.items():  # the test itself has passed
        if not any(failure.split(" ")[0] == name for failure in failures):
            failures.append(f"{name} ({what})")
            passed -= 1
    if code != 0 and not failures:
        failures.append(f"the program ended with code {code} although no test failed")
    if report is None and not failures:
        failures.append("the program ended before its report was written")
    if passed == 0 and not failures and not skipped:
        failures.append(NO_TEST)
    return passed, failures, skipped


def count_script(lines, code):
    last = next((line for line in reversed(lines) if line.strip()), "")
    match = SUMMARY.match(last)
    if match is None:
        return (1, [], []) if code == 0 else (0, [f"ended with code {code}"], [])
    passed, failed, skipped = (int(number or 0) for number in match.groups())
    failures = [line for line in lines if NAMED.match(line)][:failed]
    failures += ["named in the log"] * (failed - len(failures))
    if code != 0 and failed == 0:
        failures = [f"ended with code {code} although nothing failed"]
    if passed == 0 and not failures and not skipped:
        failures = ["no check ran"]
    names = [m.group(1) for line in lines if (m := SKIPPED.match(line))][:skipped]
    return passed, failures, names + ["a check that the log does not name"] * (skipped - len(names))


def main(arguments):
    log = pathlib.Path(arguments[0])
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    code = int(arguments[1])
    if len(arguments) > 2:
        passed, failures, skipped = count_gtest(lines, code, arguments[2])
    else:
        passed, failures, skipped = count_script(lines, code)
    print(passed, len(failures), len(skipped))
    for failure in failures:
        print("failed:", failure)
    for name in skipped:
        print("skipped:", name)


if __name__ == "__main__":
    main(sys.argv[1:])
