#!/usr/bin/env python3
"""The race's own code (nets, blocks by turns, JSON, tables, picture), with a stand-in for both sides: no PyTorch here."""
import copy
import importlib.machinery
import importlib.util
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "benchmarks"))
from exchange import tables  # noqa: E402
from race import cases, document, nets, plot, profile, racing, results, setup, table, workers  # noqa: E402

# Answers as either side does; each iteration "takes" the seconds that it is told to.
STAND_IN = '''#!/usr/bin/env python3
import json, pathlib, sys
seconds = float(sys.argv[1].split("=")[1])
journal = pathlib.Path(sys.argv[2].split("=")[1])
for line in sys.stdin:
    words = line.split()
    with journal.open("a") as file:
        file.write(sys.argv[3] + " " + line)
    if words[0] == "run":
        answer = {"seconds": [9 * seconds] + [seconds] * (int(words[1]) - 1) if int(words[1]) > 1 else [seconds]}
    elif words[0] == "info":
        answer = {"flop": 4e9, "parameters": 10}
    elif words[0] == "gemm":
        answer = {"flop": 1e9, "seconds": [0.01, 0.02]}
    elif words[0] == "compare":
        answer = {"loss": 1e-7, "gradients": 1e-6, "worst": "conv1/0"}
    elif words[0] == "fail":
        answer = {"error": "it broke"}
    elif words[0] == "end":
        sys.exit(0)
    elif words[0] == "hang":
        continue
    else:
        answer = {}
    print(json.dumps(answer), flush=True)
'''


class StandIns(racing.Sides):
    """Both sides as scripts. Times per iteration in seconds, by layout for the peer."""

    def __init__(self, folder, ours, theirs):
        self.script, self.journal = folder / "stand_in", folder / "journal"
        self.script.write_text(STAND_IN, encoding="utf-8")
        self.script.chmod(0o755)
        self.journal.write_text("", encoding="utf-8")
        super().__init__(self.script, theirs, folder, subprocess.DEVNULL)
        self.seconds = ours

    def start(self, who, seconds):
        return workers.start_ours(sys.executable, [str(self.script), f"--seconds={seconds}", f"--journal={self.journal}",
                                                   who], subprocess.DEVNULL)

    def ours(self, case, dropout=True, environment=None):
        return self.start("ours", self.seconds)

    def theirs(self, case, layout, dropout=True):
        return self.start(layout, self.peer[layout])

    def sgemm(self, threads):
        return [50.0 * threads, 40.0]

    def runs(self):
        """Who ran, in order, consecutive ones once."""
        lines = [line.split()[0] for line in self.journal.read_text(encoding="utf-8").splitlines() if " run " in line]
        return [who for i, who in enumerate(lines) if i == 0 or lines[i - 1] != who]


def sample(ours=2.0, nchw=5.0, nhwc=4.0, threads=(1, 2), sgemm=100.0):
    """Results as of a run: two nets in training, one deployed."""
    def times(milliseconds):
        return {"best_ms": 0.9 * milliseconds, "median_ms": milliseconds, "blocks_ms": [milliseconds] * 7,
                "iterations": 3, "peak_mib": 100 * milliseconds}

    found = {"format": 1, "date": "2026-01-02T03:04:05+00:00", "commit": "abc", "changed": False,
             "machine": {"cpu": "A <fast> CPU", "cores": 2, "memory_gib": 8, "kernel": "6"},
             "versions": {"torch": "2.0"}, "settings": {"blocks": 7}, "cases": []}
    for net, mode, batch in (("lenet", "train", 64), ("vgg16", "train", 4), ("lenet", "deploy", 1)):
        for count in threads:
            found["cases"].append({
                "net": net, "mode": mode, "batch": batch, "threads": count, "flop": 1e8, "parameters": 5,
                "sgemm": [sgemm, 0.8 * sgemm], "ours": times(ours / count),
                "peer": {"nchw": times(nchw / count), "nhwc": times(nhwc / count)}})
    return found


def test_every_net_is_written_for_both_modes(folder):
    for net in nets.NETS:
        for mode in ("train", "deploy"):
            path = nets.write(folder, net, mode, 3)
            assert path.exists() and ("solver" in path.name) == (mode == "train"), path
            message = nets.message(net, mode, 3)
            types = [layer["type"] for layer in message["layer"]]
            assert "Data" not in types and "Accuracy" not in types, net
            assert types[0] == "Input" and types.count("Input") == 1, net
            assert types[-1] == "Softmax" if mode == "deploy" else "SoftmaxWithLoss" in types, net
            assert all("param" not in layer or layer["type"] == "BatchNorm" for layer in message["layer"]), net
            dims = message["layer"][0]["input_param"]["shape"][0]["dim"]
            assert dims[1 if net == "lstm" else 0] == 3, f"{net} has another batch: {dims}"


