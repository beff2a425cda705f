#!/usr/bin/env python3
"""No blocking call of MPI after start-up: MPICH takes 12 ms for one on shared cores, and the thread that makes it
answers nobody meanwhile.

Reads every C++ file of carafe/. What MPI's own names are called in, function by function, must be in the lists here:
calls that return at once anywhere, the others in the functions that start and end MPI only. A call that is in no list
is a complaint, so that whoever adds one decides where it belongs.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Return at once, whatever the other ranks do.
ANYWHERE = {"Isend", "Irecv", "Testsome", "Get_count", "Error_string", "Abort"}
# By function: before the first message and after the last one.
ONLY_IN = {
    "Start": {
        "Initialized", "Finalized", "Query_thread", "Init_thread", "Comm_set_errhandler", "Comm_dup", "Comm_rank",
        "Comm_size", "Comm_get_attr", "Get_processor_name",
    },
    "Finish": {"Comm_free", "Finalize"},
}  # fmt: skip

FUNCTION = re.compile(r"^[A-Za-z][\w:<>*& ]*?\b(\w+)\(")  # begins in the first column, as clang-format writes it
CALL = re.compile(r"\bP?MPIX?_([A-Z]\w*)\s*\(")


def without_comments(text):
    """The same lines, with comments and the content of strings blanked."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.DOTALL)


def complaints(path, text):
    """One line for each call that is not allowed where it is."""
    found = []
    function = ""
    for number, line in enumerate(without_comments(text).splitlines(), 1):
        begins = FUNCTION.match(line)
        if begins:
            function = begins.group(1)
        for call in CALL.findall(line):
            if call not in ANYWHERE and call not in ONLY_IN.get(function, ()):
                found.append(f"{path}:{number}: MPI_{call} in {function or 'no function'}: it may block, "
                             "or nobody has said that it does not (tests/scripts/mpi_calls_test.py)")
    return found


# name, text, the call of the complaint (None: allowed)
CASES = [
    ("a send that returns at once", "int32_t Send(int to) {\n  return MPI_Isend(to);\n}\n", None),
    ("start-up", "int32_t Start(int* a,\n              int b) {\n  if (b) MPI_Comm_dup(a);\n}\n", None),
    ("the end", "int32_t Finish() {\n  return MPI_Finalize();\n}\n", None),
    ("a comment", "int32_t Send(int to) {\n  // MPI_Wait(x) would block.\n}\n", None),
    ("a text", 'int32_t Send(int to) {\n  Say("MPI_Wait(x)");\n}\n', None),
    ("a barrier in a send", "int32_t Send(int to) {\n  MPI_Barrier(to);\n}\n", "MPI_Barrier in Send"),
    ("a wait", "int32_t Work() {\n  const int e =\n      MPI_Waitall(1, 2);\n}\n", "MPI_Waitall in Work"),
    ("a blocking send", "int32_t Send(int to) {\n  MPI_Send (to);\n}\n", "MPI_Send in Send"),
    ("a call of start-up later", "int32_t Test(int to) {\n  MPI_Comm_dup(to);\n}\n", "MPI_Comm_dup in Test"),
    ("a barrier in start-up", "int32_t Start() {\n  MPI_Barrier(1);\n}\n", "MPI_Barrier in Start"),
    ("after start-up", "int32_t Start() {\n}\n\nbool Leave() {\n  MPI_Comm_free(1);\n}\n", "MPI_Comm_free in Leave"),
    ("by its other name", "int32_t Send() {\n  PMPI_Recv(1);\n}\n", "MPI_Recv in Send"),
]  # fmt: skip


def main():
    passed = failed = 0
    for name, text, expected in CASES:
        found = complaints("x.cpp", text)
        if (found == []) if expected is None else (len(found) == 1 and expected in found[0]):
            passed += 1
        else:
            failed += 1
            print(f"FAILED {name}: {found}")
    calls = 0
    found = []
    for file in sorted((ROOT / "carafe").rglob("*")):
        if file.suffix in {".h", ".cpp", ".cu", ".cuh"}:
            text = file.read_text(encoding="utf-8")
            calls += len(CALL.findall(without_comments(text)))
            found += complaints(file.relative_to(ROOT).as_posix(), text)
    if calls == 0:
        found.append("no call of MPI was found: carafe/comm/mpi_plugin.cpp is not read as it should")
    for line in found:
        print(line)
    passed, failed = (passed, failed + 1) if found else (passed + 1, failed)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
