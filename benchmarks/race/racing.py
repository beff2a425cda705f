"""One case of the race: check the results, then blocks by turns: ours, PyTorch's, ours, PyTorch's, ..."""
import contextlib
import math
import pathlib
import statistics
import tempfile
import time

from race import nets
from race.workers import start_ours

# A block is as many iterations as fill this time, but at least one; the first of a block of several is not counted, for
# its memory is not in the caches yet.
BLOCK_SECONDS = 0.3
MOST_ITERATIONS = 500
# A layout of PyTorch's that is this much slower than the other after so many blocks is out of the race.
DROP_AFTER, DROP_RATIO = 2, 1.3
SGEMM_SIDE = 2048
PLAIN = {"CARAFE_ALGORITHM": "gemm"}  # the reference kernels: im2col and matrix products
# The two sides add in different orders, and a ReLU or a maximum near a tie then lets a gradient through elsewhere: deep
# nets differ by 1e-2 in the first layers' gradients (so does PyTorch from itself in double). A wrong kernel gives 1.
LIMITS = {"loss": 1e-4, "scores": 1e-3, "gradients": 5e-2}


class WrongResult(Exception):
    """Ours and the peer's results differ."""


class Sides:
    """Starts the processes of both sides. peer is None where only our own times are wanted."""

    def __init__(self, program, peer, folder, log, environment=None):
        self.program, self.peer, self.folder, self.log, self.environment = program, peer, folder, log, environment

    def ours(self, case, dropout=True, environment=None, more=()):
        path = nets.write(self.folder / "nets", case.net, case.mode, case.batch, dropout)
        flag = "model" if case.mode == "deploy" else "solver"
        return start_ours(self.program, [f"--{flag}={path}", f"--threads={case.threads}",
                                         f"--classes={nets.classes(case.net)}", *more], self.log,
                          {**(self.environment or {}), **(environment or {})})

    def theirs(self, case, layout, dropout=True):
        return self.peer.start(net=case.net, mode=case.mode, batch=case.batch, threads=case.threads, layout=layout,
                               dropout=dropout)

    def sgemm(self, threads):
        """GFLOP/s of each of a few products of square matrices."""
        with start_ours(self.program, [f"--threads={threads}"], self.log) as worker:
            answer = worker.ask(f"gemm {SGEMM_SIDE}")
        return [answer["flop"] / seconds / 1e9 for seconds in answer["seconds"]]


def check(sides, case):
    """Runs once from the same inputs and parameters: our side with its plain kernels, as it is timed, and PyTorch.
    Returns {with whom: errors}; raises WrongResult if they part."""
    found = {}
    with tempfile.TemporaryDirectory(dir=sides.folder) as folder:
        start, plain, result = (pathlib.Path(folder) / name for name in ("start", "plain", "result"))
        with sides.ours(case, dropout=False, environment=PLAIN) as worker:
            worker.ask(f"result {plain}")
        with sides.ours(case, dropout=False) as worker:
            worker.ask(f"save {start}")
            worker.ask(f"result {result}")
            found["plain"] = verdict(case, "the plain kernels'", worker.ask(f"compare {result} {plain}"))
        if sides.peer:
            with sides.theirs(case, "nchw", dropout=False) as worker:
                found["peer"] = verdict(case, "PyTorch's", worker.ask(f"compare {start} {result}"))
    return found


def verdict(case, whose, errors):
    for name, limit in LIMITS.items():
        error = errors.get(name, 0.0)
        if error is None or not error <= limit:  # None: JSON has no NaN
            where = f" of {errors['worst']}" if name == "gradients" else ""
            raise WrongResult(f"{case.title}: our {name}{where} and {whose} differ by {error}, more than {limit:g}")
    return errors


class Runner:
    """One worker in the race and the times of its blocks, in milliseconds per iteration."""

    def __init__(self, worker):
        self.worker, self.blocks = worker, []
        first = worker.run(1)[0]  # takes memory, plans
        self.estimate = first if first > 1 else min(worker.run(2))
        self.iterations = max(1, min(MOST_ITERATIONS, math.ceil(BLOCK_SECONDS / self.estimate)))
        worker.forget_peak()

    def block(self):
        if self.iterations == 1:
            seconds = self.worker.run(1)
        else:
            seconds = self.worker.run(self.iterations + 1)[1:]
        self.blocks.append(statistics.mean(seconds) * 1000)

    def summary(self):
        return {"best_ms": min(self.blocks), "median_ms": statistics.median(self.blocks), "blocks_ms": self.blocks,
                "iterations": self.iterations, "peak_mib": self.worker.peak_mib()}


def drop_slow(runners, dropped):
    """Takes a layout that has no chance out of the race."""
    quickest = min(min(runner.blocks) for runner in runners.values())
    for layout in [name for name, runner in runners.items() if min(runner.blocks) > DROP_RATIO * quickest]:
        dropped[layout] = runners.pop(layout)


def race(sides, case, blocks, progress=lambda text: None):
    """Times the case; returns its entry in the results."""
    entry = {"net": case.net, "mode": case.mode, "batch": case.batch, "threads": case.threads}
    progress("checking")
    entry["check"] = check(sides, case)
    sgemm = sides.sgemm(case.threads)
    with contextlib.ExitStack() as stack:
        progress("starting")
        worker = stack.enter_context(sides.ours(case))
        entry.update(worker.ask("info"))
        ours = Runner(worker)
        theirs, dropped = {}, {}
        for layout in case.layouts if sides.peer else ():
            theirs[layout] = Runner(stack.enter_context(sides.theirs(case, layout)))
        for number in range(blocks):
            progress(f"block {number + 1} of {blocks}")
            for runner in [ours, *theirs.values()]:
                runner.block()
                time.sleep(0.02)  # threads that wait for more work spin for a while
            if number + 1 == DROP_AFTER and len(theirs) > 1:
                drop_slow(theirs, dropped)
        entry["ours"] = ours.summary()
        if sides.peer:
            entry["peer"] = {name: runner.summary() for name, runner in {**theirs, **dropped}.items()}
    entry["sgemm"] = sgemm + sides.sgemm(case.threads)
    return entry
