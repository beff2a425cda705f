#!/usr/bin/env python3
"""The prototxts of models/ are what their generators write."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "models"))
import generate  # noqa: E402


def main():
    passed = failed = 0
    written = dict(generate.files())
    committed = {path.relative_to(ROOT / "models").as_posix() for path in (ROOT / "models").glob("**/*.prototxt")}
    for name in sorted(committed | set(written)):
        path = ROOT / "models" / name
        if name in written and path.exists() and path.read_text(encoding="utf-8") == written[name]:
            passed += 1
        else:
            failed += 1
            print(f"models/{name} is not what models/generate.py writes; fix: run it")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
