"""ResNet-50 of He et al., with the layer names of the authors' Caffe files."""
from generators.net import LABELS, MAX, MSRA, Net, solver

FOLDER = "resnet50"
MEAN = [104, 117, 123]
STAGES = ((2, 64, 3), (3, 128, 4), (4, 256, 6), (5, 512, 3))  # number, inner channels, blocks


def conv_norm(n, unit, branch, x, outputs, kernel, stride=1, pad=0):
    x = n.conv(f"res{unit}_{branch}", x, outputs, kernel, stride, pad, bias=None)
    return n.batch_norm(f"bn{unit}_{branch}", f"scale{unit}_{branch}", x)


# 1x1 narrows (and halves the size in the first block of a stage), 3x3, 1x1 widens fourfold; the input is added.
def block(n, unit, x, channels, stride, project):
    shortcut = conv_norm(n, unit, "branch1", x, 4 * channels, 1, stride) if project else x
    y = conv_norm(n, unit, "branch2a", x, channels, 1, stride)
    y = conv_norm(n, unit, "branch2b", n.relu(f"res{unit}_branch2a_relu", y), channels, 3, pad=1)
    y = conv_norm(n, unit, "branch2c", n.relu(f"res{unit}_branch2b_relu", y), 4 * channels, 1)
    total = n.layer("Eltwise", f"res{unit}", [shortcut, y], f"res{unit}")
    return n.relu(f"res{unit}_relu", total)


def net(deploy):
    n = Net("ResNet-50", MSRA)
    x = n.input(1, 3, 224, 224) if deploy else n.imagenet(224, (32, 50), MEAN)
    x = n.conv("conv1", x, 64, 7, stride=2, pad=3)  # with a bias, as in the published weights
    x = n.relu("conv1_relu", n.batch_norm("bn_conv1", "scale_conv1", x))
    x = n.pool("pool1", x, MAX, 3, 2)
    for number, channels, blocks in STAGES:
        for i in range(blocks):
            stride = 2 if i == 0 and number > 2 else 1
            x = block(n, f"{number}{'abcdef'[i]}", x, channels, stride, project=i == 0)
    x = n.global_average("pool5", x)
    n.end(n.fc("fc1000", x, LABELS), deploy)
    return n


def models():
    # 8 times 32 images an iteration, 120 epochs, the rate cut to a tenth three times.
    yield FOLDER, {"train_val": net(False), "deploy": net(True),
                   "solver": solver(FOLDER, "resnet50", test_interval=5000, test_initialization=False, base_lr=0.1,
                                    lr_policy="multistep", gamma=0.1, stepvalue=[150000, 300000, 450000], display=20,
                                    average_loss=20, max_iter=600000, iter_size=8, momentum=0.9, weight_decay=0.0001,
                                    snapshot=10000)}
