#!/usr/bin/env python3
"""Command lines as PMLS-Caffe's scripts form them: what each flag becomes, the files that they ask for, and refusals. Prints
`N passed, N failed`."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import CARAFE, CarafeTest, main  # noqa: E402

ITERATIONS = 20


class Pmls(CarafeTest):
    def setUp(self):
        super().setUp()
        self.write_net(batch=4)
        self.write_solver(max_iter=ITERATIONS, more="snapshot_after_train: true\n")
        self.write("hosts1", "0 127.0.0.1 9999\n")
        self.write("hosts2", "0 127.0.0.1 9999\n1 127.0.0.1 10999\n")

    def script_line(self, clients=1, threads=2, staleness=0, model="SSPPush", svb="false", more=()):
        """The arguments in the order and the forms of the training scripts, without a client's own number."""
        return ["train", "--init_thread_access_table=true", "--hostfile", f"hosts{clients}", "--num_clients", clients,
                "--num_table_threads", threads, "--table_staleness", staleness, "--num_comm_channels_per_client", 8,
                "--num_rows_per_table", 32, "--stats_path", "caffe_stats.yaml", f"--consistency_model={model}",
                "--solver=solver.prototxt", f"--svb={svb}", "--net_outputs=mnist", *more]

    def final_weights(self):
        return (self.dir / f"snap/small_iter_{ITERATIONS}.caffemodel").read_bytes()

    def test_one_client_trains_and_every_flag_is_explained(self):
        log = self.log_of(self.carafe(*self.script_line(more=("--client_id", 0))))
        for line in ("--hostfile=hosts1 of PMLS-Caffe: 1 hosts, one for each rank of the launcher",
                     "--client_id=0 of PMLS-Caffe: the launcher's rank",
                     "--num_table_threads=2 of PMLS-Caffe: --workers=1; one thread was the table's own",
                     "--table_staleness=0 of PMLS-Caffe: --exchange=ssp --staleness=0",
                     "--svb=false of PMLS-Caffe: no factors are sent",
                     "Optimization Done."):
            self.assertIn(line, log)
        for flag in ("init_thread_access_table", "num_clients", "num_comm_channels_per_client", "num_rows_per_table",
                     "consistency_model"):
            self.assertEqual(len([line for line in log if line.startswith(f"--{flag}=")]), 1, flag)

    def test_two_clients_have_the_weights_of_the_options_that_the_flags_stand_for(self):
        for threads, svb, ours in (3, "false", "--exchange=ssp"), (2, "true", "--exchange=sfb"):
            with self.subTest(svb=svb):
                self.carafe(*self.script_line(clients=2, threads=threads, svb=svb), ranks=2)
                theirs = self.final_weights()
                self.carafe("train", "--solver=solver.prototxt", ours, f"--workers={threads - 1}", ranks=2)
                self.assertEqual(theirs, self.final_weights())

    def test_staleness_is_kept(self):
        log = "\n".join(self.log_of(self.carafe(*self.script_line(clients=2, staleness=2), ranks=2)))
        self.assertIn("--table_staleness=2 of PMLS-Caffe: --exchange=ssp --staleness=2", log)
        self.assertIn("staleness of the weights that were read", log)

    def test_net_outputs_are_those_of_the_log(self):
        log = self.log_of(self.carafe(*self.script_line(clients=2), ranks=2))
        blocks = (self.dir / "mnist.netoutputs").read_text().split("\n\n")
        self.assertEqual(len(blocks), 3)  # train, test, and what follows the last empty line
        train, test = (block.splitlines() for block in blocks[:2])
        self.assertEqual(train[0], "Iteration,time,loss,loss,")
        self.assertEqual([row.split(",")[0] for row in train[1:]], ["0", str(ITERATIONS)])
        self.assertEqual(test[0], "Iteration,time,loss,accuracy,loss,")
        self.assertEqual([row.split(",")[0] for row in test[1:]], ["0"])
        accuracy = [line for line in log if "Test net output #0: accuracy" in line]
        self.assertTrue(accuracy[0].endswith("= " + test[1].split(",")[3]), (accuracy, test))
        own = [(self.dir / f"mnist.netoutputs.{rank}").read_text().splitlines()[1].split(",") for rank in (0, 1)]
        mean = sum(float(row[2]) for row in own) / 2
        self.assertAlmostEqual(mean, float(train[1].split(",")[2]), delta=2e-5 * mean)
        self.assertNotEqual(own[0][2], own[1][2])

    def test_statistics_add_up(self):
        self.carafe(*self.script_line(clients=2), ranks=2)
        for rank in (0, 1):
            text = (self.dir / f"caffe_stats.yaml.{rank}").read_text()
            self.assertEqual(len(text.split("\n---\n")), 2)
            values = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
            for total, steps in (("bg_accum_oplog_sent_mb", "bg_per_clock_oplog_sent_mb"),
                                 ("bg_accum_server_push_row_recv_mb", "bg_per_clock_server_push_row_recv_mb")):
                by_step = [float(x) for x in values[steps].strip("[]").split(",")]
                self.assertEqual(len(by_step), ITERATIONS)
                self.assertGreater(float(values[total]), 0)
                self.assertAlmostEqual(sum(by_step), float(values[total]), delta=1e-3 * float(values[total]))

    def test_what_cannot_be_kept_is_refused_once_with_a_remedy(self):
        for line, ranks, words in (
                (self.script_line(clients=2), 1, "--hostfile=hosts2 of PMLS-Caffe means 2 processes, but there is one"),
                (self.script_line(clients=2, staleness=1, svb="true"), 2, "factors are exchanged synchronously here"),
                (self.script_line(more=("--snapshot_clock=5",)), 1, "--snapshot_clock=5 of PMLS-Caffe has no counterpart here"),
                (self.script_line(threads=1), 1, "leaves no worker"),
                (self.script_line(clients=2, more=("--exchange=tree",)), 2, "but --exchange=tree is given")):
            result = self.carafe(*line, ranks=ranks, expect=1)
            self.assertIn(words, result.stderr)
            self.assertEqual(result.stderr.count("fix: "), 1, result.stderr)

    def test_switches_in_every_form_of_gflags(self):
        for form, word in ("--svb", "true"), ("--nosvb", "false"), ("--svb=false", "false"), ("-svb=true", "true"):
            log = "\n".join(self.log_of(self.carafe("train", "--solver=solver.prototxt", form)))
            self.assertRegex(log, re.compile(rf"^--svb={word} of PMLS-Caffe: ", re.M), form)

    def test_the_program_has_its_old_name(self):
        self.assertEqual((CARAFE.parent / "caffe_main").resolve(), CARAFE.resolve())

    def test_a_path_that_cannot_be_written_ends_the_run_at_its_start(self):
        for flag in ("--stats_path=missing/stats.yaml", "--net_outputs=missing/out"):
            result = self.carafe("train", "--solver=solver.prototxt", flag, expect=1)
            self.assertIn("missing/", result.stderr)
            self.assertNotIn("Solving", result.stderr)


if __name__ == "__main__":
    main()
