"""Reads the log of a training run, Carafe's or the original Caffe's, into rows of numbers."""
import collections
import datetime
import os
import re

# Severity, date (with a year in newer glogs), time, thread, file:line]; mpirun may have put a tag before it.
PREFIX = re.compile(r"[IWEF](\d{8}|\d{4}) (\d\d):(\d\d):(\d\d)\.(\d+) +\d+ [^\s:]+:\d+\] (.*)")
NUMBER = r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf))"
ITERATION = re.compile(r"Iteration (\d+)")
SMOOTHED = re.compile(rf"Iteration \d+.*, loss = {NUMBER}", re.I)
TESTING = re.compile(r"Iteration \d+, Testing net \(#(\d+)\)")
OUTPUT = re.compile(rf"\s*(Train|Test) net output #\d+: (\S+) = {NUMBER}(.*)", re.I)
RATE = re.compile(rf"Iteration \d+, lr = {NUMBER}", re.I)


class Row:
    """What one display or one test showed: values by output name, in the order of the log."""

    def __init__(self, iteration, seconds):
        self.iteration = iteration
        self.seconds = seconds
        self.rate = None
        self.loss = None  # the smoothed one of the line "Iteration N (...), loss = "
        self.outputs = []  # (blob, value)

    def values(self):
        """{name: value}; the elements of a blob that has several are name[0], name[1], ..."""
        times = collections.Counter(blob for blob, _ in self.outputs)
        seen = {}
        result = {}
        for blob, value in self.outputs:
            index = seen.get(blob, 0)
            seen[blob] = index + 1
            result[blob if times[blob] == 1 else f"{blob}[{index}]"] = value
        return result


class TrainingLog:
    def __init__(self):
        self.train = []  # rows of displays
        self.tests = {}  # number of the test net: rows
        self.losses = set()  # names of outputs that weigh in the loss


class _Clock:
    """Seconds since the start; the year is the file's where the log has none, and goes on at New Year."""

    def __init__(self, year):
        self.year = year
        self.last = None
        self.start = None

    def read(self, date, hour, minute, second, fraction):
        year = int(date[:4]) if len(date) == 8 else self.year
        month, day = int(date[-4:-2]), int(date[-2:])
        try:
            now = datetime.datetime(year, month, day, int(hour), int(minute), int(second), int(fraction[:6].ljust(6, "0")))
        except ValueError:  # 29 February of a year that has none, or no date at all
            return self.last
        if len(date) == 4 and self.last is not None and (self.last - now).days > 180:
            self.year += 1
            now = now.replace(year=self.year)
        self.last = now
        return now


def parse(lines, year):
    """The TrainingLog of these lines; `year` is that of dates without one."""
    log = TrainingLog()
    clock = _Clock(year)
    iteration = None
    row = {}  # "train", or the number of a test net: its newest row
    net = 0
    rate = None

    def current(key, rows, now):
        if key not in row or row[key].iteration != iteration:
            row[key] = Row(iteration, (now - clock.start).total_seconds() if now and clock.start else 0.0)
            rows.append(row[key])
        return row[key]

    for line in lines:
        found = PREFIX.search(line)
        if not found:
            continue
        now = clock.read(*found.groups()[:5])
        message = found.group(6)
        if clock.start is None or (message.startswith("Solving") and not log.train and not log.tests):
            clock.start = now
        found = ITERATION.match(message)
        if found:
            iteration = int(found.group(1))
        if iteration is None:
            continue
        testing = TESTING.match(message)
        if testing:
            net = int(testing.group(1))
            continue
        found = SMOOTHED.match(message)
        if found:
            current("train", log.train, now).loss = float(found.group(1))
            continue
        found = RATE.match(message)
        if found:
            rate = float(found.group(1))
            if "train" in row and row["train"].iteration == iteration:
                row["train"].rate = rate
            continue
        found = OUTPUT.match(message)
        if found:
            kind, blob, value, rest = found.groups()
            training = kind.lower() == "train"
            target = current("train", log.train, now) if training else \
                current(net, log.tests.setdefault(net, []), now)
            if not training and target.rate is None:
                target.rate = rate
            target.outputs.append((blob, float(value)))
            if "loss)" in rest:
                log.losses.add(blob)
    _settle_rates(log)
    return log


def _settle_rates(log):
    """A test comes before the display of the same iteration: it takes that one's rate, or the last one before."""
    rates = {row.iteration: row.rate for row in log.train if row.rate is not None}
    for rows in [log.train, *log.tests.values()]:
        rate = None
        for row in rows:
            if not row.outputs:  # the last line of a run, which shows the loss alone
                continue
            row.rate = rate = rates.get(row.iteration, row.rate if row.rate is not None else rate)


def load(path):
    """The TrainingLog of a file; ValueError if it holds no training."""
    year = datetime.datetime.fromtimestamp(os.path.getmtime(path)).year
    with open(path, encoding="utf-8", errors="replace") as file:
        log = parse(file, year)
    if not log.train and not log.tests:
        raise ValueError(f"{path}: no line of it is of a training run")
    return log
