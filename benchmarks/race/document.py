"""Puts the tables and the picture of a run into docs/benchmarks.md, between its two marks."""
import pathlib

from race import plot, table

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
BEGIN, END = "<!-- results: written by benchmarks/compare --document -->", "<!-- end of results -->"


def with_results(text, results, name):
    """The document's text with the results of the file `name` in the place of those it had."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"docs/benchmarks.md has lost its marks: {BEGIN} and {END}")
    parts = [f"From `benchmarks/results/{name}`.", table.markdown(results).rstrip()]
    if plot.svg(results):
        parts.insert(1, "![How many times as fast as PyTorch](benchmarks.svg)")
    return before + BEGIN + "\n" + "\n\n".join(parts) + "\n" + END + after


def update(results, name, docs=DOCS):
    path = docs / "benchmarks.md"
    path.write_text(with_results(path.read_text(encoding="utf-8"), results, name), encoding="utf-8")
    picture = plot.svg(results)
    if picture:
        (docs / "benchmarks.svg").write_text(picture, encoding="utf-8")
