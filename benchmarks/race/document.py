"""Puts the tables and the picture of a run into docs/benchmarks.md, between its two marks."""
import pathlib

from race import plot, table

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
BEGIN, END = "<!-- results: written by benchmarks/compare --document -->", "<!-- end of results -->"


def between(text, begin, end, content):
    """The text with `content` in the place of what stands between two marks."""
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the document has lost its marks: {begin} and {end}")
    return f"{before}{begin}\n{content}\n{end}{after}"


def with_results(text, results, name):
    """The document's text with the results of the file `name` in the place of those it had."""
    parts = [f"From `benchmarks/results/{name}`.", table.markdown(results).rstrip()]
    if plot.svg(results):
        parts.insert(1, "![How many times as fast as PyTorch](benchmarks.svg)")
    return between(text, BEGIN, END, "\n\n".join(parts))


def update(results, name, docs=DOCS):
    path = docs / "benchmarks.md"
    path.write_text(with_results(path.read_text(encoding="utf-8"), results, name), encoding="utf-8")
    picture = plot.svg(results)
    if picture:
        (docs / "benchmarks.svg").write_text(picture, encoding="utf-8")
