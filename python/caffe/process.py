"""How a process ends: one of several ranks, so that no other is left waiting; a command, with one line for a mistake."""

import atexit
import os
import sys
import traceback

from . import _caffe


def _log_level():
    """Warnings, unless the variable that pycaffe's users know says otherwise; caffe.init_log() shows all."""
    try:
        return int(os.environ.get("GLOG_minloglevel", 1))
    except ValueError:
        return 1


def install():
    """Called by `import caffe`. Where a program runs Python for the sake of a layer, all this is its own business."""
    if _caffe._is_embedded():
        return
    _caffe.init_log(_log_level())
    show = sys.excepthook

    def tell_others(kind, error, trace):
        # Does nothing where the ranks have no group yet. One rank shows what went wrong, not each of them.
        _caffe._fail("".join(traceback.format_exception(kind, error, trace)).rstrip())
        if _caffe._tells_user():
            show(kind, error, trace)

    sys.excepthook = tell_others
    atexit.register(_caffe._close)


def run_command(name, run, arguments):
    """What the commands beside this package end with: the exit code of run(arguments). A mistake of the user's, be it in
    a file, a number or a missing package, is told in a line, without a traceback."""
    try:
        run(arguments)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        print("%s: error: %s" % (name, error), file=sys.stderr)
        return 1
    return 0
