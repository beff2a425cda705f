#!/usr/bin/env python3
"""Runs programs, as many at once as there are cores, each with its output in LOGS/NAME.log and its exit code in
LOGS/NAME.code. None may take longer than 20 minutes; the code is then 124.

usage: run_together.py LOGS PROGRAM...
"""

import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys

LIMIT = 1200  # seconds
running = set()


def run(logs, program):
    name = pathlib.Path(program).name
    with open(logs / f"{name}.log", "w", encoding="utf-8") as out:
        process = subprocess.Popen([os.path.abspath(program)], stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        running.add(process.pid)
        try:
            code = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = 124
        running.discard(process.pid)
    (logs / f"{name}.code").write_text(f"{code if code >= 0 else 128 - code}\n")


def stop(*_):
    for group in list(running):
        try:
            os.killpg(group, signal.SIGTERM)
        except ProcessLookupError:
            pass
    os._exit(143)


def main(arguments):
    logs, programs = pathlib.Path(arguments[0]), arguments[1:]
    logs.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, stop)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for future in [pool.submit(run, logs, program) for program in programs]:
            future.result()


if __name__ == "__main__":
    main(sys.argv[1:])
