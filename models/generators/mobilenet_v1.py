"""MobileNet v1 (width 1.0, 224x224), with the layer names that its Caffe weights are published under."""
from generators.net import LABELS, MSRA, Net, solver

FOLDER = "mobilenet_v1"
MEAN = [103.94, 116.78, 123.68]
SCALE = 0.017
# name, channels out, stride of the depthwise part
BLOCKS = (("2_1", 64, 1), ("2_2", 128, 2), ("3_1", 128, 1), ("3_2", 256, 2), ("4_1", 256, 1), ("4_2", 512, 2),
          ("5_1", 512, 1), ("5_2", 512, 1), ("5_3", 512, 1), ("5_4", 512, 1), ("5_5", 512, 1), ("5_6", 1024, 2),
          ("6", 1024, 1))


def conv_norm_relu(n, name, relu, x, outputs, kernel, **settings):
    x = n.conv(name, x, outputs, kernel, bias=None, **settings)
    return n.relu(relu, n.batch_norm(f"{name}/bn", f"{name}/scale", x))


def net(deploy):
    n = Net("MOBILENET", MSRA)
    x = n.input(1, 3, 224, 224) if deploy else n.imagenet(224, (64, 50), MEAN, SCALE)
    x = conv_norm_relu(n, "conv1", "relu1", x, 32, 3, stride=2, pad=1)
    channels = 32
    for name, outputs, stride in BLOCKS:
        # One filter per channel; too few weights to decay, as its authors say.
        x = conv_norm_relu(n, f"conv{name}/dw", f"relu{name}/dw", x, channels, 3, stride=stride, pad=1, group=channels,
                           params=[{"lr_mult": 1, "decay_mult": 0}])
        x = conv_norm_relu(n, f"conv{name}/sep", f"relu{name}/sep", x, outputs, 1)
        channels = outputs
    x = n.conv("fc7", n.global_average("pool6", x), LABELS, 1)
    n.end(x, deploy)
    return n


def models():
    # 4 times 64 images an iteration, 100 epochs.
    yield FOLDER, {"train_val": net(False), "deploy": net(True),
                   "solver": solver(FOLDER, "mobilenet_v1", test_interval=5000, test_initialization=False, base_lr=0.1,
                                    lr_policy="poly", power=1, display=20, average_loss=20, max_iter=500000, iter_size=4,
                                    momentum=0.9, weight_decay=0.00004, snapshot=10000)}
