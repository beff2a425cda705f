#!/usr/bin/env python3
"""Removes each wait, copy, fill, event and choice of device of the GPU's code in turn; lists what no test notices.

usage: scripts/mutate_gpu.py [--list]

Needs the built preset vgpu. Nothing is compiled: the call sites are read from libcarafe.so with objdump, and the virtual GPU
ignores one of them in each run of vgpu_test and, if that passes, of tests/vgpu/train.py and many_gpus.py (tests/vgpu/ignore.h). Exits with 1
if a mutant survives. Not part of CI: about 10 s for each mutant.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build-vgpu"
FUNCTIONS = ("cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize", "cudaMemcpyAsync", "cudaMemsetAsync",
             "cudaEventRecord", "cudaSetDevice", "cudaGetLastError")
LABEL = re.compile(r"^[0-9a-f]+ <(.*)>:$")
CALL = re.compile(r"^\s*[0-9a-f]+:\s+(call|jmp)\s+[0-9a-f]+ <(\w+)@plt>")
ADDRESS = re.compile(r"^\s*([0-9a-f]+):")


def call_sites():
    """(function, caller, return address, kind) of each call."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "-C", BUILD / "lib/libcarafe.so"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    caller, pending = "", None
    for line in text.splitlines():
        label = LABEL.match(line)
        if label:
            caller = label[1].replace("(anonymous namespace)::", "").split("(")[0]
            continue
        address = ADDRESS.match(line)
        if pending and address:
            yield *pending, address[1]
            pending = None
        call = CALL.match(line)
        if call and call[2] in FUNCTIONS:
            if call[1] == "jmp":
                print(f"not tried: a tail call of {call[2]} in {caller}")
            else:
                pending = call[2], caller


def noticed_by(address):
    """Which test notices that the call is gone; '' if none does."""
    env = {**os.environ, "CARAFE_VGPU_IGNORE": address}
    for name, command in (("vgpu_test", [BUILD / "tests/vgpu_test"]), ("train.py", [ROOT / "tests/vgpu/train.py"]),
                          ("many_gpus.py", [ROOT / "tests/vgpu/many_gpus.py"])):
        try:
            code = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  timeout=200, check=False).returncode
        except subprocess.TimeoutExpired:
            return f"{name}: does not end"
        if code != 0:
            return name
    return ""


def main():
    sites = list(call_sites())
    survivors = []
    for function, caller, address in sites:
        noticed = "" if sys.argv[1:] == ["--list"] else noticed_by(address) or "NOBODY"
        print(f"{function} in {caller} ({address}): {noticed}", flush=True)
        if noticed == "NOBODY":
            survivors.append(f"{function} in {caller}")
    print(f"{len(sites)} mutants, {len(survivors)} survivors", *survivors, sep="\n  ")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
