"""Both sides of the race as processes that answer one line with one line of JSON, each answer with a deadline."""
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import tempfile


class WorkerError(Exception):
    """A side of the race failed or fell silent."""


class Lines:
    """Lines from a file descriptor, each awaited no longer than its deadline."""

    def __init__(self, fd, who):
        self.fd, self.who, self.rest = fd, who, b""

    def next(self, seconds):
        while b"\n" not in self.rest:
            if not select.select([self.fd], [], [], seconds)[0]:
                raise WorkerError(f"{self.who}: no answer within {seconds} s")
            read = os.read(self.fd, 1 << 16)
            if not read:
                raise WorkerError(f"{self.who}: ended")
            self.rest += read
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)


class Worker:
    """One process of either side. Deadlines are for hangs, not for slow machines."""

    def __init__(self, who, write, lines, pid, close):
        self.who, self._write, self._lines, self.pid, self._close = who, write, lines, pid, close

    def ask(self, command, seconds=600):
        try:
            self._write(command.encode() + b"\n")
        except OSError as error:
            raise WorkerError(f"{self.who}: ended ({error})") from error
        answer = self._lines.next(seconds)
        if "error" in answer:
            raise WorkerError(f"{self.who}: {answer['error']}")
        return answer

    def run(self, iterations):
        return self.ask(f"run {iterations}")["seconds"]

    def forget_peak(self):
        """From now on peak_mib() tells the most that is held from now on."""
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    def peak_mib(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        return None

    def close(self):
        self._close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def start_ours(program, arguments, log, environment=None):
    process = subprocess.Popen([str(program), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                               env={**os.environ, **(environment or {})})

    def write(line):
        process.stdin.write(line)
        process.stdin.flush()

    def close():
        for pipe in (process.stdin, process.stdout):
            try:
                pipe.close()
            except OSError:
                pass
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    return Worker("Carafe", write, Lines(process.stdout.fileno(), "Carafe"), process.pid, close)


class TorchPeer:
    """The process that has imported torch; start() forks a worker off it."""

    def __init__(self, python, script, log):
        self._folder = tempfile.TemporaryDirectory(prefix="carafe-race-")
        self._path = os.path.join(self._folder.name, "peer")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self._path)
        self._listener.listen()
        self._process = subprocess.Popen([str(python), str(script), self._path], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=log)
        try:
            self.versions = Lines(self._process.stdout.fileno(), "PyTorch").next(300)
        except WorkerError:
            self.close()
            raise

    def start(self, **arguments):
        self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
        self._process.stdin.flush()
        self._listener.settimeout(120)
        try:
            connection, _ = self._listener.accept()
        except TimeoutError as error:
            raise WorkerError("PyTorch: no process came") from error
        lines = Lines(connection.fileno(), "PyTorch")
        hello = lines.next(300)
        if "error" in hello:
            raise WorkerError(f"PyTorch: {hello['error']}")
        pid = hello["pid"]

        def close():
            try:
                connection.close()
                os.kill(pid, signal.SIGKILL)  # it has nothing to lose, and its memory is wanted now
            except ProcessLookupError:
                pass

        return Worker("PyTorch", connection.sendall, lines, pid, close)

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.close()
        self._folder.cleanup()
