"""Caffe's Python interface, by Carafe.

In a clone this folder holds the Python files and build/python/caffe the compiled ones, so both go on the path:

    PYTHONPATH=python:build/python python3 -c 'import caffe'
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)

try:
    from . import _caffe
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "{}\n  fix: build it (./quickstart.sh --python), use the Python it was built with, and set "
        "PYTHONPATH=python:build/python".format(error)
    ) from error

from ._caffe import (  # noqa: E402
    TEST, TRAIN, Blob, BlobVec, CommError, ConfigError, DataError, Error, InternalError, Layer, Net, Timer, has_nccl,
    init_log, layer_type_list, log, rank, set_device, set_mode_cpu, set_mode_gpu, set_multiprocess, set_random_seed,
    set_solver_count, set_solver_rank, size, solver_count, solver_rank,
)
from .pycaffe import NCCL, get_solver, solver_classes  # noqa: E402

__version__ = _caffe.__version__

# SGDSolver, NesterovSolver, AdaGradSolver, RMSPropSolver, AdaDeltaSolver, AdamSolver and those that Caffe lacks.
for _kind, _class in solver_classes.items():
    globals()[_kind + "Solver"] = _class
del _kind, _class

from . import io, process  # noqa: E402
from .classifier import Classifier  # noqa: E402
from .detector import Detector  # noqa: E402
from .net_spec import NetSpec, layers, params, to_proto  # noqa: E402
from .progress_bar import progress  # noqa: E402
from .proto.caffe_pb2 import NetState  # noqa: E402,F401
from .torch_weights import from_torch  # noqa: E402

process.install()
