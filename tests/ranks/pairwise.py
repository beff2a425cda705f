#!/usr/bin/env python3
"""1 against P with real processes: P workers reach the weights of one worker with the global batch. Every pair of values of
exchange, overlap, ranks, workers, solver and features occurs in some case; the full matrix is that of law_test.cpp, with
ranks as threads. Prints `N passed, N failed`."""
import collections
import itertools
import pathlib
import random
import shutil
import string
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import BUILD, CARAFE, CarafeTest, difference, main, weights  # noqa: E402

ITERATIONS = 10
STEPS = 4  # of the LSTM in one pass
ROWS = 120  # of a pass of all workers, and stretches of the text: 2, 3, 4, 5, 6, 8 and 10 workers divide them
TOLERANCE = 1e-4  # of a blob's largest value

SOLVERS = {
    "SGD": "base_lr: 0.1 momentum: 0.9 weight_decay: 0.01",
    "Nesterov": "base_lr: 0.05 momentum: 0.9 weight_decay: 0.01",
    "Adam": "base_lr: 0.01 momentum: 0.9 momentum2: 0.99 delta: 1e-3",
    "AdaGrad": "base_lr: 0.05 delta: 1e-3",
}
FEATURES = ("iter_size", "clip", "shared", "dropout", "lstm", "batch_norm", "frozen")

Case = collections.namedtuple("Case", "exchange overlap ranks workers solver features flags env", defaults=((), {}))

OPEN_MPI = [
    Case("tree", "off", 4, 2, "SGD", ("clip", "dropout", "frozen")),
    Case("allreduce", "on", 2, 1, "Adam", ("shared", "batch_norm", "frozen")),
    Case("tree", "on", 5, 1, "AdaGrad", ("iter_size", "dropout", "lstm")),
    Case("server", "off", 3, 1, "Nesterov", ("iter_size", "clip", "batch_norm")),
    Case("server", "off", 2, 2, "SGD", ("iter_size", "shared", "lstm")),
    Case("allreduce", "on", 4, 2, "Nesterov", ("clip", "shared", "lstm")),
    Case("server", "on", 5, 2, "Adam", ("clip", "dropout", "batch_norm")),
    Case("allreduce", "off", 3, 2, "AdaGrad", ("clip", "shared", "dropout")),
    Case("allreduce", "on", 3, 2, "Adam", ("iter_size", "lstm", "frozen")),
    Case("server", "off", 4, 2, "AdaGrad", ("iter_size", "batch_norm", "frozen")),
    Case("tree", "off", 5, 1, "Nesterov", ("shared", "batch_norm", "frozen")),
    Case("allreduce", "on", 5, 1, "SGD", ("iter_size", "batch_norm", "frozen")),
    Case("tree", "on", 2, 1, "Nesterov", ("dropout", "lstm")),
    Case("tree", "off", 4, 1, "Adam", ("shared", "dropout", "lstm")),
    Case("tree", "on", 3, 1, "SGD", ("clip", "lstm", "frozen")),
    Case("allreduce", "on", 2, 2, "AdaGrad", ("clip", "shared", "batch_norm")),
    Case("ssp", "on", 2, 1, "SGD", ("iter_size", "clip", "dropout")),
    Case("ssp", "off", 3, 2, "Nesterov", ("shared", "lstm", "frozen")),
    Case("ssp", "on", 4, 2, "Adam", ("clip", "batch_norm", "frozen")),
    Case("ssp", "off", 5, 1, "AdaGrad", ("iter_size", "dropout", "batch_norm")),
    # Beyond the pairs: many ranks, a rank without neighbours in memory, other forms of the sum and of the tree, and a
    # server that could leave ranks out but has no reason to.
    Case("allreduce", "on", 8, 1, "SGD", ("iter_size", "clip", "shared", "dropout")),
    Case("allreduce", "on", 3, 1, "Adam", ("dropout",), ("--sum=halving", "--bucket_mb=0.001"), {"CARAFE_SHM": "off"}),
    Case("tree", "on", 5, 1, "SGD", ("dropout",), ("--tree_branches=3", "--bucket_mb=0.001")),
    Case("server", "on", 3, 1, "SGD", ("clip", "dropout"), ("--exchange_timeout=60",)),
    # Factors instead of sums.
    Case("sfb", "on", 4, 1, "SGD", ("iter_size", "clip", "shared", "dropout")),
    Case("sfb", "off", 2, 2, "Adam", ("lstm", "frozen")),
    Case("sfb", "on", 3, 1, "Nesterov", ("shared", "dropout"), ("--bucket_mb=0.001", "--message_kb=1"), {"CARAFE_SHM": "off"}),
    Case("auto", "on", 3, 1, "SGD", ("dropout", "batch_norm")),
]
MPICH = [
    Case("allreduce", "on", 3, 1, "Adam", ("iter_size", "dropout", "batch_norm")),
    Case("server", "off", 2, 1, "AdaGrad", ("clip", "shared", "frozen")),
    Case("tree", "on", 4, 1, "SGD", ("shared", "lstm")),
    Case("allreduce", "off", 2, 2, "Nesterov", ("clip", "dropout", "frozen")),
    Case("ssp", "on", 3, 1, "SGD", ("clip", "shared", "dropout")),
]


