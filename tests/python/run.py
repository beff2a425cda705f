#!/usr/bin/env python3
"""Runs the tests of this folder and prints "N passed, N failed, N skipped" as its last line.

usage: run.py [PATTERN...]    only files that match one of them, e.g. 'test_net*'
"""

import os
import sys
import unittest

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
suite = unittest.TestSuite(unittest.TestLoader().discover(here, pattern=pattern)
                           for pattern in sys.argv[1:] or ["test_*.py"])
result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
passed = result.testsRun - failed - len(result.skipped)
print("%d passed, %d failed, %d skipped" % (passed, failed, len(result.skipped)))
sys.exit(failed != 0)
