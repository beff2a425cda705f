"""The nets of the race as prototxts: those of models/ by their generators, the small ones and the LSTM from here.

All are written alike for both sides of the race: inputs are blobs that are filled once, every parameter learns and
decays alike. Weights start by xavier everywhere: no signal dies out, so that results can be compared (then also without
dropout), and its draws are quick.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "models"))
from generators import caffenet, googlenet, mobilenet_v1, resnet50, vgg16  # noqa: E402
from generators.net import AVE, MAX, XAVIER, Net  # noqa: E402
from generators.prototxt import Enum, text  # noqa: E402

STEPS, WIDTH, SYMBOLS = 50, 512, 128  # of the LSTM: steps, units of a layer and of its input, classes per step
HEAD = ["# Written by benchmarks/run."]
SOLVER = {"type": "SGD", "base_lr": 1e-6, "lr_policy": "fixed", "momentum": 0.9, "weight_decay": 0.0005,
          "max_iter": 1000000000, "random_seed": 1, "solver_mode": Enum("CPU")}


def _lenet(deploy):
    n = Net("LeNet", XAVIER)
    x = n.pool("pool1", n.conv("conv1", "data", 20, 5), MAX, 2, 2)
    x = n.pool("pool2", n.conv("conv2", x, 50, 5), MAX, 2, 2)
    x = n.relu("relu1", n.fc("ip1", x, 500))
    n.end(n.fc("ip2", x, 10), deploy)
    return n


def _cifar10(deploy, full):
    n = Net("CIFAR10_full" if full else "CIFAR10_quick", XAVIER)

    def norm(name, x):
        return n.layer("LRN", name, x, name, lrn_param={"local_size": 3, "alpha": 5e-05, "beta": 0.75,
                                                        "norm_region": Enum("WITHIN_CHANNEL")}) if full else x

    x = n.relu("relu1", n.pool("pool1", n.conv("conv1", "data", 32, 5, pad=2), MAX, 3, 2))
    x = n.pool("pool2", n.relu("relu2", n.conv("conv2", norm("norm1", x), 32, 5, pad=2)), AVE, 3, 2)
    x = n.pool("pool3", n.relu("relu3", n.conv("conv3", norm("norm2", x), 64, 5, pad=2)), AVE, 3, 2)
    if not full:
        x = n.fc("ip1", x, 64)
    n.end(n.fc("ip1" if full else "ip2", x, 10), deploy)
    return n


def _lstm(deploy):
    n = Net("LSTM", {"type": "uniform", "min": -0.08, "max": 0.08})
    x = "data"
    for name in ("lstm1", "lstm2"):
        x = n.layer("LSTM", name, [x, "cont"], name, recurrent_param={
            "num_output": WIDTH, "weight_filler": n.filler, "bias_filler": {"type": "constant"}})
    x = n.layer("InnerProduct", "scores", x, "scores", inner_product_param={
        "num_output": SYMBOLS, "axis": 2, "weight_filler": n.filler})
    if deploy:
        n.layer("Softmax", "prob", x, "prob", softmax_param={"axis": 2})
    else:
        n.layer("SoftmaxWithLoss", "loss", [x, "label"], "loss", softmax_param={"axis": 2})
    return n


def _image(*shape):
    """Shapes of the inputs for a batch, from that of one image."""
    return lambda batch: {"data": [batch, *shape], "label": [batch]}


def _sequences(batch):
    return {"data": [STEPS, batch, WIDTH], "cont": [STEPS, batch], "label": [STEPS, batch]}


# name: batch in training, classes, inputs of a batch, layers of the training or the deployed net
NETS = {
    "lenet": (64, 10, _image(1, 28, 28), _lenet),
    "cifar10_quick": (100, 10, _image(3, 32, 32), lambda deploy: _cifar10(deploy, full=False)),
    "cifar10_full": (100, 10, _image(3, 32, 32), lambda deploy: _cifar10(deploy, full=True)),
    "caffenet": (32, 1000, _image(3, 227, 227), lambda deploy: caffenet.net("CaffeNet", False, 1, deploy)),
    "googlenet": (16, 1000, _image(3, 224, 224), googlenet.net),
    "vgg16": (4, 1000, _image(3, 224, 224), vgg16.net),
    "resnet50": (8, 1000, _image(3, 224, 224), resnet50.net),
    "mobilenet_v1": (16, 1000, _image(3, 224, 224), mobilenet_v1.net),
    "lstm": (32, SYMBOLS, _sequences, _lstm),
}


def train_batch(net):
    return NETS[net][0]


def classes(net):
    return NETS[net][1]


def message(net, mode, batch, dropout=True):
    """The net as a dict; mode is "train" or "deploy"."""
    _, _, inputs, build = NETS[net]
    deploy = mode == "deploy"
    made = build(deploy).message
    drop = {"Data", "Input", "Accuracy"} | (set() if dropout else {"Dropout"})
    layers = [dict(layer) for layer in made["layer"] if layer["type"] not in drop]
    for layer in layers:
        if layer["type"] != "BatchNorm":  # its running statistics stay frozen
            layer.pop("param", None)
        for key in ("convolution_param", "inner_product_param"):
            if key in layer:
                layer[key] = {**layer[key], "weight_filler": XAVIER}
                layer[key].pop("bias_filler", None)
    shapes = {name: shape for name, shape in inputs(batch).items() if not (deploy and name == "label")}
    source = {"name": "input", "type": "Input", "top": list(shapes),
              "input_param": {"shape": [{"dim": dims} for dims in shapes.values()]}}
    return {"name": made["name"], "layer": [source, *layers]}


def write(folder, net, mode, batch, dropout=True):
    """Writes the net and, to train, its solver into `folder`; returns the path that our program is given."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{net}_{mode}_{batch}" + ("" if dropout else "_no_dropout")
    path = folder / f"{stem}.prototxt"
    path.write_text("\n".join(HEAD + text(message(net, mode, batch, dropout))) + "\n", encoding="utf-8")
    if mode == "deploy":
        return path
    solver = folder / f"{stem}_solver.prototxt"
    solver.write_text("\n".join(HEAD + text({"net": str(path), **SOLVER})) + "\n", encoding="utf-8")
    return solver
