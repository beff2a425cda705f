from ._caffe import Net as Net
from ._caffe import Path, Solver

class NCCL:
    solver: Solver
    uid: bytes
    def __init__(self, solver: Solver, uid: bytes) -> None: ...
    @staticmethod
    def new_uid() -> bytes: ...
    def bcast(self) -> None: ...

solver_classes: dict[str, type[Solver]]

def get_solver(solver_file: Path) -> Solver: ...
