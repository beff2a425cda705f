from . import io as io
from . import proto as proto
from ._caffe import TEST as TEST
from ._caffe import TRAIN as TRAIN
from ._caffe import Blob as Blob
from ._caffe import BlobVec as BlobVec
from ._caffe import CommError as CommError
from ._caffe import ConfigError as ConfigError
from ._caffe import DataError as DataError
from ._caffe import Error as Error
from ._caffe import InternalError as InternalError
from ._caffe import Layer as Layer
from ._caffe import Net as Net
from ._caffe import Path, Solver
from ._caffe import Timer as Timer
from ._caffe import has_nccl as has_nccl
from ._caffe import init_log as init_log
from ._caffe import layer_type_list as layer_type_list
from ._caffe import log as log
from ._caffe import rank as rank
from ._caffe import set_device as set_device
from ._caffe import set_mode_cpu as set_mode_cpu
from ._caffe import set_mode_gpu as set_mode_gpu
from ._caffe import set_multiprocess as set_multiprocess
from ._caffe import set_random_seed as set_random_seed
from ._caffe import set_solver_count as set_solver_count
from ._caffe import set_solver_rank as set_solver_rank
from ._caffe import size as size
from ._caffe import solver_count as solver_count
from ._caffe import solver_rank as solver_rank
from .classifier import Classifier as Classifier
from .detector import Detector as Detector
from .net_spec import NetSpec as NetSpec
from .net_spec import layers as layers
from .net_spec import params as params
from .net_spec import to_proto as to_proto
from .progress_bar import progress as progress
from .proto.caffe_pb2 import NetState as NetState
from .pycaffe import NCCL as NCCL
from .pycaffe import get_solver as get_solver
from .pycaffe import solver_classes as solver_classes
from .torch_weights import from_torch as from_torch

__version__: str

class SGDSolver(Solver):
    def __init__(self, solver_file: Path) -> None: ...

class NesterovSolver(SGDSolver): ...
class AdaGradSolver(SGDSolver): ...
class RMSPropSolver(SGDSolver): ...
class AdaDeltaSolver(SGDSolver): ...
class AdamSolver(SGDSolver): ...
class AdamWSolver(SGDSolver): ...
class LAMBSolver(SGDSolver): ...
class LARSSolver(SGDSolver): ...
