#!/usr/bin/env python3
"""`carafe plan`, the profiles of `carafe time`, and schemes that layers name in the net's file."""
import json
import pathlib
import sys
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import CarafeTest, main  # noqa: E402

EXCHANGES = ["allreduce", "server", "tree", "ssp", "sfb", "auto"]


class Plan(CarafeTest):
    def profile(self, name="node.json"):
        """Measures this machine, then sets all times, so that nothing depends on it."""
        self.carafe("time", "--model=net.prototxt", "--iterations=1", f"--profile={name}")
        profile = json.loads((self.dir / name).read_text())
        for layer in profile["layers"]:
            layer["forward_ms"], layer["backward_ms"] = 1, 2
        profile["gemm_gflops"], profile["update_gb_per_second"] = 50, 5
        self.write(name, json.dumps(profile))
        return profile

    def rows(self, *arguments):
        result = self.carafe("plan", "net.prototxt", "--profile=node.json", "--json", *arguments)
        return {(row["exchange"], row["ranks"]): row for row in json.loads(result.stdout)["rows"]}

    def test_a_profile_has_the_layers_of_the_net(self):
        profile = self.profile()
        self.assertEqual(profile["format"], "carafe profile 1")
        self.assertEqual(profile["batch"], 16)
        layers = {layer["name"]: layer for layer in profile["layers"]}
        self.assertEqual(layers["conv1"]["gradients"], [{"bytes": 4 * 4 * 25}, {"bytes": 4 * 4}])
        self.assertEqual(layers["ip"]["gradients"][0]["factors"], {"rows": 16, "outputs": 10, "inputs": 576})

    def test_table_and_json_have_every_exchange(self):
        self.profile()
        rows = self.rows("--ranks=6", "--bandwidth=1gbit")
        self.assertEqual(sorted(rows), sorted((e, r) for e in EXCHANGES for r in (1, 2, 4, 6)))
        gradients = 4 * (4 * 25 + 4 + 5760 + 10)
        self.assertEqual(rows["allreduce", 2]["bytes"], gradients)
        self.assertEqual(rows["server", 4]["bytes"], 3 * gradients)
        table = self.carafe("plan", "net.prototxt", "--profile=node.json", "--ranks=6", "--bandwidth=1gbit").stdout
        self.assertIn("small, batch of 16 a rank", table)
        for exchange in EXCHANGES:
            self.assertRegex(table, rf"(?m)^{exchange} +6 +[\d.]+ +[\d.]+ +[\d.]+ % +[\d.]+ +[\d.]+  engine$")

    def test_a_solver_and_this_machine_are_enough(self):
        result = self.carafe("plan", "solver.prototxt", "--ranks=2", "--iterations=1")
        self.assertRegex(result.stdout, r"(?m)^auto +2 ")

    def test_the_same_command_prints_the_same(self):
        self.profile()
        self.assertEqual(self.rows("--ranks=8", "--slow=10%:3"), self.rows("--ranks=8", "--slow=10%:3"))

    def test_slow_networks_and_ranks_take_longer(self):
        self.profile()
        step = [self.rows("--ranks=4", *more)["allreduce", 4]["step_ms"]
                for more in ((), ("--bandwidth=1mbit",), ("--latency=50ms",), ("--slow=1:2.0",))]
        for longer in step[1:]:
            self.assertGreater(longer, 1.5 * step[0])

    def test_a_plot(self):
        self.profile()
        self.rows("--ranks=8", "--svg=plan.svg")
        tree = xml.etree.ElementTree.parse(self.dir / "plan.svg")
        lines = tree.findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual(len(lines), len(EXCHANGES))

    def test_mistakes(self):
        self.profile()
        for flags, message in (
                (["--bandwidth=10"], 'error: --bandwidth is "10"\n  fix: write a number above 0 and a unit'),
                (["--latency=20"], 'error: --latency is "20"\n  fix: write a number and a unit'),
                (["--slow=half"], 'error: --slow: "half" is not WHO:FACTOR\n  fix: '),
                (["--ranks=0"], 'error: --ranks is 0\n  fix: use 1 to 16384'),
                (["--profile=none.json"], "none.json"),
                (["--profile=net.prototxt"], "net.prototxt: error: this is no profile of a machine: it is not JSON\n"
                                             "  fix: write one: carafe time --model=NET --profile=FILE"),
                (["--svg=no/such/folder.svg"], "no/such/folder.svg")):
            given = [] if "--profile" in flags[0] else ["--profile=node.json"]
            error = self.carafe("plan", "net.prototxt", *given, *flags, expect=1).stderr
            self.assertIn(message, error)
        self.assertIn("file is required", self.carafe("plan", expect=1).stderr)

    def test_a_profile_of_another_net_is_refused(self):
        self.profile()
        self.write_net(batch=8)
        self.assertIn('node.json: error: the gradients or rows of layer "ip" are not those of net.prototxt\n'
                      "  fix: write one of this net: carafe time --model=net.prototxt --profile=node.json",
                      self.carafe("plan", "net.prototxt", "--profile=node.json", expect=1).stderr)

    def test_a_profile_is_of_training(self):
        self.assertIn("--profile is for the passes of training",
                      self.carafe("time", "--model=net.prototxt", "--profile=x.json", "--phase=TEST", expect=1).stderr)


class LayerScheme(CarafeTest):
    def name_scheme(self, layer, scheme):
        self.write_net(replace=((f'name: "{layer}"', f'name: "{layer}" exchange_scheme: "{scheme}"'),))

    def train(self, *arguments, **options):
        return self.carafe("train", "--solver=solver.prototxt", *arguments, **options)

    def test_other_exchanges_say_that_they_do_not_use_it(self):
        self.write_solver(max_iter=2)
        self.name_scheme("ip", "sfb")
        lines = [line for line in self.log_of(self.train()) if "exchange_scheme" in line]
        self.assertEqual(lines, ["exchange_scheme of layers is not used by --exchange=allreduce (but by sfb and auto): "
                                 "ip:sfb"])
        lines = self.log_of(self.train("--exchange=sfb", ranks=2))
        self.assertIn("layers by factors or dense: --plan=ip:sfb", lines)
        self.assertFalse([line for line in lines if "exchange_scheme" in line])

    def test_mistakes_have_their_place(self):
        self.name_scheme("ip", "fsb")
        for command in (["train", "--solver=solver.prototxt"], ["check", "solver.prototxt"]):
            error = self.carafe(*command, expect=1).stderr
            self.assertRegex(error, r'net\.prototxt:\d+:\d+: error: layer "ip" \(InnerProduct\): exchange_scheme is "fsb", '
                                    r"which names no scheme\n  fix: the schemes are dense and sfb")
        self.name_scheme("conv1", "sfb")
        self.assertRegex(self.train("--exchange=sfb", expect=1).stderr,
                         r'net\.prototxt:\d+:\d+: error: layer "conv1" \(Convolution\): it has no factors .*\n'
                         r"  fix: remove exchange_scheme")


if __name__ == "__main__":
    main()
