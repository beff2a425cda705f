#!/usr/bin/env python3
"""Options in pairs: every pair of values of any two options of `carafe train` and settings of the solver occurs in some run on
one or two ranks. A run ends well, and its weights are those of a run without the options that do not change weights. The
options and their values come from the program itself (`carafe options --json`), so that a new one is covered without a
change here. Prints `N passed, N failed`."""
import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import CARAFE, CarafeTest, environment, main, mpirun, weights  # noqa: E402
from pairs import pairs_of, pairwise, wanted_pairs  # noqa: E402

ITERATIONS = 4
BATCH = 6
TIMEOUT = 120  # seconds for one run
# No values to try: the file is always given, and machines without a GPU refuse every value.
LEFT_OUT = {"solver", "gpu"}
# All other exchanges end with the same weights; these are compared with themselves.
OWN_WEIGHTS = ("sfb", "auto", "local")
FACTORS = ("sfb", "auto")
# What is for --exchange=local alone, with the values that every exchange takes.
LOCAL = {"local_steps": "1", "outer_lr": "1", "outer_momentum": "0"}

SOLVERS = {"SGD": "momentum: 0.9", "Nesterov": "momentum: 0.9", "AdaGrad": "delta: 1e-3", "RMSProp": "rms_decay: 0.9",
           "AdaDelta": "momentum: 0.9 delta: 1e-3", "Adam": "momentum: 0.9 momentum2: 0.99 delta: 1e-3"}
POLICIES = {"fixed": "", "step": "gamma: 0.5 stepsize: 2", "exp": "gamma: 0.9", "inv": "gamma: 0.1 power: 0.5",
            "multistep": "gamma: 0.5 stepvalue: 1 stepvalue: 3", "poly": "power: 2", "sigmoid": "gamma: 1 stepsize: 2",
            "plateau": "gamma: 0.5 plateau_winsize: 2"}
# Settings of the solver and of the net; all of them may change weights.
SETTINGS = {"ranks": [1, 2], "type": list(SOLVERS), "lr_policy": list(POLICIES), "iter_size": [1, 2],
            "clip_gradients": [None, 0.5], "snapshot_format": ["BINARYPROTO", "HDF5"], "normalised": [False, True]}

NET = """
layer {{ name: "data" type: "Data" top: "data" top: "label" transform_param {{ scale: 0.00390625 }}
  data_param {{ source: "digits_train_lmdb" backend: LMDB batch_size: {batch} }} }}
layer {{ name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param {{ num_output: 8 kernel_size: 3 stride: 1 weight_filler {{ type: "xavier" }} }} }}
{norm}
layer {{ name: "relu" type: "ReLU" bottom: "conv" top: "conv" }}
layer {{ name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param {{ pool: MAX kernel_size: 4 stride: 4 }} }}
layer {{ name: "drop" type: "Dropout" bottom: "pool" top: "pool" }}
layer {{ name: "ip" type: "InnerProduct" bottom: "pool" top: "ip"
  inner_product_param {{ num_output: 10 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }}
"""
NORM = """
layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "conv" }
layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
"""


def factor_values(row):
    """None is a flag that is not given."""
    if row["type"] == "choice":
        return row["samples"]
    if row["type"] == "switch":
        return [None, "on"]
    return ([] if row["type"] in ("integer", "number") else [None]) + row["samples"]


def forbidden(case):
    """Pairs that are refused; test_refused_pairs runs those."""
    late = case.get("exchange_timeout") not in (None, "-1")
    factors = case.get("plan") is not None or case.get("exchange") in FACTORS
    rounds = any(case.get(name, value) != value for name, value in LOCAL.items())
    local = rounds or case.get("exchange") == "local"
    stale = case.get("staleness") not in (None, "0")
    arrival = case.get("server_update") == "arrival"
    managed = case.get("consistency") == "sspaggr"
    unmanaged = case.get("consistency", "sspaggr") != "sspaggr"
    ordered = case.get("send_order") not in (None, "fifo") or case.get("bandwidth_mbps") not in (None, "0")
    server = arrival or managed or ordered or case.get("combine") == "sum"
    return ((late and case.get("exchange", "server") != "server") or (late and case.get("wire") is not None)
            or (case.get("plan") is not None and (late or stale or case.get("exchange", "sfb") not in FACTORS))
            or (factors and (stale or case.get("wire") not in (None, "fp32")))
            or ((stale or server) and case.get("exchange", "ssp") != "ssp") or ((stale or server) and late)
            or (case.get("combine") == "sum" and case.get("server_update", "arrival") != "arrival")
            or (arrival and case.get("clip_gradients") is not None) or (unmanaged and ordered)
            or (server and (case.get("plan") is not None or case.get("wire") is not None))
            or (case.get("combine") == "sum" and case.get("clip_gradients") is not None)
            or (case.get("wire") is not None and (stale or case.get("exchange") == "ssp"))
            or (rounds and case.get("exchange", "local") != "local")
            or (local and (late or stale or server or case.get("wire") is not None or case.get("plan") is not None))
            or (case.get("weights") is not None and case.get("snapshot") is not None))