def test_auxiliary_heads_and_dropout_are_trained_only(_):
    losses = [layer for layer in nets.message("googlenet", "train", 1)["layer"] if layer["type"] == "SoftmaxWithLoss"]
    assert sorted(layer["loss_weight"] for layer in losses) == [0.3, 0.3, 1], losses
    has = {net: cases.Case(net, "train", 1, 1).has_dropout for net in nets.NETS}
    assert [net for net, dropout in has.items() if dropout] == ["caffenet", "googlenet", "vgg16"], has
    plain = nets.message("vgg16", "train", 1, dropout=False)
    assert all(layer["type"] != "Dropout" for layer in plain["layer"])


def test_cases_cover_nets_modes_batches_and_threads(_):
    found = cases.all_cases(["lenet", "vgg16"], ["train", "deploy"], [1, 2])
    assert len(found) == 2 * 2 + 2 * 2 * 2
    assert {case.batch for case in found if case.mode == "train"} == {64, 4}
    assert {case.batch for case in found if case.mode == "deploy"} == {1, 16}
    assert cases.Case("lstm", "train", 32, 1).layouts == ("nchw",)


def test_sides_take_turns_and_the_first_iteration_of_a_block_does_not_count(folder):
    sides = StandIns(folder, 0.1, {"nchw": 0.21, "nhwc": 0.2})
    entry = racing.race(sides, cases.Case("lenet", "train", 64, 1), 3)
    assert sides.runs()[-9:] == ["ours", "nchw", "nhwc"] * 3, sides.runs()
    assert all(math.isclose(block, 100) for block in entry["ours"]["blocks_ms"]), entry["ours"]
    assert len(entry["ours"]["blocks_ms"]) == 3
    assert entry["ours"]["iterations"] == 3 and entry["peer"]["nhwc"]["iterations"] == 2
    assert entry["ours"]["peak_mib"] > 1
    assert math.isclose(results.ratio(entry), 2) and results.best_peer(entry)[0] == "nhwc"
    assert [entry["check"][whose]["worst"] for whose in ("plain", "peer")] == ["conv1/0"] * 2 and len(entry["sgemm"]) == 4


def test_a_hopeless_layout_leaves_the_race_after_two_blocks(folder):
    sides = StandIns(folder, 0.1, {"nchw": 0.2, "nhwc": 0.5})
    entry = racing.race(sides, cases.Case("lenet", "train", 64, 1), 4)
    assert [len(entry["peer"][layout]["blocks_ms"]) for layout in ("nchw", "nhwc")] == [4, 2], entry["peer"]


def test_without_a_peer_only_ours_runs(folder):
    entry = racing.race(StandIns(folder, 0.1, None), cases.Case("lenet", "deploy", 1, 2), 2)
    assert "peer" not in entry and list(entry["check"]) == ["plain"] and results.ratio(entry) is None


def test_wrong_results_are_not_timed(_):
    case = cases.Case("lenet", "train", 64, 1)
    racing.verdict(case, "theirs", {"loss": 1e-6, "gradients": 1e-3, "worst": "conv1/0"})
    for errors in ({"loss": 1e-3, "gradients": 0.0, "worst": ""}, {"loss": 0.0, "gradients": 0.5, "worst": "conv1/0"},
                   {"scores": 0.1}, {"scores": float("nan")}, {"scores": None}):
        try:
            racing.verdict(case, "theirs", errors)
        except racing.WrongResult as error:
            assert "lenet train" in str(error)
        else:
            raise AssertionError(f"{errors} passed")


def test_a_worker_that_fails_ends_or_hangs_is_named(folder):
    sides = StandIns(folder, 0.1, None)
    for command, text in (("fail", "it broke"), ("hang", "no answer within"), ("end", "ended")):
        with sides.ours(None) as worker:
            try:
                worker.ask(command, seconds=1 if command == "hang" else 60)
            except workers.WorkerError as error:
                assert text in str(error) and "Carafe" in str(error), error
            else:
                raise AssertionError(f"{command} was answered")


def test_results_come_back_as_they_were_written(folder):
    found = sample()
    path = folder / "new" / "run.json"
    results.write(found, path)
    assert results.read(path) == found and not list(path.parent.glob("*.part"))
    assert results.default_path(found, folder).name == "2026-01-02-0304-abc.json"
    empty = results.new({"blocks": 7}, {})
    assert empty["machine"]["cores"] >= 1 and empty["cases"] == []
    table.plain(empty)


def test_files_that_are_no_results_are_refused(folder):
    for name, text in (("a", "no json"), ("b", "{}"), ("c", '{"format": 99, "cases": []}'), ("d", "[1]")):
        (folder / name).write_text(text, encoding="utf-8")
        try:
            results.read(folder / name)
        except results.BadResults as error:
            assert str(folder / name) in str(error)
        else:
            raise AssertionError(f"{text} was read")