def layer(name, kind, bottoms, top, more=""):
    bottoms = " ".join(f'bottom: "{b}"' for b in bottoms.split())
    return f'layer {{ name: "{name}" type: "{kind}" {bottoms} top: "{top}" {more} }}\n'


def inner_product(name, bottom, outputs, axis, more=""):
    return layer(name, "InnerProduct", bottom, name, f'{more} inner_product_param {{ num_output: {outputs} axis: {axis} '
                 f'weight_filler {{ type: "xavier" }} }}')


def net(features, workers):
    """Less than 10,000 parameters; `workers` share the rows of a pass."""
    frozen = "param { lr_mult: 0 }" + " param { lr_mult: 0 }" * ("batch_norm" not in features) if "frozen" in features else ""
    if "lstm" in features:
        axis = 2  # after steps and stretches
        text = ('layer { name: "text" type: "Data" top: "record" top: "flat_label" data_param { source: "text_lmdb" '
                f'backend: LMDB batch_size: {STEPS * ROWS // workers} }} }}\n'
                'layer { name: "parts" type: "Slice" bottom: "record" top: "flat_input" top: "flat_cont" '
                'slice_param { axis: 1 } }\n')
        for name, bottom in (("input", "flat_input"), ("cont", "flat_cont"), ("label", "flat_label")):
            text += layer(name, "Reshape", bottom, name, f"reshape_param {{ shape {{ dim: {STEPS} dim: -1 }} }}")
        text += layer("embed", "Embed", "input", "embed", f'{frozen} embed_param {{ input_dim: 128 num_output: 8 '
                      'weight_filler { type: "uniform" min: -1 max: 1 } }')
        text += layer("lstm", "LSTM", "embed cont", "below", "recurrent_param { num_output: 16 "
                      'weight_filler { type: "uniform" min: -0.5 max: 0.5 } }')
    else:
        axis = 1
        text = ('layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.00390625 } '
                f'data_param {{ source: "digits_train_lmdb" backend: LMDB batch_size: {ROWS // workers} shuffle: true }} }}\n')
        # BatchNorm takes a bias away again: its gradient would be nothing but rounding.
        bias = "false" if "batch_norm" in features else "true"
        text += layer("conv", "Convolution", "data", "conv", f"{frozen} convolution_param {{ num_output: 4 kernel_size: 5 "
                      f'stride: 3 bias_term: {bias} weight_filler {{ type: "xavier" }} }}')
        if "batch_norm" in features:
            text += layer("norm", "BatchNorm", "conv", "conv")
            text += layer("scale", "Scale", "conv", "conv", "scale_param { bias_term: true }")
        text += layer("squash", "TanH", "conv", "conv")
        text += inner_product("below", "conv", 16, axis)
    if "dropout" in features:
        text += layer("drop", "Dropout", "below", "below", "dropout_param { dropout_ratio: 0.3 }")
    top = "below"
    if "shared" in features:
        for name in ("twice1", "twice2"):
            text += inner_product(name, top, 16, axis, 'param { name: "w" } param { name: "b" }')
            top = name
    text += inner_product("scores", top, 128 if "lstm" in features else 10, axis)
    text += layer("loss", "SoftmaxWithLoss", "scores label", "loss", f"softmax_param {{ axis: {axis} }}")
    return text


def solver(case):
    text = (f'net: "net.prototxt" type: "{case.solver}" {SOLVERS[case.solver]} lr_policy: "fixed" max_iter: {ITERATIONS} '
            'snapshot_prefix: "run" random_seed: 7\n')
    if "iter_size" in case.features:
        text += "iter_size: 2\n"
    if "clip" in case.features:
        text += "clip_gradients: 0.3\n"
    return text


