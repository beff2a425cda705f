#!/usr/bin/env python3
"""Tables out of a training log: OUTDIR/LOG.train and OUTDIR/LOG.test, as Caffe's tool of this name writes them.

Columns: NumIters, Seconds (since the line "Solving"), LearningRate, then the net's outputs. LOG.test is the first test
net; further ones go to LOG.test1, LOG.test2, ... Values that are nan or inf are kept. A cell is empty where the log says
nothing.
"""
import argparse
import csv
import os
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import training_log  # noqa: E402


def write_table(path, rows, delimiter, verbose):
    values = [row.values() for row in rows]
    names = list(dict.fromkeys(name for each in values for name in each))
    temporary = path.with_name(f"{path.name}.tmp.{os.getpid()}")
    try:
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
            writer.writerow(["NumIters", "Seconds", "LearningRate", *names])
            for row, each in zip(rows, values):
                rate = "" if row.rate is None else row.rate
                writer.writerow([row.iteration, row.seconds, rate, *[each.get(name, "") for name in names]])
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if verbose:
        print(f"wrote {path}: {len(rows)} rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logfile_path", metavar="LOG")
    parser.add_argument("output_dir", metavar="OUTDIR")
    parser.add_argument("--delimiter", default=",", help="between columns; default: a comma")
    parser.add_argument("--verbose", action="store_true", help="say what is written")
    arguments = parser.parse_args()
    if len(arguments.delimiter) != 1:
        parser.error("--delimiter is one character")
    try:
        log = training_log.load(arguments.logfile_path)
        out = pathlib.Path(arguments.output_dir)
        name = pathlib.Path(arguments.logfile_path).name
        write_table(out / f"{name}.train", [row for row in log.train if row.outputs], arguments.delimiter,
                    arguments.verbose)
        write_table(out / f"{name}.test", log.tests.get(0, []), arguments.delimiter, arguments.verbose)
        for net, rows in sorted(log.tests.items()):
            if net > 0:
                write_table(out / f"{name}.test{net}", rows, arguments.delimiter, arguments.verbose)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
