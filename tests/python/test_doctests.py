"""The examples in docstrings and in docs/python.md are true."""

import doctest
import os
import pkgutil
import sys
import tempfile
import unittest

import caffe

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WITH_EXAMPLES = {"caffe.net_spec", "caffe.io", "caffe.coord_map", "caffe.draw", "caffe.detector", "caffe.torch_weights"}


class Examples(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def test_of_all_modules(self):
        seen = set()
        for info in pkgutil.iter_modules(caffe.__path__, "caffe."):
            __import__(info.name)
            result = doctest.testmod(sys.modules[info.name])
            self.assertEqual(result.failed, 0, info.name)
            if result.attempted:
                seen.add(info.name)
        self.assertLessEqual(WITH_EXAMPLES, seen)

    def test_of_the_document(self):
        result = doctest.testfile(os.path.join(ROOT, "docs", "python.md"), module_relative=False)
        self.assertEqual(result.failed, 0)
        self.assertGreater(result.attempted, 10)


if __name__ == "__main__":
    unittest.main()
