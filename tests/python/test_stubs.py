"""The type stubs name what is there, and all that is there."""

import ast
import os
import types
import unittest

import caffe
import caffe._caffe
import caffe.pycaffe
from nets import ROOT

FOLDER = os.path.dirname(os.path.abspath(caffe.io.__file__))


def names_in(body):
    """{name: node} of what a stub's module or class declares for users."""
    found = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = node
        elif isinstance(node, ast.ImportFrom):
            found.update({alias.asname: node for alias in node.names if alias.asname})
    return {name: node for name, node in found.items() if not name.startswith("_")}


def stub_of(name):
    with open(os.path.join(FOLDER, name + ".pyi")) as file:
        return ast.parse(file.read()).body


def public(thing):
    return {name for name in dir(thing) if not name.startswith("_")}


class Stubs(unittest.TestCase):

    def test_of_the_compiled_part(self):
        stub = names_in(stub_of("_caffe"))
        self.assertEqual(set(stub), public(caffe._caffe))
        for name, node in stub.items():
            if isinstance(node, ast.ClassDef) and not issubclass(getattr(caffe._caffe, name), Exception):
                self.assertEqual(set(names_in(node.body)), public(getattr(caffe._caffe, name)), name)

    def test_of_the_package(self):
        stub = set(names_in(stub_of("__init__")))
        there = {name for name in public(caffe) if not isinstance(getattr(caffe, name), types.ModuleType)}
        self.assertEqual(stub - {"io", "proto"}, there - {"extend_path"})

    def test_of_pycaffe(self):
        for name in names_in(stub_of("pycaffe")):
            self.assertTrue(hasattr(caffe.pycaffe, name), name)

    def test_package_says_that_it_is_typed(self):
        self.assertTrue(os.path.exists(os.path.join(FOLDER, "py.typed")))


class Sources(unittest.TestCase):

    def test_are_written_in_the_oldest_python_that_is_supported(self):
        found = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(ROOT, "python")) for name in names
                 if name.endswith((".py", ".pyi"))]
        self.assertGreater(len(found), 15)
        for path in found:
            with open(path) as file, self.subTest(path):
                ast.parse(file.read(), path, feature_version=(3, 9))


if __name__ == "__main__":
    unittest.main()
