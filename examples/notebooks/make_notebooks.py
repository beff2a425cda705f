#!/usr/bin/env python3
"""Makes the notebooks out of the scripts of the same names: NAME.py to NAME.ipynb.

usage: make_notebooks.py [--check | --execute] [NAME...]

In a script, "# %%" begins a cell of code and "# %% [markdown]" one of text, in comments; so it also runs as it is. --check
writes nothing, and fails where a notebook's cells are not those of its script; --execute runs the notebooks, and keeps
what they print and draw (it wants nbclient and ipykernel). Without either a notebook is written without results.
"""

import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ("learn_lenet", "net_surgery", "fine_tune")


def cells_of(script):
    """[(kind, text)] of a script."""
    cells, kind = [], None
    for line in script.splitlines():
        mark = re.match(r"^# %%( \[markdown\])?$", line)
        if mark:
            kind = "markdown" if mark.group(1) else "code"
            cells.append((kind, []))
        elif kind is None:
            raise ValueError('a script begins with "# %%"')
        else:
            cells[-1][1].append(re.sub(r"^# ?", "", line) if kind == "markdown" else line)
    return [(kind, "\n".join(lines).strip("\n")) for kind, lines in cells]


def notebook_of(cells):
    made = []
    for number, (kind, text) in enumerate(cells):
        cell = {"cell_type": kind, "id": "cell-%02d" % number, "metadata": {}, "source": text.splitlines(True)}
        if kind == "code":
            cell.update(execution_count=None, outputs=[])
        made.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}, "nbformat": 4,
            "nbformat_minor": 5}


def is_up_to_date(name):
    path = HERE / (name + ".ipynb")
    if not path.exists():
        return False
    found = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    return found == cells_of((HERE / (name + ".py")).read_text(encoding="utf-8"))


def execute(notebook, timeout=300):
    """The notebook with what its cells give. Raises what a cell raises."""
    import nbclient
    import nbformat
    node = nbformat.reads(json.dumps(notebook), as_version=4)
    nbclient.NotebookClient(node, timeout=timeout, resources={"metadata": {"path": str(HERE)}},
                            record_timing=False).execute()
    node.metadata["language_info"] = {"name": "python"}  # without the version, which differs from machine to machine
    for cell in node.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                data.pop("image/jpeg", None)  # the same picture once more
            if any(kind.startswith("image/") for kind in data):
                data["text/plain"] = "<picture>"  # not the address of an object
    return json.loads(nbformat.writes(node))


def main(arguments):
    names = [a for a in arguments if not a.startswith("-")] or NAMES
    if "--check" in arguments:
        old = [name for name in names if not is_up_to_date(name)]
        for name in old:
            print("%s.ipynb is not what %s.py says; fix: make_notebooks.py --execute %s" % (name, name, name))
        return 1 if old else 0
    for name in names:
        notebook = notebook_of(cells_of((HERE / (name + ".py")).read_text(encoding="utf-8")))
        if "--execute" in arguments:
            notebook = execute(notebook)
        (HERE / (name + ".ipynb")).write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print("wrote %s.ipynb" % name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
