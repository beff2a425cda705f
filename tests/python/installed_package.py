"""`pip install .` as a user does it: the wheel is built, and used in environments of its own, far from the clone.

Not one of test_*.py, for it compiles: run.py installed_package.py. With what quickstart.sh has compiled in ccache, the wheel
takes half a minute.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FILES = {
    "doubling.py": """
        import sys
        import caffe

        class Double(caffe.Layer):

            def setup(self, bottom, top):
                if self.param_str:
                    print("doubling in", sys.prefix)

            def reshape(self, bottom, top):
                top[0].reshape(*bottom[0].shape)

            def forward(self, bottom, top):
                top[0].data[...] = 2 * bottom[0].data

            def backward(self, top, propagate_down, bottom):
                bottom[0].diff[...] = 2 * top[0].diff
        """,
    "net.prototxt": """
        layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.004 }
          data_param { source: "digits/digits_train_lmdb" backend: LMDB batch_size: 30 } }
        layer { name: "double" type: "Python" bottom: "data" top: "double"
          python_param { module: "doubling" layer: "Double" param_str: "say it" } }
        layer { name: "ip" type: "InnerProduct" bottom: "double" top: "ip"
          inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
        layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
        """,
    "solver.prototxt": """
        net: "net.prototxt" base_lr: 0.05 lr_policy: "fixed" max_iter: 40 random_seed: 3 snapshot_prefix: "snap"
        """,
    "learn.py": """
        import caffe
        import pathlib

        solver = caffe.get_solver("solver.prototxt")
        solver.step(1)
        first = float(solver.net.blobs["loss"].data)
        solver.solve()
        learned = float(solver.net.blobs["loss"].data) < 0.7 * first
        # A file each: mpirun may mix the lines of two ranks into one.
        pathlib.Path(f"said.{caffe.rank()}").write_text(f"{caffe.rank()} {caffe.size()} {learned} {caffe.__file__}")
        """,
}


class Installed(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        cls.variables = dict(variables, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                             OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
        cls.call(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", cls.folder, ROOT)
        cls.wheel = os.path.join(cls.folder, next(name for name in os.listdir(cls.folder) if name.endswith(".whl")))
        cls.install("env", cls.wheel)
        cls.bin = os.path.join(cls.folder, "env", "bin")
        for name, text in FILES.items():
            with open(os.path.join(cls.folder, name), "w") as file:
                file.write(textwrap.dedent(text))
        os.mkdir(os.path.join(cls.folder, "digits"))
        cls.call(os.path.join(cls.bin, "carafe"), "digits", "--out", "digits", "--train", "600", "--test", "10")

    @classmethod
    def call(cls, *command):
        done = subprocess.run(command, cwd=cls.folder, env=cls.variables, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=1000)
        if done.returncode != 0:
            raise AssertionError("%s ended with %d:\n%s" % (" ".join(command), done.returncode, done.stdout[-4000:]))
        return done.stdout

    @classmethod
    def pip(cls, env, *arguments):
        python = os.path.join(cls.folder, env, "bin", "python")
        return cls.call(sys.executable, "-m", "pip", "--python", python, *arguments)

    @classmethod
    def install(cls, env, *arguments):
        cls.call(sys.executable, "-m", "venv", "--without-pip", env)
        cls.pip(env, "install", *arguments)

    def files_of(self, env):
        return {os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(self.folder, env))
                for name in names}

    def said_by(self, rank):
        with open(os.path.join(self.folder, f"said.{rank}"), encoding="utf-8") as file:
            return file.read()

    def test_trains_with_records_and_a_layer_in_python(self):
        self.call(os.path.join(self.bin, "python"), "learn.py")
        self.assertIn("0 1 True " + os.path.join(self.folder, "env"), self.said_by(0))

    def test_brings_the_program_which_runs_python_of_the_same_environment(self):
        for name in ("carafe", "caffe"):
            said = self.call(os.path.join(self.bin, name), "train", "-solver", "solver.prototxt")
            self.assertIn("Optimization Done.", said)
            self.assertIn("doubling in " + os.path.join(self.folder, "env"), said)

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_trains_under_mpirun(self):
        self.call("mpirun", "-n", "2", os.path.join(self.bin, "python"), "learn.py")
        self.assertIn("0 2 True", self.said_by(0))
        self.assertIn("1 2 True", self.said_by(1))

    def test_leaves_nothing_when_it_is_uninstalled(self):
        self.install("other", "six")
        before = self.files_of("other")
        self.pip("other", "install", "--no-deps", self.wheel)
        self.assertGreater(len(self.files_of("other") - before), 20)
        self.pip("other", "uninstall", "-y", "carafe")
        self.assertEqual(self.files_of("other"), before)
        self.assertEqual(shutil.which("carafe", path=os.path.join(self.folder, "other", "bin")), None)


if __name__ == "__main__":
    unittest.main()
