#!/usr/bin/env python3
"""Every layer has a test file of its own: carafe/layers/x.cpp that registers a layer has x_test.cpp beside it."""

import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def layers_without_test(folder):
    """The names x of the files x.cpp that register a layer and have no x_test.cpp with a test in it."""
    missing = []
    for path in sorted(folder.glob("*.cpp")):
        text = path.read_text(encoding="utf-8")
        if path.stem.endswith("_test") or not ("RegisterLayer<" in text or "LayerRegistry::Instance().Add" in text):
            continue
        test = folder / f"{path.stem}_test.cpp"
        if not test.exists() or "\nTEST" not in test.read_text(encoding="utf-8"):
            missing.append(path.stem)
    return missing


def test_the_check_finds_a_missing_test():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        layer = "const RegisterLayer<A> kRegistered{{.type = \"A\"}};\n"
        (folder / "with.cpp").write_text(layer, encoding="utf-8")
        (folder / "with_test.cpp").write_text("\nTEST(With, Works) {}\n", encoding="utf-8")
        (folder / "without.cpp").write_text(layer, encoding="utf-8")
        (folder / "empty.cpp").write_text(layer, encoding="utf-8")
        (folder / "empty_test.cpp").write_text("// nothing\n", encoding="utf-8")
        (folder / "helper.cpp").write_text("int a;\n", encoding="utf-8")
        assert layers_without_test(folder) == ["empty", "without"], layers_without_test(folder)


def test_every_layer_has_a_test_file():
    missing = layers_without_test(ROOT / "carafe/layers")
    assert not missing, f"layers without a test file x_test.cpp: {', '.join(missing)}"


if __name__ == "__main__":
    test_the_check_finds_a_missing_test()
    test_every_layer_has_a_test_file()
    print("layer_tests_test: ok")
    sys.exit(0)
