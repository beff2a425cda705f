"""An unchanged script under mpirun trains on all ranks together, and ends on all of them."""

import os
import re
import shutil
import subprocess
import sys
import unittest

from nets import SOLVER, WithNets, environment
from test_python_layer import TRAINED

HERE = os.path.dirname(os.path.abspath(__file__))


@unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
class UnderMpirun(WithNets):

    def train(self, way, kind="Times", ranks=4):
        net = self.write("net.prototxt", TRAINED % (kind, 'param_str: "1"'))
        text = SOLVER.format(net=net, prefix=self.path("snap"), more="").replace("test_iter: 2 test_interval: 10", "")
        solver = self.write("solver.prototxt", text)
        script = os.path.join(HERE, "train_on_ranks.py")
        return subprocess.run(["mpirun", "-n", str(ranks), sys.executable, script, solver, way], timeout=180,
                              env=dict(environment(HERE), PYTHONHASHSEED="0"), capture_output=True, text=True)

    def lines(self, done, ranks=4):
        self.assertEqual(done.returncode, 0, done.stderr)
        # mpirun may put what two ranks print into one line.
        found = dict(re.findall(r"rank (\d+) of %d: (.*?) *(?=rank|\n|$)" % ranks, done.stdout))
        self.assertEqual(sorted(found), [str(r) for r in range(ranks)], done.stdout)
        return found

    def test_all_ranks_hold_the_same_weights(self):
        for way in ("solve", "step", "callback", "update"):
            found = self.lines(self.train(way))
            self.assertEqual(len(set(found.values())), 1, (way, found))

    def test_steps_and_solve_agree(self):
        self.assertEqual(self.lines(self.train("solve", ranks=2), 2)["0"].split()[0],
                         self.lines(self.train("callback", ranks=2), 2)["0"].split()[0])

    def test_an_exception_in_one_ranks_layer_ends_all(self):
        done = self.train("solve", "FailsLate")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no luck on rank 3 of 4", done.stderr)
        self.assertIn('layer "py"', done.stderr)

    def test_an_exception_in_one_ranks_script_ends_all(self):
        done = self.train("raise")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1 has had enough", done.stderr)

    def test_a_rank_that_dies_ends_all(self):
        done = self.train("solve", "Crash")
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
