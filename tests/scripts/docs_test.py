#!/usr/bin/env python3
"""Documents say what is true: links lead somewhere, the picture shows its text, the text shows the arrows."""

import hashlib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_includes  # noqa: E402

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def tracked_files():
    command = ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):  # no git, or no clone
        skip = ("build", ".git", "runs", "data")
        listed = [p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*")
                  if not p.relative_to(ROOT).parts[0].startswith(skip)]
    return [name for name in listed if name and (ROOT / name).is_file()]


def test_links_lead_to_files(files):
    for name in files:
        if not name.endswith(".md") or name.startswith("tests/golden/"):
            continue
        for target in LINK.findall((ROOT / name).read_text(encoding="utf-8")):
            if not target.startswith(("http:", "https:", "mailto:")):
                assert ((ROOT / name).parent / target).exists(), f"{name} links to {target}, which is not there"


def test_picture_is_drawn_from_its_text(_):
    digest = hashlib.sha256((ROOT / "docs/architecture.dot").read_bytes()).hexdigest()
    picture = (ROOT / "docs/architecture.svg").read_text(encoding="utf-8")
    assert digest in picture, "docs/architecture.svg is older than its text; fix: scripts/picture.sh"


def test_picture_has_the_arrows_of_the_check(_):
    text = (ROOT / "docs/architecture.dot").read_text(encoding="utf-8").split("edge [style=dashed")[0]
    drawn = set(re.findall(r"^  (\w+) -> (\w+)", text, re.MULTILINE))
    known = {(a, b) for a, targets in check_includes.ARROWS.items() for b in targets}
    assert drawn == known, f"drawn only: {drawn - known}; checked only: {known - drawn}"


def test_every_folder_has_its_paragraph(_):
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for folder in (ROOT / "carafe").iterdir():
        if folder.is_dir():
            assert f"- **`{folder.name}/`**" in text, f"carafe/{folder.name}/ has no paragraph"


def test_decisions_are_numbered_and_whole(_):
    decisions = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
    numbers = [path.name[:5] for path in decisions]  # numbers are handed out in blocks, so there are gaps
    assert len(set(numbers)) == len(numbers), f"a number is there twice: {numbers}"
    for path in decisions:
        text = path.read_text(encoding="utf-8")
        assert re.match(r"\d{4}-", path.name), f"{path.name} has no number of four digits"
        number = int(path.name[:4])
        assert text.startswith(f"# {number}. "), f"{path.name} has another number in its title"
        for part in ("**Context.**", "**Options", "**Decision.**", "**Price.**"):
            assert part in text, f"{path.name} has no {part}"


def test_every_decision_is_in_the_index_with_its_status(_):
    index = (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8")
    rows = {m[1]: m for m in re.finditer(r"^\| \[(\d+)\]\((\S+)\) \| (.+) \| [\w/]+ \| (.+) \|$", index, re.MULTILINE)}
    decisions = {str(int(path.name[:4])): path for path in (ROOT / "docs/decisions").glob("[0-9]*.md")}
    assert rows.keys() == decisions.keys(), f"index and files differ in {sorted(rows.keys() ^ decisions.keys())}"
    for number, path in decisions.items():
        title = path.read_text(encoding="utf-8").split("\n")[0].removeprefix(f"# {number}. ")
        assert rows[number][2] == path.name, f"the index links {rows[number][2]} instead of {path.name}"
        assert rows[number][3] == title, f"the index calls {path.name} by another title: {rows[number][3]}"
        status = re.fullmatch(r"accepted|(?:superseded|revised) by (\d+)", rows[number][4])
        assert status, f"the status of {path.name} is neither accepted nor superseded or revised by a number: {rows[number][4]}"
        assert status[1] is None or status[1] in decisions, f"{path.name} is superseded by {status[1]}, which is not there"


def test_commands_of_the_readme_exist(_):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in re.findall(r"(?:^|[ =])\.?/?((?:quickstart|test)\.sh|scripts/[\w.]+|examples/[\w./]+)", text, re.MULTILINE):
        assert (ROOT / path).exists(), f"README names {path}, which is not there"


# The workplace's data may be named by .ci/run alone, which sets CARAFE_DATA for it.
def test_no_file_names_the_workplace(files):
    workplace = "../sha" + "red"
    for name in files:
        path = ROOT / name
        if name != ".ci/run" and path.stat().st_size < 1_000_000:
            assert workplace.encode() not in path.read_bytes(), f"{name} names {workplace}"


def main():
    files = tracked_files()
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    failed = 0
    for name, test in tests:
        try:
            test(files)
        except AssertionError as error:
            failed += 1
            print(f"FAILED {name}: {error}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
