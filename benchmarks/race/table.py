"""Results as tables, for the eye or for Markdown."""
from race import results as res


def milliseconds(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _times(times):
    return f"{milliseconds(times['median_ms'])} ({milliseconds(times['best_ms'])})"


HEAD = ("net", "batch", "threads", "Carafe ms", "PyTorch ms", "layout", "ratio", "GFLOP/s", "of sgemm", "quiet", "MiB",
        "PyTorch MiB", "share")


def row(case, peak):
    layout, peer = res.best_peer(case)
    ours = case["ours"]
    cells = [case["net"], str(case["batch"]), str(case["threads"]), _times(ours)]
    if peer:
        cells += [_times(peer), layout, f"{res.ratio(case):.2f} ({res.ratio(case, 'best_ms'):.2f})"]
    else:
        cells += ["-", "-", "-"]
    cells += [f"{res.gflops(case):.0f}", f"{res.gflops(case) / peak:.0%}", f"{res.quiet(case, peak):.2f}"]
    memory = ours.get("peak_mib")
    cells.append(f"{memory:.0f}" if memory else "-")
    if peer and peer.get("peak_mib") and memory:
        cells += [f"{peer['peak_mib']:.0f}", f"{memory / peer['peak_mib']:.2f}"]
    else:
        cells += ["-", "-"]
    return cells


def rows(results):
    """(title, rows, geometric mean of the ratios) of every group."""
    peaks = res.peaks(results)
    for title, cases in res.groups(results):
        yield title, [row(case, peaks[case["threads"]]) for case in cases], res.geometric_mean(map(res.ratio, cases))


def _aligned(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines]


def plain(results):
    out = []
    for title, lines, mean in rows(results):
        out += ["", title, *_aligned([HEAD, *lines])]
        if mean:
            out.append(f"geometric mean of the ratios: {mean:.2f}")
    return "\n".join(out + [""] + notes(results))


def notes(results):
    machine = results["machine"]
    peaks = ", ".join(f"{peak:.0f} on {threads} thread{'s' if threads > 1 else ''}"
                      for threads, peak in sorted(res.peaks(results).items()))
    return [f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB; commit {results['commit'] or '?'}"
            + (" with changes" if results["changed"] else "") + f"; {results['date']}",
            f"PyTorch {results['versions'].get('torch', 'not run')}; sgemm, GFLOP/s: {peaks or '-'}; "
            f"{results['settings']['blocks']} blocks each by turns"]


def markdown(results):
    out = []
    for title, lines, mean in rows(results):
        out += [f"**{title[0].upper()}{title[1:]}**" + (f": geometric mean {mean:.2f}" if mean else ""), "",
                "| " + " | ".join(HEAD) + " |", "|" + " --- |" * len(HEAD),
                *("| " + " | ".join(line) + " |" for line in lines), ""]
    return "\n".join(out + notes(results)) + "\n"


def comparison(old, new, threshold):
    """(text, number of regressions): our times in both, and how much slower the new one is beyond the yardstick."""
    lines, worse = [("net", "mode", "batch", "threads", "old ms", "new ms", "old ratio", "new ratio", "change", "")], 0
    for was, case, change in res.changes(old, new):
        flag = ""
        if change > 1 + threshold:
            flag, worse = "SLOWER", worse + 1
        elif change < 1 / (1 + threshold):
            flag = "faster"
        ratios = [f"{res.ratio(c):.2f}" if res.ratio(c) else "-" for c in (was, case)]
        lines.append((case["net"], case["mode"], str(case["batch"]), str(case["threads"]),
                      milliseconds(was["ours"]["median_ms"]), milliseconds(case["ours"]["median_ms"]), *ratios,
                      f"{change - 1:+.0%}", flag))
    if len(lines) == 1:
        return "the two runs have no case in common", 0
    return "\n".join(_aligned(lines)), worse
