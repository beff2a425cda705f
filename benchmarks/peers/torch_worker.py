#!/usr/bin/env python3
"""PyTorch's side of the race: imports torch once, then forks one long-lived process per subject.

usage: torch_worker.py SOCKET

Reads one JSON object per line, the arguments of a Subject; each starts a process that connects to the Unix socket
SOCKET and answers the commands of benchmarks/ours/main.cpp: `run N`, and `compare START RESULT`. The first line on the
standard output tells the versions. Ends with its input.
"""
import json
import os
import signal
import socket
import sys

import torch

import torch_subject


def answer(subject, line):
    words = line.split()
    if words[0] == "run":
        return {"seconds": subject.run(int(words[1]))}
    if words[0] == "compare":
        return subject.compare(words[1], words[2])
    raise ValueError(f"unknown command {line!r}")


def serve(path, arguments):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        stream = connection.makefile("rw", encoding="utf-8")

        def reply(value):
            stream.write(json.dumps(value) + "\n")
            stream.flush()

        try:
            subject = torch_subject.Subject(**arguments)
            reply({"pid": os.getpid()})
        except Exception as error:  # whatever it is, the other side must hear of it
            reply({"error": repr(error)})
            return
        for line in stream:
            try:
                reply(answer(subject, line))
            except Exception as error:
                reply({"error": repr(error)})


def warm_up():
    """What torch imports at an optimizer's first step, once for all children. No gradient is computed and no loop is
    long enough to be shared out, so there are no threads yet, which would not survive the fork."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    torch.optim.SGD([parameter], lr=0.1, momentum=0.9, fused=True).step()


def main():
    path = sys.argv[1]
    warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    print(json.dumps({"torch": torch.__version__, "onednn": torch.backends.mkldnn.is_available(),
                      "mkl": torch.backends.mkl.is_available()}), flush=True)
    for line in sys.stdin:
        if os.fork() == 0:
            sys.stdin.close()
            try:
                serve(path, json.loads(line))
            finally:
                os._exit(0)


if __name__ == "__main__":
    main()