def test_ratio_share_and_means_follow_from_the_times(_):
    found = sample()
    first = found["cases"][0]
    assert results.ratio(first) == 2 and results.peaks(found) == {1: 100, 2: 100}
    assert results.gflops(first) == 50 and results.quiet(first, 100) == 0.9
    assert math.isclose(results.geometric_mean([1, 4, None]), 2) and results.geometric_mean([]) is None
    titles = [title for title, _ in results.groups(found)]
    assert titles == ["training step, 1 thread", "training step, 2 threads", "deploy, batch 1, 1 thread",
                      "deploy, batch 1, 2 threads"], titles


def test_tables_have_a_row_per_case(_):
    text = table.plain(sample())
    assert text.count("lenet") == 4 and text.count("vgg16") == 2
    row = next(line for line in text.splitlines() if line.startswith("lenet"))
    for cell in ("2.00 (1.80)", "4.00 (3.60)", "nhwc", "50%", "0.90", "200", "400", "0.50"):
        assert cell in row, f"{cell} is missing in {row}"
    markdown = [line for line in table.markdown(sample()).splitlines() if line.startswith("|")]
    assert len(markdown) == 4 * 2 + 6 and len({line.count("|") for line in markdown}) == 1
    alone = sample()
    for case in alone["cases"]:
        del case["peer"]
    assert "geometric mean" not in table.plain(alone)


def test_a_regression_shows_and_a_slower_machine_does_not(_):
    old = sample()
    _, worse = table.comparison(old, sample(ours=4, nchw=10, nhwc=8), 0.1)  # all twice as slow
    assert worse == 0
    text, worse = table.comparison(old, sample(ours=3), 0.1)
    assert worse == 6 and text.count("SLOWER") == 6 and "+50%" in text
    text, worse = table.comparison(old, sample(ours=1), 0.1)
    assert worse == 0 and text.count("faster") == 6
    alone = copy.deepcopy(old)
    slower = sample(ours=4, sgemm=50)  # without a peer the matrix product is the yardstick
    for case in alone["cases"] + slower["cases"]:
        case.pop("peer")
    assert table.comparison(alone, slower, 0.1)[1] == 0
    assert table.comparison(old, {**old, "cases": []}, 0.1) == ("the two runs have no case in common", 0)


def test_compare_is_a_command(folder):
    paths = [folder / "old.json", folder / "new.json"]
    for path, found in zip(paths, (sample(), sample(ours=3))):
        results.write(found, path)

    def compare(*arguments):
        return subprocess.run([sys.executable, str(ROOT / "benchmarks/compare"), *map(str, arguments)],
                              capture_output=True, text=True, check=False)

    assert compare(*paths).returncode == 1 and "SLOWER" in compare(*paths).stdout
    assert compare(*reversed(paths)).returncode == 0
    assert compare(*paths, "--threshold=0.6").returncode == 0
    assert compare(paths[0], "--markdown").stdout == table.markdown(sample()) + "\n"
    assert compare(paths[0]).stdout == table.plain(sample()) + "\n"
    assert "fix:" in compare(paths[0], folder / "none.json").stderr


def test_the_document_takes_the_newest_results_in(folder):
    page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    (folder / "benchmarks.md").write_text(page, encoding="utf-8")
    for name in ("first.json", "second.json"):
        document.update(sample(), name, folder)
    text = (folder / "benchmarks.md").read_text(encoding="utf-8")
    written = text.split(document.BEGIN)[1].split(document.END)[0]
    assert "second.json" in written and "first.json" not in text and written.count("| vgg16 |") == 2
    assert text.startswith(page.split(document.BEGIN)[0]) and text.endswith(page.split(document.END)[1])
    assert (folder / "benchmarks.svg").read_text(encoding="utf-8") == plot.svg(sample())
    try:
        document.with_results("no marks", sample(), "x")
    except ValueError as error:
        assert "marks" in str(error)
    else:
        raise AssertionError("a document without marks was written")


def test_the_picture_has_a_bar_per_comparison(_):
    picture = plot.svg(sample())
    root = xml.etree.ElementTree.fromstring(picture)
    bars = [e for e in root.iter("{http://www.w3.org/2000/svg}rect") if e.get("height") == "12.0" and e.get("y") != "14.0"]
    assert len(bars) == 6, len(bars)
    assert "A &lt;fast&gt; CPU" in picture and "2.00" in picture
    width = float(root.get("width"))
    assert all(float(bar.get("x")) + float(bar.get("width")) < width for bar in bars)
    alone = sample()
    for case in alone["cases"]:
        del case["peer"]
    assert plot.svg(alone) is None
    assert [plot.tick_step(limit) for limit in (1.25, 4, 9, 40)] == [0.25, 0.5, 1, 5]