def solver_text(case, iterations):
    text = (f'net: "net.prototxt" type: "{case["type"]}" {SOLVERS[case["type"]]} base_lr: 0.01 weight_decay: 0.001 '
            f'lr_policy: "{case["lr_policy"]}" {POLICIES[case["lr_policy"]]} iter_size: {case["iter_size"]} '
            f'snapshot_format: {case["snapshot_format"]} max_iter: {iterations} display: 1 test_iter: 1 test_interval: 2 '
            'snapshot_prefix: "snap" random_seed: 5\n')
    if case.get("snapshot") is not None:
        text += f"snapshot: {ITERATIONS // 2}\n"
    if case["clip_gradients"] is not None:
        text += f'clip_gradients: {case["clip_gradients"]}\n'
    return text


class Runner:
    """Runs cases, each in a folder of its own; used by several threads."""

    def __init__(self, rows, databases):
        self.rows = rows
        self.databases = databases

    def flags(self, case):
        result = []
        for name in self.rows:
            value = case.get(name)
            if value is not None and name != "snapshot":
                result.append(f"--{name}" if self.rows[name]["type"] == "switch" else f"--{name}={value}")
        return result

    def train(self, folder, case, iterations, *more):
        (folder / "solver.prototxt").write_text(solver_text(case, iterations))
        command = [*mpirun(case["ranks"]), str(CARAFE), "train", "--solver=solver.prototxt", *self.flags(case), *more]
        done = subprocess.run(command, cwd=folder, env=environment(), text=True, capture_output=True, timeout=TIMEOUT)
        return done, " ".join(command)

    def prepare(self, case):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="carafe_pairs_"))
        (folder / "digits_train_lmdb").symlink_to(self.databases / "digits_train_lmdb")
        (folder / "net.prototxt").write_text(NET.format(batch=BATCH, norm=NORM if case["normalised"] else ""))
        start = self.databases / f"start_{case['normalised']}.caffemodel"
        if start.exists():
            shutil.copy(start, folder / "start.caffemodel")
        return folder

    def final_weights(self, folder, case):
        """(weights, problem) of the last snapshot; HDF5 is converted by a run of no iterations."""
        if case["snapshot_format"] == "BINARYPROTO":
            return weights(folder / f"snap_iter_{ITERATIONS}.caffemodel"), None
        (folder / "solver.prototxt").write_text(
            solver_text({**case, "snapshot_format": "BINARYPROTO"}, 0).replace('"snap"', '"copy"'))
        done = subprocess.run([CARAFE, "train", "--solver=solver.prototxt",
                               f"--weights=snap_iter_{ITERATIONS}.caffemodel.h5"], cwd=folder, env=environment(), text=True,
                              capture_output=True, timeout=TIMEOUT)
        if done.returncode != 0:
            return None, done.stderr
        return weights(folder / "copy_iter_0.caffemodel"), None

    def run(self, case):
        """(weights, problem, command): one of the first two is None. With --snapshot the run is resumed from its middle."""
        folder = self.prepare(case)
        try:
            if case.get("snapshot") is not None:
                done, command = self.train(folder, case, ITERATIONS)
                if done.returncode != 0:
                    return None, done.stderr, command
                for path in folder.glob(f"snap_iter_{ITERATIONS}.*"):
                    path.unlink()
                done, command = self.train(folder, case, ITERATIONS, f"--snapshot={case['snapshot']}")
            else:
                done, command = self.train(folder, case, ITERATIONS)
            if done.returncode != 0 or not list(folder.glob(f"snap_iter_{ITERATIONS}.caffemodel*")):
                return None, f"exit code {done.returncode}\n{done.stderr}", command
            return *self.final_weights(folder, case), command
        finally:
            shutil.rmtree(folder)


