"""The process as one of several ranks: how it ends, so that no other rank is left waiting."""

import atexit
import sys
import traceback

from . import _caffe


def install():
    """Called by `import caffe`. In a process that is alone it changes nothing but an entry of atexit."""
    show = sys.excepthook

    def tell_others(kind, error, trace):
        # Does nothing where the ranks have no group yet. One rank shows what went wrong, not each of them.
        _caffe._fail("".join(traceback.format_exception(kind, error, trace)).rstrip())
        if _caffe._tells_user():
            show(kind, error, trace)

    sys.excepthook = tell_others
    atexit.register(_caffe._close)
