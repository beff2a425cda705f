#!/usr/bin/env python3
"""Writes the prototxts of models/: the generators are their source.

usage: generate.py [OUT]      OUT: the folder to write to; default: the one of this script
"""
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from generators import caffenet, googlenet, mobilenet_v1, resnet50, vgg16  # noqa: E402
from generators.prototxt import text  # noqa: E402

HEAD = ["Written by models/generate.py: change the generator, not this file."]


def files():
    """(path within models/, content) of every file."""
    for module in (caffenet, googlenet, vgg16, resnet50, mobilenet_v1):
        for folder, parts in module.models():
            for name, part in parts.items():
                content = "\n".join([f"# {line}" for line in HEAD] + text(part)) + "\n" \
                    if isinstance(part, dict) else part.text(HEAD)
                yield f"{folder}/{name}.prototxt", content


def main():
    if len(sys.argv) > 2 or (len(sys.argv) == 2 and sys.argv[1].startswith("-")):
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) == 2 else HERE
    for path, content in files():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(content, encoding="utf-8")
        print(out / path)


if __name__ == "__main__":
    main()
