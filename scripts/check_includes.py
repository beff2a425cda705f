#!/usr/bin/env python3
"""Checks that #include lines follow the arrows between folders.

usage: check_includes.py [ROOT]

Reads carafe/, tools/ and python/ and prints one line for each include that no arrow allows; exits with 1 if there is
one. The arrows are those of docs/architecture.md: a folder may include what its arrows reach, directly or through
others, with the exceptions named in ONLY and EXTERNAL.
"""

import pathlib
import re
import sys

ARROWS = {
    "base": [],
    "core": ["base"],
    "proto": ["base"],
    "kernels": ["core"],
    "comm": ["core"],
    "exchange": ["comm", "kernels"],
    "data": ["core", "proto"],
    "layers": ["kernels", "data"],
    "net": ["layers"],
    "solvers": ["net", "exchange"],
    "train": ["solvers", "exchange"],
    "tools": ["train"],
    "python": ["train"],
}

# An arrow that sees these headers only, and nothing behind them.
ONLY = {("solvers", "exchange"): ("carafe/exchange/layer_plan.h", "carafe/exchange/staged_exchange.h",
                                  "carafe/exchange/exchange.h")}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def reachable(folder, is_test=False):
    """The folders that `folder` may include: itself and all behind its arrows. A test also sees what is behind ONLY."""
    seen = {folder}
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        for there in ARROWS[here]:
            if there not in seen:
                seen.add(there)
                if is_test or (here, there) not in ONLY:
                    waiting.append(there)
    return seen


# Headers of others that belong to few folders: pattern, folders, reason.
EXTERNAL = [
    (r"mpi\.h$", {"comm"}, "only comm/ calls MPI"),
    (r"carafe\.pb\.h$", {"proto"}, "messages come from carafe/proto/messages.h"),
    (r"google/protobuf/", {f for f in ARROWS if "proto" in reachable(f)}, "no arrow leads to proto/"),
    (r"cblas\.h$|cublas|cudnn|dnnl\.hpp?$", {"kernels"}, "BLAS, cuDNN and oneDNN are functions of kernels/"),
    (r"cuda_runtime", {"core", "kernels", "comm"}, "devices are a matter of core/"),
    (r"lmdb\.h$|^hdf5\.h$", {"data"}, "databases and HDF5 are a matter of data/"),
]


def folder_of(path):
    """'carafe/layers/relu.cpp' -> 'layers', 'tools/train.cpp' -> 'tools'; None for what has no folder of ours."""
    parts = path.split("/")
    name = parts[1] if parts[0] == "carafe" and len(parts) > 2 else parts[0]
    return name if name in ARROWS else None


def complaint(path, quote, included):
    """What is wrong with this include in this file, or None."""
    folder = folder_of(path)
    if folder is None:
        return "this folder has no arrows; draw them in scripts/check_includes.py and docs/architecture.md"
    for pattern, folders, reason in EXTERNAL:
        if re.search(pattern, included) and folder not in folders:
            return f"{folder}/ may not include {included}: {reason}"
    if quote == "<" or included in ("carafe.pb.h", "fork_messages.pb.h", "training_state.pb.h"):
        return None
    is_test = path.endswith("_test.cpp")
    if included.startswith("tests/support/"):
        return None if is_test else f"only tests may include {included}"
    target = folder_of(included)
    if target is None:
        return f'"{included}" is no path from the top folder, such as "carafe/core/blob.h"'
    if target not in reachable(folder, is_test):
        return f"{folder}/ may not include {target}/ ({included}): no arrow leads there"
    only = ONLY.get((folder, target))
    if only and included not in only and not is_test:
        return f"{folder}/ may include {' and '.join(only)} only, not {included}"
    return None


def check(root):
    """All complaints of the tree under root, as 'file:line: text'."""
    complaints = []
    for top in ("carafe", "tools", "python"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
                continue
            path = file.relative_to(root).as_posix()
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                text = complaint(path, *match.groups()) if match else None
                if text:
                    complaints.append(f"{path}:{number}: {text}")
    return complaints


def main(arguments):
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent
    complaints = check(root)
    for line in complaints:
        print(line)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
