#!/usr/bin/env python3
"""Runs a GoogleTest program in several processes at once, each with a part of its tests, and counts all of them.

usage: unit_shards.py PROGRAM FILTER FOLDER [JOBS]

FOLDER gets a log and a report of each part. There are more parts than JOBS (default: the cores), so that the processes end
at about the same time. The last line is "N passed, N failed[, N skipped]"; lines before it name what failed and what was
skipped, with the end of the log of each part that failed. The exit code is 1 where anything failed.
"""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import count_tests  # noqa: E402

PARTS_PER_JOB = 6
TAIL = 25  # lines


def run_part(program, pattern, folder, part, parts):
    """(passed, failures, skipped, log) of every `parts`-th test."""
    log, report = folder / f"{part}.log", folder / f"{part}.xml"
    environment = dict(os.environ, GTEST_TOTAL_SHARDS=str(parts), GTEST_SHARD_INDEX=str(part))
    with open(log, "w", encoding="utf-8") as out:
        try:
            code = subprocess.run([program, f"--gtest_filter={pattern}", f"--gtest_output=xml:{report}"], stdout=out,
                                  stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment).returncode
        except OSError as error:
            print(error, file=out)
            code = 127
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    passed, failures, skipped = count_tests.count_gtest(lines, code, report)
    if failures == [count_tests.NO_TEST]:  # fewer tests than parts
        failures = []
    return passed, failures, skipped, log


def main(arguments):
    program, pattern, folder = arguments[0], arguments[1], pathlib.Path(arguments[2])
    jobs = int(arguments[3]) if len(arguments) > 3 else len(os.sched_getaffinity(0))
    parts = jobs * PARTS_PER_JOB if jobs > 1 else 1
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda part: run_part(program, pattern, folder, part, parts), range(parts)))
    for _, failures, _, log in results:
        if failures:
            print(f"the end of {log}:")
            print("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:]))
    passed = sum(result[0] for result in results)
    failures = [name for result in results for name in result[1]]
    skipped = [name for result in results for name in result[2]]
    if passed == 0 and not failures and not skipped:
        failures = [count_tests.NO_TEST]
    for name in failures:
        print("FAILED", name)
    for name in skipped:
        print("SKIPPED", name)
    print(f"{passed} passed, {len(failures)} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
