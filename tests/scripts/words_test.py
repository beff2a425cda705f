#!/usr/bin/env python3
"""Comments and documents use standard terms: no word of the project's former private dialect comes back."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Phrase -> what to write instead.
WORDS = {
    r"for ever": "forever",
    r"anew": "again",
    r"whoever": "the caller, the thread that ..",
    r"with a word in the log": "logged",
    r"takes? leave": "leaves, finishes",
    r"in good order": "normally",
    r"the very digits": "exactly the digits",
    r"last words": "failure notice",
    r"leaves? \w+( \w+)? away": "remove, omit",
    r"wants? a Debian": "requires Debian",
}
COMMENT = re.compile(r"//.*$|^\s*#.*$")


def lines_to_read():
    """(path, line number, text) of all comments in C++ and of all documents but the decisions, which are not edited."""
    for folder in ("carafe", "tools", "python/src", "tests/support", "tests/golden_runner", "tests/ranks", "tests/fuzz"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                    match = COMMENT.search(line)
                    if match:
                        yield path, number, match[0]
    for path in [*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("*.md"))]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield path, number, line


def main():
    failed = set()
    for path, number, text in lines_to_read():
        for phrase, better in WORDS.items():
            if re.search(rf"\b{phrase}\b", text, re.IGNORECASE):
                failed.add(phrase)
                print(f"FAILED {path.relative_to(ROOT)}:{number}: \"{phrase}\"; write: {better}")
    print(f"{len(WORDS) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
