#!/usr/bin/env python3
"""Runs the tests of this folder and prints "N passed, N failed, N skipped" as its last line.

usage: run.py [PATTERN...]    only files that match one of them, e.g. 'test_net*'
"""

import os
import sys
import unittest

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "..", "support")]
from counted import run_and_exit  # noqa: E402

suite = unittest.TestSuite(unittest.TestLoader().discover(here, pattern=pattern)
                           for pattern in sys.argv[1:] or ["test_*.py"])
run_and_exit(suite, stream=sys.stdout)