class Pairwise(CarafeTest):
    alone = {}  # weights of one worker, by solver and features

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = random.Random(3)
        words = ["".join(draw.choices(string.ascii_lowercase, k=4)) for _ in range(20)]
        text = cls.databases / "text.txt"
        text.write_text(" ".join(draw.choices(words, k=ROWS * STEPS * 2 * ITERATIONS // 4)))
        subprocess.run([CARAFE, "convert_text_data", text, cls.databases / "text_lmdb", cls.databases / "rest_lmdb",
                        f"--sequences={ROWS}", f"--steps={STEPS}", "--test_share=0.2"], check=True,
                       stdout=subprocess.DEVNULL)

    def train(self, case, workers, *flags, **options):
        if not (self.dir / "text_lmdb").exists():
            (self.dir / "text_lmdb").symlink_to(self.databases / "text_lmdb")
        self.write("net.prototxt", net(case.features, workers))
        self.write("solver.prototxt", solver(case))
        result = self.carafe("train", "--solver=solver.prototxt", "--threads=1", *flags, **options)
        model = self.dir / f"run_iter_{ITERATIONS}.caffemodel"
        blobs = weights(model)
        model.unlink()
        return blobs, result

    def of_one_worker(self, case):
        key = case.solver, case.features
        if key not in self.alone:
            self.alone[key], _ = self.train(case, 1)
            self.assertLess(sum(map(len, self.alone[key].values())), 10000)
        return self.alone[key]

    def check(self, case, mpi):
        if shutil.which(f"mpirun.{mpi}") is None or not (BUILD / f"lib/libcarafe_mpi_{mpi}.so").exists():
            self.skipTest(f"{mpi} is not installed, or its plug-in was not built")
        one = self.of_one_worker(case)
        sync = ["--batch_norm=sync"] if "batch_norm" in case.features else []
        many, result = self.train(case, case.ranks * case.workers, f"--exchange={case.exchange}",
                                  f"--overlap={case.overlap}", f"--workers={case.workers}", "--check_replicas=5", *sync,
                                  *case.flags, ranks=case.ranks, mpi=mpi, env=case.env)
        self.assertIn(f"{case.ranks * case.workers} workers on 1 host", result.stderr)
        self.assertIn(f"exchange plan: {case.exchange}: ", result.stderr)
        self.assertEqual(list(many), list(one))
        for key, values in one.items():
            self.assertLess(difference({key: values}, many), TOLERANCE, f"blob {key[1]} of {key[0]}")

    def test_every_pair_of_values_occurs(self):
        def values(case):
            return list(zip(Case._fields, case[:5])) + [("feature", f) for f in case.features]

        domains = [[(name, value) for value in wanted] for name, wanted in
                   zip(Case._fields, (("allreduce", "server", "ssp", "tree"), ("on", "off"), (2, 3, 4, 5), (1, 2), SOLVERS))]
        features = [("feature", f) for f in FEATURES]
        wanted = {frozenset(pair) for a, b in itertools.combinations([*domains, features], 2)
                  for pair in itertools.product(a, b)}
        wanted |= {frozenset(pair) for pair in itertools.combinations(features, 2)}
        wanted.remove(frozenset([("feature", "lstm"), ("feature", "batch_norm")]))  # BatchNorm is for pictures
        found = {frozenset(pair) for case in OPEN_MPI for pair in itertools.combinations(values(case), 2)}
        self.assertEqual(wanted - found, set())

    def test_other_weights_would_be_noticed(self):
        """A batch of half the rows, or another dropout, is far more than the tolerance away."""
        case = Case("allreduce", "on", 1, 1, "SGD", ("clip", "dropout"))
        one = self.of_one_worker(case)
        self.assertGreater(difference(one, self.train(case, 2)[0]), 100 * TOLERANCE)


def add_tests():
    for mpi, cases in (("openmpi", OPEN_MPI), ("mpich", MPICH)):
        for case in cases:
            def test(self, case=case, mpi=mpi):
                self.check(case, mpi)
            extra = "".join("_" + flag.strip("-").split("=")[0] for flag in case.flags)
            overlap = "" if case.overlap == "on" else "_no_overlap"
            name = (f"test_{mpi}_{case.exchange}{overlap}_{case.ranks}x{case.workers}_{case.solver}_"
                    f"{'_'.join(case.features)}{extra}")
            assert not hasattr(Pairwise, name), name
            setattr(Pairwise, name, test)


add_tests()
if __name__ == "__main__":
    main()
