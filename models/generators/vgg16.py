"""VGG-16 (configuration D of Simonyan and Zisserman)."""
from generators.net import LABELS, MAX, MSRA, WEIGHT_AND_BIAS, Net, gaussian, solver

FOLDER = "vgg16"
MEAN = [103.939, 116.779, 123.68]
STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # channels, convolutions


def net(deploy):
    n = Net("VGG16", MSRA, WEIGHT_AND_BIAS)  # msra: the paper's own start by a smaller net is not needed then
    x = n.input(10, 3, 224, 224) if deploy else n.imagenet(224, (64, 50), MEAN)
    for stage, (channels, count) in enumerate(STAGES, 1):
        for i in range(1, count + 1):
            x = n.relu(f"relu{stage}_{i}", n.conv(f"conv{stage}_{i}", x, channels, 3, pad=1))
        x = n.pool(f"pool{stage}", x, MAX, 2, 2)
    for number in (6, 7):
        x = n.fc(f"fc{number}", x, 4096, gaussian(0.005))
        x = n.dropout(f"drop{number}", n.relu(f"relu{number}", x), 0.5)
    n.end(n.fc("fc8", x, LABELS, gaussian(0.01)), deploy)
    return n


def models():
    # 4 times 64 images an iteration, 74 epochs, the rate cut to a tenth three times.
    yield FOLDER, {"train_val": net(False), "deploy": net(True),
                   "solver": solver(FOLDER, "vgg16", test_interval=5000, test_initialization=False, base_lr=0.01,
                                    lr_policy="multistep", gamma=0.1, stepvalue=[150000, 250000, 330000], display=20,
                                    average_loss=20, max_iter=370000, iter_size=4, momentum=0.9, weight_decay=0.0005,
                                    snapshot=10000)}
