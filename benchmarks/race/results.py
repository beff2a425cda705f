"""Results of a race: the file, what follows from it, and the comparison of two."""
import datetime
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess

FORMAT = 1
ROOT = pathlib.Path(__file__).resolve().parents[2]


class BadResults(Exception):
    """A file that is no result of a race."""


def machine():
    """What the times depend on; no names of hosts or people."""
    cpu, memory = platform.machine(), None
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
        for line in pathlib.Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("MemTotal"):
                memory = round(int(line.split()[1]) / 1048576, 1)
    except OSError:
        pass
    return {"cpu": cpu, "cores": os.cpu_count(), "memory_gib": memory, "kernel": platform.release()}


def commit():
    """(short hash, whether files differ from it); "" outside of a clone."""
    def git(*arguments):
        return subprocess.run(["git", "-c", "safe.directory=*", *arguments], cwd=ROOT, capture_output=True, text=True,
                              check=True).stdout.strip()
    try:
        return git("rev-parse", "--short=10", "HEAD"), bool(git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return "", False


def new(settings, versions):
    name, dirty = commit()
    return {"format": FORMAT, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "commit": name, "changed": dirty, "machine": machine(), "versions": versions, "settings": settings,
            "cases": []}


def default_path(results, folder):
    stamp = results["date"][:16].replace("T", "-").replace(":", "")
    return folder / f"{stamp}-{results['commit'] or 'nogit'}.json"


def write(results, path):
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    os.replace(part, path)


def read(path):
    try:
        results = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadResults(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise BadResults(f"{path}: not JSON ({error})") from error
    if not isinstance(results, dict) or results.get("format") != FORMAT or not isinstance(results.get("cases"), list):
        raise BadResults(f"{path}: not the result of benchmarks/run, or of another version (format {FORMAT} is known)")
    return results


def key(case):
    return case["mode"], case["net"], case["batch"], case["threads"]


def best_peer(case):
    """(layout, times) of PyTorch's quicker layout by its median; (None, None) if it did not run."""
    peers = case.get("peer") or {}
    if not peers:
        return None, None
    layout = min(peers, key=lambda name: peers[name]["median_ms"])
    return layout, peers[layout]


def ratio(case, which="median_ms"):
    """How many times as fast as PyTorch; None if it did not run. The best of both layouts' bests, likewise medians."""
    peers = case.get("peer") or {}
    return min(times[which] for times in peers.values()) / case["ours"][which] if peers else None


def peaks(results):
    """Threads -> the best sgemm of the whole run, GFLOP/s."""
    best = {}
    for case in results["cases"]:
        best[case["threads"]] = max(best.get(case["threads"], 0), *case["sgemm"])
    return best


def gflops(case):
    return case["flop"] / case["ours"]["median_ms"] / 1e6


def quiet(case, peak):
    """sgemm around this case against the best of the run: below 0.85 or so something else used the machine."""
    return statistics.median(case["sgemm"]) / peak


def geometric_mean(values):
    values = [value for value in values if value]
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else None


def groups(results):
    """(title, cases) of what belongs in one mean: mode, batch if it is the same for all, threads."""
    found = {}
    for case in results["cases"]:
        name = "training step" if case["mode"] == "train" else f"deploy, batch {case['batch']}"
        found.setdefault((case["mode"] != "train", case["batch"] if case["mode"] != "train" else 0, case["threads"]),
                         (f"{name}, {case['threads']} thread{'s' if case['threads'] > 1 else ''}", []))[1].append(case)
    return [found[order] for order in sorted(found)]


def changes(old, new_results):
    """Cases of both runs: (old, new, change). The change is our time's, with that of the yardstick taken out, for
    machines differ from hour to hour: PyTorch's time where both runs have it, else the sgemm around the case. 1.1
    means 10% slower."""
    before = {key(case): case for case in old["cases"]}
    for case in new_results["cases"]:
        if key(case) not in before:
            continue
        was = before[key(case)]
        ours = case["ours"]["median_ms"] / was["ours"]["median_ms"]
        if ratio(case) and ratio(was):
            yardstick = best_peer(case)[1]["median_ms"] / best_peer(was)[1]["median_ms"]
        else:
            yardstick = statistics.median(was["sgemm"]) / statistics.median(case["sgemm"])
        yield was, case, ours / yardstick
