"""The figures of benchmarks/results/exchange.json as tables of docs/exchanges.md, each between two marks."""
from race import document

KB = 1024
SIZES = [64 * KB, 256 * KB, 1024 * KB, 4096 * KB, 16384 * KB]
RATES = {"-": "no cap", "10gbit": "10 Gbit/s", "1gbit": "1 Gbit/s"}
NAMES = {"lenet": "LeNet", "cifar10_quick": "cifar10_quick", "caffenet": "CaffeNet", "googlenet": "GoogLeNet",
         "resnet50": "ResNet-50"}
MPIS = {"openmpi": "Open MPI", "mpich": "MPICH"}


def size_name(size):
    return f"{size // KB} KB" if size < KB * KB else f"{size // KB // KB} MB"


def markdown(head, lines):
    return "\n".join("| " + " | ".join(map(str, cells)) + " |" for cells in [head, ["---"] * len(head), *lines])


def milliseconds(seconds):
    ms = 1e3 * seconds
    return f"{ms:.1f}" if abs(ms) < 100 else f"{ms:.0f}"


def times(ratio):
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def both(theirs, ours, their_best, our_best):
    return f"{times(theirs / ours)} ({times(their_best / our_best)})"


def matrix(rows, columns, name, cell):
    """Sizes downwards, the columns that there are across."""
    there = [column for column in columns if column in rows]
    return markdown(["sum of", *map(name, there)], [
        [size_name(size), *(cell(rows[column][size]) if size in rows[column] else "–" for column in there)]
        for size in SIZES])


def by_case(rows, *keys):
    cases = {}
    for row in rows:
        cases.setdefault(tuple(row[key] for key in keys), {})[row["bytes"]] = row
    return cases


def line(rows):
    """What a sum between two hosts makes of a line of 1 Gbit/s."""
    lines = []
    for row in sorted(rows, key=lambda row: row["bytes"]):
        if (row["hosts"], row["rate"], row["mpi"]) == (2, "1gbit", "openmpi") and row["bytes"] in SIZES:
            lines.append([size_name(row["bytes"]), f"{row['bytes'] / row['ours'] / 1e9:.3f} GB/s",
                          f"{row['bytes'] * 8e-9 / row['ours'] / row['iperf_gbit']:.0%}",
                          f"{times(row['theirs'] / row['ours'])} times as long"])
    return markdown(["sum of", "ours, bus bandwidth", "of iperf3", "`MPI_Allreduce` takes"], lines)


def ratios(row):
    return both(row["theirs"], row["ours"], row["theirs_best"], row["ours_best"])


def sums_of(mpi):
    columns = [(mpi, hosts, rate) for rate in reversed(RATES) for hosts in (2, 4, 8)]
    return lambda rows: matrix(by_case(rows, "mpi", "hosts", "rate"), columns,
                               lambda c: f"{c[1]} hosts, {RATES[c[2]]}", ratios)


def node(rows):
    columns = [(ranks, mpi) for ranks in (2, 4, 8) for mpi in MPIS]
    return matrix(by_case(rows, "ranks", "mpi"), columns, lambda c: f"{c[0]} ranks, {MPIS[c[1]]}", ratios)


def in_order(rows):
    return sorted(rows, key=lambda row: (list(NAMES).index(row["net"]), row["hosts"],
                                         -list(RATES).index(row["rate"])))


def replay(rows):
    cells = {}
    for row in in_order(rows):
        cells.setdefault((row["net"], row["hosts"], row["rate"]), {})[row["exchange"]] = row
    lines = []
    for (net, hosts, rate), by_name in cells.items():
        first = by_name["allreduce"]
        bound = max(first["compute"], first["wire"])
        lines.append([NAMES[net], hosts, RATES[rate], milliseconds(first["compute"]), milliseconds(first["wire"]),
                      *(milliseconds(by_name[name]["median"]) for name in ("allreduce", "server", "tree")),
                      f"{first['median'] / bound:.2f}", f"{first['median'] / first['reachable']:.2f}"])
    return markdown(["net", "hosts", "line", "compute", "bytes at the line rate", "allreduce", "server", "tree",
                     "allreduce / longer of the two", "/ reachable"], lines)


def training(rows):
    lines = []
    for row in in_order(rows):
        lines.append([f"{NAMES[row['net']]}, {row['batch']}", row["hosts"], RATES[row["rate"]],
                      *(milliseconds(row[name]) for name in ("alone", "ours", "bound")),
                      f"{row['ours'] / row['bound']:.2f}", milliseconds(row["ours"] - row["alone"]),
                      *(milliseconds(row[name]) for name in ("ddp_alone", "ddp")),
                      milliseconds(row["ddp"] - row["ddp_alone"]), f"{row['ddp'] / row['ours']:.2f}"])
    return markdown(["net, batch per rank", "hosts", "line", "alone", "step", "bound", "step / bound", "exposed",
                     "DDP alone", "DDP step", "DDP exposed", "DDP step / ours"], lines)


TABLES = {"line": ("sums", line), "sums": ("sums", sums_of("openmpi")),
          "mpich": ("sums", sums_of("mpich")), "node": ("node", node), "replay": ("replay", replay),
          "training": ("training", training)}


def with_tables(text, figures):
    """The document's text with tables of these figures in the place of those it had."""
    for name, (section, table) in TABLES.items():
        text = document.between(text, f"<!-- {name}: written by benchmarks/exchange/run --document -->",
                                f"<!-- end of {name} -->", table(figures.get(section, [])))
    return text
