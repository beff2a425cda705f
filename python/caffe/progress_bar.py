"""A progress bar for training loops: HTML in a notebook, one line in a terminal, nothing where neither is there."""

from __future__ import annotations

import html
import sys
import time
from typing import Any, Callable, Iterator, Optional, TextIO

from ._caffe import Solver, rank

__all__ = ["progress"]

_REDRAW = 0.1  # seconds


def progress(solver: Solver, iterations: Optional[int] = None, file: Optional[TextIO] = None) -> Iterator[int]:
    """Steps a solver, and shows how far it is: yields the iteration after each step.

        for iteration in caffe.progress(solver, 1000):
            if iteration % 100 == 0:
                print(accuracy(solver.test_nets[0]))

    iterations: how many; None for all that are left until max_iter. file: where a terminal's line goes (default: stderr).
    Under mpirun rank 0 alone shows it.
    """
    if iterations is None:
        iterations = max(0, solver.param.max_iter - solver.iter)
    show, close = _display(file or sys.stderr)
    begin = last = time.monotonic()
    try:
        for done in range(1, iterations + 1):
            solver.step(1)
            now = time.monotonic()
            if now - last >= _REDRAW or done == iterations:
                last = now
                show(done / iterations, describe(done, iterations, now - begin, losses(solver.net)))
            yield solver.iter
    finally:
        close()


def losses(net: Any) -> list[tuple[str, float]]:
    """The outputs of a net that are one number each."""
    return [(name, float(net.blobs[name].data.flat[0])) for name in net.outputs if net.blobs[name].count == 1]


def describe(done: int, iterations: int, seconds: float, numbers: list[tuple[str, float]]) -> str:
    """One line about a run.

    >>> describe(50, 200, 5.0, [("loss", 0.25)])
    '50/200, loss 0.25, 10 it/s, 15 s left'
    >>> describe(200, 200, 3700.0, [])
    '200/200, 0.0541 it/s, took 1:01:40'
    """
    rate = done / max(seconds, 1e-9)
    parts = ["%d/%d" % (done, iterations)] + ["%s %.4g" % pair for pair in numbers] + ["%.3g it/s" % rate]
    parts.append("%s left" % _clock((iterations - done) / rate) if done < iterations else "took %s" % _clock(seconds))
    return ", ".join(parts)


def _clock(seconds: float) -> str:
    if seconds < 100:
        return "%.0f s" % seconds
    minutes, rest = divmod(int(seconds), 60)
    return "%d:%02d:%02d" % (minutes // 60, minutes % 60, rest) if minutes >= 60 else "%d:%02d" % (minutes, rest)


def _display(file: TextIO) -> tuple[Callable[[float, str], None], Callable[[], None]]:
    """(show(part, text), close()) for the place where this runs."""
    if rank() != 0:
        return lambda part, text: None, lambda: None
    if _in_notebook():
        return _notebook_display(), lambda: None
    if getattr(file, "isatty", lambda: False)():
        return _terminal_display(file), lambda: print(file=file)
    return lambda part, text: None, lambda: None


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _notebook_display() -> Callable[[float, str], None]:
    from IPython.display import HTML, display
    handles = []

    def show(part: float, text: str) -> None:
        bar = HTML('<div><progress max="1" value="%.4f" style="width:20em"></progress> %s</div>' % (part, html.escape(text)))
        if handles:
            handles[0].update(bar)
        else:
            handles.append(display(bar, display_id=True))

    return show


def _terminal_display(file: TextIO) -> Callable[[float, str], None]:

    def show(part: float, text: str) -> None:
        full = round(20 * part)
        file.write("\r\033[K[%s%s] %s" % ("#" * full, "." * (20 - full), text))  # \033[K: what is right of it goes
        file.flush()

    return show
