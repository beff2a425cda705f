"""Gets both sides ready: our release build, and PyTorch in a virtual environment of its own."""
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TORCH = "2.15.0"  # one version, so that the runs of the history compare


class SetupError(Exception):
    """What could not be made ready, and how to put it right."""


def _jobs():
    return str(os.cpu_count() or 1)


def step(title, command, log, fix):
    """Runs a command with its output in a log; shows that it lives."""
    log.parent.mkdir(parents=True, exist_ok=True)
    start, shown = time.monotonic(), 0
    print(f"{title} ...", flush=True)
    with open(log, "wb") as file:
        try:
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        except OSError as error:
            raise SetupError(f"{title}: {error}\n  fix: {fix}") from error
        try:
            while process.poll() is None:
                time.sleep(0.1)
                if time.monotonic() - start > shown + 30:
                    shown += 30
                    print(f"  ... {shown} s {_last_line(log)}", flush=True)
        except BaseException:  # Ctrl-C: leave nothing running
            process.terminate()
            process.wait()
            raise
    if process.returncode != 0:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise SetupError(f"{tail}\n{title}: failed with code {process.returncode}, see {log}\n  fix: {fix}")
    print(f"  done in {time.monotonic() - start:.0f} s", flush=True)


def _last_line(log):
    """The end of what a log's last line holds now: ninja's position, pip's download."""
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - 400))
        lines = file.read().decode(errors="replace").replace("\r", "\n").strip().splitlines()
    return lines[-1].strip()[:90] if lines else ""


def build(folder):
    """Builds our side and the `carafe` program; returns the folder that has both."""
    logs = folder / "benchmarks"
    if not (folder / "build.ninja").exists():
        step("configuring the release build", ["cmake", "--preset", "release"], logs / "configure.log",
             "scripts/packages.sh build installs what is needed")
    step("building", ["ninja", "-C", str(folder), "-j", _jobs(), "carafe_bench", "carafe_program"], logs / "build.log",
         "the first error stands in the log")
    return folder / "tools"


def installed_torch(venv):
    """The version in the virtual environment, or None."""
    for path in venv.glob("lib/python*/site-packages/torch/version.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("__version__"):
                return line.split("=")[1].strip().strip("'\"").split("+")[0]
    return None


def torch(folder, version):
    """PyTorch's interpreter, after an installation if need be."""
    venv = folder / "venv-bench"
    python = venv / "bin" / "python"
    if installed_torch(venv) == version and python.exists():
        return python
    logs = folder / "benchmarks"
    print(f"PyTorch {version} comes from PyPI: about 3 GB to download, 6 GB on disk in {venv}; the wheel is linked to "
          "CUDA's libraries and does not start without them, though only the CPU is used.", flush=True)
    step("making a virtual environment", [sys.executable, "-m", "venv", str(venv)], logs / "venv.log",
         "install Python's venv (Debian: python3-venv)")
    step("installing PyTorch", [str(python), "-m", "pip", "install", "--no-compile", "--progress-bar=off",
                                f"torch=={version}"], logs / "pip.log",
         "is the network there, and is there such a version for this Python? --torch=VERSION takes another, "
         "--no-peer times our side alone")
    return python