def test_the_profile_reads_the_programs_log(_):
    log = ("I0102 03:04:05.000001 7 timing.cpp:1]      conv1\tforward: 1.5 ms.\n"
           "I0102 03:04:05.000001 7 timing.cpp:1]      conv1\tbackward: 2.5 ms.\n"
           "I0102 03:04:05.000001 7 timing.cpp:1] inception_3a/1x1\tforward: 4e+00 ms.\n"
           "I0102 03:04:05.000001 7 timing.cpp:1] inception_3a/1x1\tbackward: 12 ms.\n"
           "I0102 03:04:05.000001 7 timing.cpp:1] Average Forward pass: 5.5 ms.\n")
    times = profile.parse(log)
    assert times == {"conv1": [1.5, 2.5], "inception_3a/1x1": [4, 12]}, times
    lines = profile.table(times).splitlines()
    assert lines[1].startswith("inception_3a/1x1") and "80.0%" in lines[1] and lines[-1].split() == ["all", "5.50", "14.50"]


def test_the_installed_version_of_pytorch_is_found(folder):
    assert setup.installed_torch(folder) is None
    package = folder / "lib/python3.11/site-packages/torch"
    package.mkdir(parents=True)
    (package / "version.py").write_text("__version__ = '2.1.0+cu1'\ncuda = '1'\n", encoding="utf-8")
    assert setup.installed_torch(folder) == "2.1.0"


def load_run():
    loader = importlib.machinery.SourceFileLoader("benchmarks_run", str(ROOT / "benchmarks/run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def test_flags_have_the_defaults_of_the_document(_):
    run = load_run()
    flags = run.parse_flags([])
    assert (flags.nets, flags.threads, flags.batches, flags.blocks) == (list(nets.NETS), [1, 2], [1, 16], 7)
    quick = run.parse_flags(["--quick"])
    assert (quick.threads, quick.batches, quick.blocks) == ([2], [1], 3)
    mixed = run.parse_flags(["--quick", "--threads=1", "--blocks=5", "--nets=lenet,lstm", "--mode=train"])
    assert (mixed.threads, mixed.blocks, mixed.nets, mixed.mode) == ([1], 5, ["lenet", "lstm"], ["train"])


def test_tables_of_the_exchange_are_those_of_the_figures(_):
    row = {"net": "lenet", "hosts": 2, "rate": "1gbit", "compute": 0.01, "wire": 0.02, "reachable": 0.025}
    rows = [{**row, "exchange": name, "median": seconds}
            for name, seconds in (("allreduce", 0.03), ("server", 0.04), ("tree", 0.05))]
    assert tables.replay(rows).endswith("| LeNet | 2 | 1 Gbit/s | 10.0 | 20.0 | 30.0 | 40.0 | 50.0 | 1.50 | 1.20 |")
    row = {"net": "caffenet", "hosts": 4, "rate": "-", "batch": 16, "alone": 0.1, "ours": 0.3, "bound": 0.2,
           "ddp_alone": 0.2, "ddp": 0.6}
    assert tables.training([row]).endswith(
        "| CaffeNet, 16 | 4 | no cap | 100 | 300 | 200 | 1.50 | 200 | 200 | 600 | 400 | 2.00 |")
    row = {"hosts": 2, "rate": "1gbit", "mpi": "openmpi", "iperf_gbit": 1.0, "bytes": 65536, "ours": 65536e-8,
           "theirs": 65536e-8 * 2, "ours_best": 1.0, "theirs_best": 3.0}
    other = {**row, "mpi": "mpich", "theirs": 65536e-8 * 4}
    assert "| 64 KB | 0.100 GB/s | 80% | 2.00 times as long |" in tables.line([row, other])
    assert "| 64 KB | 2.00 (3.00) |" in tables.sums_of("openmpi")([row, other])
    assert "| 64 KB | 4.00 (3.00) |" in tables.sums_of("mpich")([row, other])
    assert "| 256 KB | – |" in tables.sums_of("openmpi")([row]), "a size that was not measured"


def test_document_of_the_exchange_shows_the_stored_figures(_):
    text = (ROOT / "docs/exchanges.md").read_text(encoding="utf-8")
    figures = json.loads((ROOT / "benchmarks/results/exchange.json").read_text())
    assert tables.with_tables(text, figures) == text, "older figures; fix: benchmarks/exchange/run --document"


def main():
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    failed = 0
    for name, test in tests:
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(pathlib.Path(folder))
            except Exception as error:  # every test is reported
                failed += 1
                print(f"{name}: {type(error).__name__}: {error}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