class OptionPairs(CarafeTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rows = json.loads(subprocess.run([CARAFE, "options", "--json"], check=True, capture_output=True, text=True).stdout)
        cls.rows = {row["name"]: row for row in rows["train"] if row["name"] not in LEFT_OUT}
        cls.factors = {**SETTINGS, **{name: factor_values(row) for name, row in cls.rows.items()}}
        cls.runner = Runner(cls.rows, cls.databases)
        for normalised in (False, True):
            case = cls.plain({"normalised": normalised})
            folder = cls.runner.prepare(case)
            cls.runner.train(folder, case, ITERATIONS)
            shutil.move(folder / f"snap_iter_{ITERATIONS}.caffemodel", cls.databases / f"start_{normalised}.caffemodel")
            shutil.rmtree(folder)

    @classmethod
    def plain(cls, chosen):
        """The settings of `chosen`, and first values of the others; no flags but those chosen."""
        return {**{name: values[0] for name, values in SETTINGS.items()}, **chosen}

    def reference(self, case):
        """The same run with nothing but what may change weights (and what that needs), and without interruption."""
        reference = {name: value for name, value in case.items()
                     if name in SETTINGS or (name != "snapshot" and self.rows[name]["may_change_weights"])}
        if (case["exchange_timeout"] != "-1" or case["staleness"] != "0" or case["exchange"] in OWN_WEIGHTS
                or case["server_update"] != "clock"):
            reference["exchange"] = case["exchange"]
        return reference

    def test_every_option_has_values_to_try(self):
        self.assertEqual([name for name, values in self.factors.items() if set(values) <= {None}], [],
                         "give the row `samples`")

    def test_every_pair_of_values(self):
        cases = pairwise(self.factors, forbidden)
        found = set().union(*map(pairs_of, cases))
        self.assertEqual(wanted_pairs(self.factors, forbidden) - found, set())
        references = {}
        for case in cases:
            reference = self.reference(case)
            references.setdefault(json.dumps(reference, sort_keys=True), reference)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            expected = dict(zip(references, pool.map(self.runner.run, references.values())))
            results = list(pool.map(self.runner.run, cases))
        for case, (values, problem, command) in zip(cases, results):
            with self.subTest(command=command, **{name: case[name] for name in SETTINGS}):
                plain, plain_problem, plain_command = expected[json.dumps(self.reference(case), sort_keys=True)]
                self.assertIsNone(plain_problem, plain_command)
                self.assertIsNone(problem)
                self.assertEqual(list(values), list(plain))
                # What is measured may lead to another choice in another run; what a stale rank reads depends on time.
                if (case["algorithm"] != "measure" and case["exchange"] != "auto"
                        and (case["staleness"] == "0" and case["server_update"] == "clock" or case["ranks"] == 1)):
                    self.assertEqual(values, plain, f"other weights than {plain_command}")

    def test_refused_pairs(self):
        """What must not be combined is refused with a remedy, not ignored."""
        for flags, words in ((["--exchange=allreduce", "--exchange_timeout=60"], "--exchange_timeout is for --exchange=server"),
                             (["--exchange=server", "--exchange_timeout=60", "--wire=bf16"], "--wire=bf16 cannot encode"),
                             (["--wire=int8"], '--wire is "int8"'),
                             (["--exchange=sfb", "--wire=bf16"], "--wire=bf16 is not for --exchange=sfb"),
                             (["--exchange=tree", "--plan=ip:sfb"], "--plan is for --exchange=sfb or auto, not for tree"),
                             (["--exchange=sfb", "--plan=conv:sfb"], 'layer "conv" has no factors'),
                             (["--exchange=tree", "--staleness=1"], "--exchange=tree is synchronous, but the staleness is 1"),
                             (["--exchange=tree", "--server_update=arrival"], "are for --exchange=ssp, not for tree"),
                             (["--exchange=ssp", "--combine=sum"], "--combine=sum adds the updates"),
                             (["--exchange=ssp", "--bandwidth_mbps=10"], "manage what --consistency=sspaggr sends"),
                             (["--exchange=ssp", "--exchange_timeout=60"], "--exchange_timeout is for --exchange=server"),
                             (["--exchange=local", "--staleness=1"], "--exchange=local is synchronous, but the staleness is 1"),
                             (["--exchange=local", "--wire=bf16"], "--wire=bf16 is not for --exchange=local"),
                             (["--exchange=tree", "--local_steps=2"], "--local_steps is for --exchange=local, not for tree"),
                             (["--weights=a", "--snapshot=b"], "--weights and --snapshot are both given"),
                             (["--global_batch=1", "--workers=2"], "--global_batch=1 leaves no row")):
            case = self.plain({})
            folder = self.runner.prepare(case)
            for ranks in (1, 2):
                done, command = self.runner.train(folder, {**case, "ranks": ranks}, ITERATIONS, *flags)
                self.assertEqual(done.returncode, 1, command)
                self.assertIn(words, done.stderr)
                self.assertEqual(done.stderr.count("fix: "), 1, done.stderr)
            shutil.rmtree(folder)

    def test_other_weights_are_noticed(self):
        a, b = (self.runner.run(self.plain({"lr_scaling": scaling, "workers": "2"}))[0] for scaling in ("none", "linear"))
        self.assertNotEqual(a, b)


if __name__ == "__main__":
    main()
