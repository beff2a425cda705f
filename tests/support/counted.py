"""Runs Python's unit tests and closes with the line that scripts/count_tests.py reads: `N passed, N failed[, N skipped]`."""
import sys
import unittest


class CountedResult(unittest.TextTestResult):
    """Counts what passed by itself: a class that is skipped as a whole is one skip, but none of testsRun."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def run_and_exit(suite, stream=None):
    runner = unittest.TextTestRunner(stream=stream or sys.stderr, verbosity=2, resultclass=CountedResult)
    result = runner.run(suite)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    sys.stderr.flush()
    for test, reason in result.skipped:
        print(f"SKIPPED {test.id()}: {reason}")
    skipped = f", {len(result.skipped)} skipped" if result.skipped else ""
    print(f"{result.passed} passed, {failed} failed{skipped}", flush=True)
    sys.exit(1 if failed else 0)
