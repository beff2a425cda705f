"""The progress bar steps the solver, and shows itself where somebody can see it."""

import io
import unittest
from unittest import mock

import caffe
from caffe import progress_bar
from nets import WithNets


class Terminal(io.StringIO):

    def isatty(self):
        return True


class Progress(WithNets):

    def test_steps_as_often_as_it_is_told(self):
        solver = caffe.get_solver(self.solver_file())
        self.assertEqual(list(caffe.progress(solver, 3)), [1, 2, 3])
        self.assertEqual(solver.iter, 3)

    def test_without_a_number_goes_on_to_max_iter(self):
        solver = caffe.get_solver(self.solver_file())
        solver.step(18)
        self.assertEqual(list(caffe.progress(solver)), [19, 20])
        self.assertEqual(list(caffe.progress(solver)), [])

    def test_terminal_gets_one_line_that_ends_full(self):
        terminal = Terminal()
        list(caffe.progress(caffe.get_solver(self.solver_file()), 5, file=terminal))
        last = terminal.getvalue().split("\r")[-1]
        self.assertRegex(last, r"\[#{20}\] 5/5, loss [\d.e+-]+, .* it/s, took .*\n$")
        self.assertEqual(terminal.getvalue().count("\n"), 1)

    def test_line_ends_where_the_loop_is_left(self):
        terminal = Terminal()
        for _ in caffe.progress(caffe.get_solver(self.solver_file()), 5, file=terminal):
            break
        self.assertTrue(terminal.getvalue().endswith("\n"))

    def test_file_and_other_ranks_get_nothing(self):
        file, terminal = io.StringIO(), Terminal()
        list(caffe.progress(caffe.get_solver(self.solver_file()), 2, file=file))
        with mock.patch.object(progress_bar, "rank", return_value=1):
            list(caffe.progress(caffe.get_solver(self.solver_file()), 2, file=terminal))
        self.assertEqual((file.getvalue(), terminal.getvalue()), ("", ""))


if __name__ == "__main__":
    unittest.main()
