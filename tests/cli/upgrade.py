#!/usr/bin/env python3
"""The tools that write old files anew: under Caffe's names, with its text, bytes and exit codes."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import CARAFE, ROOT, TIMEOUT, CarafeTest, main  # noqa: E402

FORMATS = ROOT / "tests/golden/formats"


class Upgrade(CarafeTest):
    def tool(self, name, *arguments, expect=0):
        """Runs the program of that name beside `carafe`."""
        result = subprocess.run([CARAFE.parent / name, *map(str, arguments)], cwd=self.dir, capture_output=True, text=True,
                                timeout=TIMEOUT)
        self.assertEqual(result.returncode, expect, result.stderr)
        return result

    def test_the_old_names_are_programs(self):
        old = FORMATS / "upgrade/v1_net.prototxt"
        self.tool("upgrade_net_proto_text", old, "by_name")
        self.carafe("upgrade_net_proto_text", str(old), "by_command")
        text = (self.dir / "by_name").read_text()
        self.assertEqual(text, (FORMATS / "upgrade/v1_net.upgraded.prototxt").read_text())
        self.assertEqual(text, (self.dir / "by_command").read_text())
        self.assertIn("images", self.tool("convert_mnist_data", "--help").stdout)
        self.assertIn("examples:", self.tool("caffe").stdout)

    def test_a_solver(self):
        self.tool("upgrade_solver_proto_text", FORMATS / "upgrade/solver_adam.prototxt", "out")
        self.assertEqual((self.dir / "out").read_text(), (FORMATS / "upgrade/solver_adam.upgraded.prototxt").read_text())

    def test_weights_become_the_bytes_that_the_original_writes(self):
        for old in ("v1", "v1_upgraded"):
            self.tool("upgrade_net_proto_binary", FORMATS / f"models/m_convnet_{old}.caffemodel", "out")
            self.assertEqual((self.dir / "out").read_bytes(),
                             (FORMATS / "models/m_convnet_v1_upgraded.caffemodel").read_bytes(), old)

    def test_a_file_of_the_present_form_is_written_as_it_is(self):
        self.tool("upgrade_net_proto_text", "net.prototxt", "once")
        log = self.tool("upgrade_net_proto_text", "once", "twice").stderr
        self.assertIn("present form already", log)
        self.assertEqual((self.dir / "once").read_text(), (self.dir / "twice").read_text())

    def test_exit_code_1_for_wrong_usage(self):
        for name in ("upgrade_net_proto_text", "upgrade_net_proto_binary", "upgrade_solver_proto_text"):
            self.assertIn("fix: ", self.tool(name, "net.prototxt", expect=1).stderr)
            self.assertIn("fix: ", self.tool(name, "net.prototxt", "out", "more", expect=1).stderr)

    def test_exit_code_2_for_a_file_that_cannot_be_read(self):
        (self.dir / "bad").write_text("layer {")
        for name in ("upgrade_net_proto_text", "upgrade_net_proto_binary", "upgrade_solver_proto_text"):
            for file in ("bad", "no_such_file"):
                self.assertIn(f"{file}", self.tool(name, file, "out", expect=2).stderr)
                self.assertFalse((self.dir / "out").exists())

    def test_exit_code_1_for_what_cannot_be_kept(self):
        (self.dir / "v0").write_text('layers { layer { name: "r" type: "relu" num_output: 2 } top: "r" }')
        log = self.tool("upgrade_net_proto_text", "v0", "out", expect=1).stderr
        self.assertIn('v0:1:41: layer "r": num_output means nothing to type relu, it is left out', log)
        self.assertEqual((self.dir / "out").read_text().split(), 'layer { name: "r" type: "ReLU" top: "r" }'.split())
        (self.dir / "v0").write_text('layers { layer { name: "r" type: "rleu" } }')
        self.assertIn('unknown V0 layer type "rleu"', self.tool("upgrade_net_proto_text", "v0", "none", expect=1).stderr)
        self.assertFalse((self.dir / "none").exists())


if __name__ == "__main__":
    main()
