#!/usr/bin/env python3
"""Bad input gets one readable error with a remedy and exit code 1, on one rank or on many; nothing half-written stays."""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import CARAFE, CarafeTest, main  # noqa: E402
import subprocess


class BadInput(CarafeTest):
    def expect_error(self, text, *arguments):
        """`text` is the whole error, printed once, whatever the number of ranks."""
        arguments = arguments or ("train", "--solver=solver.prototxt")
        before = sorted(p.name for p in self.dir.iterdir())
        for ranks in (1, 2):
            result = self.carafe(*arguments, ranks=ranks, expect=1)
            self.assertIn(text, result.stderr)
            self.assertEqual(result.stderr.count(text), 1, result.stderr)
        after = sorted(p.name for p in self.dir.iterdir() if p.name != "snap")
        self.assertEqual(before, after, "a file was left behind")
        if (self.dir / "snap").exists():
            self.assertEqual([p.name for p in (self.dir / "snap").iterdir()], [])

    def test_misspelt_field_of_the_solver(self):
        self.write_solver(more="lr_polcy: \"step\"\n")
        self.expect_error('solver.prototxt:16:1: error: SolverParameter has no field named "lr_polcy"\n'
                          '  fix: did you mean "lr_policy"?')

    def test_misspelt_field_of_the_net(self):
        self.write_net(replace=[("kernel_size", "kernel_sise")])
        self.expect_error('net.prototxt:26:37: error: ConvolutionParameter has no field named "kernel_sise"\n'
                          '  fix: did you mean "kernel_size"?')

    def test_unknown_layer_type(self):
        self.write_net(replace=[('"Convolution"', '"Convolutoin"')])
        self.expect_error('net.prototxt:23:3: error: layer "conv1": unknown layer type "Convolutoin"\n'
                          '  fix: did you mean "Convolution"')

    def test_missing_database(self):
        self.write_net(replace=[("digits_train_lmdb", "no_such_lmdb")])
        self.expect_error("no_such_lmdb")

    def test_shape_that_does_not_fit(self):
        self.write_net(replace=[("kernel_size: 5", "kernel_size: 50")])
        self.expect_error('layer "conv1" (Convolution): ')

    def test_top_produced_twice(self):
        self.write_net(replace=[('"Dropout" bottom: "conv1" top: "conv1"', '"Dropout" bottom: "conv1" top: "label"')])
        self.expect_error('net.prototxt:29:55: error: layer "drop1" (Dropout): the top "label" is produced by layer "data" already\n  fix: ')

    def test_unknown_bottom(self):
        self.write_net(replace=[('bottom: "conv1"\n  top: "ip"', 'bottom: "cnov1"\n  top: "ip"')])
        self.expect_error('net.prototxt:33:3: error: layer "ip" (InnerProduct): no earlier layer produces the bottom '
                          '"cnov1"\n  fix: did you mean "conv1"?')

    def test_truncated_caffemodel(self):
        self.carafe("train", "--solver=solver.prototxt")
        whole = (self.dir / "snap/small_iter_40.caffemodel").read_bytes()
        shutil.rmtree(self.dir / "snap")
        (self.dir / "cut.caffemodel").write_bytes(whole[:len(whole) // 2])
        self.expect_error(f"cut.caffemodel: error: this is not a whole .caffemodel ({len(whole) // 2} bytes)\n  fix: ",
                          "train", "--solver=solver.prototxt", "--weights=cut.caffemodel")

    def test_truncated_solverstate(self):
        self.carafe("train", "--solver=solver.prototxt")
        whole = (self.dir / "snap/small_iter_40.solverstate").read_bytes()
        (self.dir / "cut.solverstate").write_bytes(whole[:100])
        shutil.rmtree(self.dir / "snap")
        self.expect_error("cut.solverstate: error: this is not a whole .solverstate (100 bytes)\n  fix: ",
                          "train", "--solver=solver.prototxt", "--snapshot=cut.solverstate")

    def test_batch_of_0(self):
        self.write_net(batch=0)
        self.expect_error('layer "data" (Data): batch_size is 0 or missing\n  fix: ')

    def test_empty_database(self):
        program = pathlib.Path(self.dir / "empty_lmdb")
        program.mkdir()
        # The smallest valid LMDB is what an environment without any write leaves: two meta pages.
        subprocess.run([CARAFE, "digits", "--out", self.dir / "one", "--train", "1", "--test", "1"], check=True,
                       stdout=subprocess.DEVNULL)
        pages = bytearray((self.dir / "one/digits_train_lmdb/data.mdb").read_bytes()[:8192])
        for page in (0, 4096):  # meta page: main database without root or entries, last page 1, transaction 0
            main_db = page + 16 + 24 + 48
            pages[main_db + 4:main_db + 8] = bytes(4)            # flags, depth
            pages[main_db + 8:main_db + 40] = bytes(32)          # branch, leaf, overflow pages; entries
            pages[main_db + 40:main_db + 48] = b"\xff" * 8       # root: none
            free_db = page + 16 + 24
            pages[free_db + 4 + 2:free_db + 8] = bytes(2)        # depth
            pages[free_db + 8:free_db + 40] = bytes(32)
            pages[free_db + 40:free_db + 48] = b"\xff" * 8
            pages[main_db + 48:main_db + 56] = (1).to_bytes(8, "little")  # last page used
        (program / "data.mdb").write_bytes(pages)
        shutil.rmtree(self.dir / "one")
        self.write_net(replace=[("digits_train_lmdb", "empty_lmdb")])
        self.expect_error("empty_lmdb: error: ")

    def test_no_solver_file(self):
        self.expect_error("nosuch.prototxt: error: the file cannot be read: No such file or directory\n  fix: ",
                          "train", "--solver=nosuch.prototxt")

    def test_weights_and_snapshot_together(self):
        self.expect_error("error: --weights and --snapshot are both given\n  fix: ", "train",
                          "--solver=solver.prototxt", "--weights=a", "--snapshot=b")

    def test_unknown_exchange_lists_what_is_built(self):
        self.expect_error('error: --exchange is "alreduce"\n  fix: did you mean "allreduce"? Use one of allreduce, auto, local, server, sfb, ssp, tree',
                          "train", "--solver=solver.prototxt", "--exchange=alreduce")

    def test_values_of_flags(self):
        for flag, text in (("--sum=foo", '--sum is "foo"\n  fix: use one of auto, owners, halving'),
                           ("--workers=5000", "--workers is 5000\n  fix: use 1 to 4096"),
                           ("--workers=two", '--workers is "two"\n  fix: use 1 to 4096'),
                           ("--threads=0", "--threads is 0\n  fix: use 1 to 1024"),
                           ("--threads=-3", "--threads is -3\n  fix: use 1 to 1024"),
                           ("--threads=100000", "--threads is 100000\n  fix: use 1 to 1024"),
                           ("--check_replicas=-1", "--check_replicas is -1\n  fix: use 0 or more"),
                           ("--comm_timeout=-1", "--comm_timeout is -1\n  fix: use 0.1 to 86400"),
                           ("--message_kb=0.5", "--message_kb is 0.5\n  fix: use 1 to 65536, or 0 to measure it"),
                           ("--algorithm=fft", '--algorithm is "fft"\n  fix: use one of auto, measure, gemm, direct, '
                            "winograd, winograd2x2")):
            self.expect_error("error: " + text, "train", "--solver=solver.prototxt", flag)
        for command in ("test", "time"):
            weights = ["--weights=x"] if command == "test" else []
            result = self.carafe(command, "--model=net.prototxt", *weights, "--threads=100000", expect=1)
            self.assertIn("error: --threads is 100000\n  fix: use 1 to 1024", result.stderr)

    def test_threads_of_the_environment(self):
        result = self.carafe("train", "--solver=solver.prototxt", env={"OMP_NUM_THREADS": "100000"}, expect=1)
        self.assertIn("error: OMP_NUM_THREADS is 100000\n  fix: use 0 to 1024", result.stderr)

    def test_algorithm_of_the_environment(self):
        result = self.carafe("train", "--solver=solver.prototxt", env={"CARAFE_ALGORITHM": "fft"}, expect=1)
        self.assertIn('error: --algorithm is "fft"', result.stderr)

    def test_gpu_without_one(self):
        self.expect_error("no GPU", "train", "--solver=solver.prototxt", "--gpu=0")

    def test_check_finds_the_same(self):
        self.write_net(replace=[("num_output: 10", "num_output: 0")])
        result = self.carafe("check", "solver.prototxt", expect=1)
        self.assertEqual(result.stderr,
                         'net.prototxt:35:25: error: layer "ip" (InnerProduct): num_output is 0 or missing\n'
                         "  fix: give the number of outputs, e.g. num_output: 10\n")


if __name__ == "__main__":
    main()
