#!/usr/bin/env python3
"""The check of include arrows finds a wrong include and leaves right ones alone."""

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# name, file, its include line, a part of the complaint (None: must be allowed)
CASES = [
    ("the next folder", "carafe/layers/x.cpp", '#include "carafe/kernels/math.h"', None),
    ("a folder further down", "tools/x.cpp", '#include "carafe/base/log.h"', None),
    ("the own folder", "carafe/comm/x.cpp", '#include "carafe/comm/y.h"', None),
    ("an exchange for GPUs", "carafe/solvers/x.cpp", '#include "carafe/exchange/staged_exchange.h"', None),
    ("the plan of the layers", "carafe/solvers/x.cpp", '#include "carafe/exchange/layer_plan.h"', None),
    ("the interface of exchange", "carafe/solvers/x.cpp", '#include "carafe/exchange/exchange.h"', None),
    ("test support in a test", "carafe/net/x_test.cpp", '#include "tests/support/layer_tester.h"', None),
    ("what exchange includes, in a test", "carafe/solvers/x_test.cpp", '#include "carafe/comm/group.h"', None),
    ("an include in a comment", "carafe/base/x.cpp", '// #include "carafe/net/net.h"', None),
    ("a folder upwards", "carafe/base/x.h", '#include "carafe/net/net.h"', "base/ may not include net/"),
    ("a folder beside", "carafe/comm/x.cpp", '#include "carafe/proto/text.h"', "comm/ may not include proto/"),
    ("spaces in the line", "carafe/core/x.cpp", '  #  include "carafe/net/net.h"', "core/ may not include net/"),
    ("the library in tools", "carafe/train/x.cpp", '#include "tools/command.h"', "train/ may not include tools/"),
    ("another header of exchange", "carafe/solvers/x.cpp", '#include "carafe/exchange/engine.h"', "exchange.h only"),
    ("what exchange includes", "carafe/solvers/x.cpp", '#include "carafe/comm/group.h"', "may not include comm/"),
    ("test support in the library", "carafe/net/x.cpp", '#include "tests/support/t.h"', "only tests may include"),
    ("MPI outside comm", "carafe/train/x.cpp", "#include <mpi.h>", "only comm/ calls MPI"),
    ("protobuf in a kernel", "carafe/kernels/x.cpp", "#include <google/protobuf/message.h>", "proto/"),
    ("a relative path", "carafe/net/x.cpp", '#include "../net/net.h"', "no path from the top folder"),
    ("a folder without arrows", "carafe/extra/x.cpp", '#include "carafe/base/log.h"', "has no arrows"),
]


def run(file, line):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, file)
        path.parent.mkdir(parents=True)
        path.write_text("// A file.\n" + line + "\n", encoding="utf-8")
        command = [sys.executable, str(ROOT / "scripts/check_includes.py"), folder]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def main():
    failed = 0
    for name, file, line, expected in CASES:
        result = run(file, line)
        if expected is None:
            good = result.returncode == 0 and result.stdout == ""
        else:
            good = result.returncode == 1 and f"{file}:2:" in result.stdout and expected in result.stdout
        if not good:
            failed += 1
            print(f"FAILED {name}: exit {result.returncode}, printed: {result.stdout}{result.stderr}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
