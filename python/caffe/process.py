"""The process as one of several ranks: how it ends, so that no other rank is left waiting."""

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
