"""The notebooks of examples/notebooks are what their scripts say, and run to their ends."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "examples", "notebooks")

spec = importlib.util.spec_from_file_location("make_notebooks", os.path.join(FOLDER, "make_notebooks.py"))
make_notebooks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_notebooks)


class Cells(unittest.TestCase):

    def test_are_cut_at_the_marks(self):
        cells = make_notebooks.cells_of("# %% [markdown]\n# # Title\n#\n# text\n\n# %%\nx = 1\n\n# a comment\ny = 2\n")
        self.assertEqual(cells, [("markdown", "# Title\n\ntext"), ("code", "x = 1\n\n# a comment\ny = 2")])
        with self.assertRaises(ValueError):
            make_notebooks.cells_of("x = 1\n")

    def test_of_the_notebooks_are_those_of_the_scripts(self):
        for name in make_notebooks.NAMES:
            self.assertTrue(make_notebooks.is_up_to_date(name), "%s: make_notebooks.py --execute %s" % (name, name))


class Runs(unittest.TestCase):
    """With nbclient as notebooks, without it as plain scripts: it is the same code."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.environ["CARAFE_NOTEBOOK_WORK"] = cls.folder.name

    @classmethod
    def tearDownClass(cls):
        del os.environ["CARAFE_NOTEBOOK_WORK"]
        cls.folder.cleanup()

    def run_one(self, name):
        try:
            import ipykernel  # noqa: F401
            import nbclient  # noqa: F401
            import nbformat  # noqa: F401
        except ImportError as error:
            print("%s runs as a script: %s" % (name, error), file=sys.stderr)
            done = subprocess.run([sys.executable, os.path.join(FOLDER, name + ".py")], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)
            return
        with open(os.path.join(FOLDER, name + ".py")) as file:
            notebook = make_notebooks.execute(make_notebooks.notebook_of(make_notebooks.cells_of(file.read())))
        outputs = [output for cell in notebook["cells"] if cell["cell_type"] == "code" for output in cell["outputs"]]
        pictures = [kind for output in outputs for kind in output.get("data", {}) if kind.startswith("image/")]
        self.assertGreater(len(pictures), 1, "the notebook draws something")

    def test_learn_lenet(self):
        self.run_one("learn_lenet")

    def test_net_surgery(self):
        self.run_one("net_surgery")

    def test_fine_tune(self):
        self.run_one("fine_tune")


if __name__ == "__main__":
    unittest.main()
