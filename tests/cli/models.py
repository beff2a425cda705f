#!/usr/bin/env python3
"""models/: every file passes `carafe check` without data, and `carafe summary` shows the published figures."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import ROOT, CarafeTest, main  # noqa: E402

# Learned parameters in millions and multiply-adds per image in billions, with the margin of their rounding.
PUBLISHED = {
    "bvlc_reference_caffenet": ((60.97, 0.005), (0.724, 0.01)),
    "bvlc_alexnet": ((60.97, 0.005), (0.724, 0.01)),
    "bvlc_googlenet": ((6.99, 0.015), (1.6, 0.05)),
    "vgg16": ((138.36, 0.005), (15.5, 0.05)),
    "resnet50": ((25.56, 0.005), (3.95, 0.15)),
    "mobilenet_v1": ((4.23, 0.005), (0.57, 0.005)),
}


class Models(CarafeTest):
    def setUp(self):
        super().setUp()
        (self.dir / "models").symlink_to(ROOT / "models")

    def summary(self, *arguments):
        return json.loads(self.carafe("summary", *arguments, "--json").stdout)

    def test_there_is_a_test_for_every_model(self):
        folders = {path.parent.name for path in (ROOT / "models").glob("*/deploy.prototxt")}
        self.assertEqual(folders, set(PUBLISHED))

    def test_every_file_passes_check_without_data(self):
        files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "models").glob("*/*.prototxt"))
        self.assertGreaterEqual(len(files), 3 * len(PUBLISHED))
        out = self.carafe("check", *files).stdout
        for file in files:
            kind = "solver" if file.endswith("solver.prototxt") else "net"
            self.assertIn(f"{file}: this {kind} is fine\n", out)

    def test_parameters_and_multiply_adds_are_the_published_ones(self):
        for model, ((millions, millions_margin), (billions, billions_margin)) in PUBLISHED.items():
            total = self.summary(f"models/{model}/deploy.prototxt")["total"]
            self.assertAlmostEqual(total["parameters"] / 1e6, millions, delta=millions_margin, msg=model)
            self.assertAlmostEqual(total["multiply_adds_per_image"] / 1e9, billions, delta=billions_margin, msg=model)

    def test_training_has_the_parameters_of_deploying(self):
        for model in PUBLISHED:
            train = self.summary(f"models/{model}/solver.prototxt")
            deploy = self.summary(f"models/{model}/deploy.prototxt")
            deployed = {layer["name"]: layer for layer in deploy["layers"]}
            extra = 0
            for layer in train["layers"]:
                if layer["name"] in deployed:
                    self.assertEqual(layer["parameters"], deployed[layer["name"]]["parameters"], layer["name"])
                else:
                    extra += layer["parameters"]
            self.assertEqual(train["total"]["parameters"], deploy["total"]["parameters"] + extra)
            # The two auxiliary classifiers of GoogLeNet, and nothing else.
            self.assertEqual(extra > 0, model == "bvlc_googlenet", model)

    def test_summary_of_a_solver_in_both_phases(self):
        train = self.summary("models/bvlc_googlenet/solver.prototxt")
        test = self.summary("models/bvlc_googlenet/solver.prototxt", "--phase=TEST")
        self.assertEqual((train["batch"], test["batch"]), (32, 50))
        self.assertNotIn("loss3/top-5", {layer["name"] for layer in train["layers"]})
        self.assertIn("loss3/top-5", {layer["name"] for layer in test["layers"]})

    def test_summary_is_a_table_for_people(self):
        out = self.carafe("summary", "models/resnet50/train_val.prototxt").stdout
        self.assertIn("fc1000", out)
        self.assertIn("ilsvrc12_train_lmdb does not exist; assuming batches of 32x3x224x224", out)
        widths = {len(line) for line in out.splitlines() if line.startswith("----")}
        self.assertEqual(len(widths), 1)
        self.assertLess(widths.pop(), 140)

    def test_summary_of_data_that_are_there(self):
        self.assertEqual(self.summary("net.prototxt")["layers"][0]["tops"][0]["shape"], [16, 1, 28, 28])

    def test_records_of_unknown_size_need_a_shape(self):
        self.write_net(replace=[("digits_train_lmdb", "gone_lmdb")])
        result = self.carafe("summary", "net.prototxt", expect=1)
        self.assertIn("gone_lmdb does not exist, and no setting gives the size of its records\n  fix: ", result.stderr)
        self.assertEqual(self.summary("net.prototxt", "--data_shape=3,9,9")["layers"][0]["tops"][0]["shape"],
                         [16, 3, 9, 9])
        self.assertIn("--data_shape needs three numbers", self.carafe("check", "net.prototxt", "--data_shape=3,9",
                                                                      expect=1).stderr)


if __name__ == "__main__":
    main()
