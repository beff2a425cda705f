"""AlexNet, and CaffeNet, which differs in the order of pooling and normalisation and in its first biases."""
from generators.net import MAX, WEIGHT_AND_BIAS, LABELS, Net, gaussian, solver

MEAN_FILE = "data/ilsvrc12/imagenet_mean.binaryproto"


def net(name, norm_first, bias, deploy):
    n = Net(name, gaussian(0.01), WEIGHT_AND_BIAS)
    x = n.input(10, 3, 227, 227) if deploy else n.imagenet(227, (256, 50), MEAN_FILE)

    def reduce(x, number):
        for kind in ("norm", "pool") if norm_first else ("pool", "norm"):
            x = n.pool(f"pool{number}", x, MAX, 3, 2) if kind == "pool" else n.lrn(f"norm{number}", x)
        return x

    x = reduce(n.relu("relu1", n.conv("conv1", x, 96, 11, stride=4)), 1)
    x = reduce(n.relu("relu2", n.conv("conv2", x, 256, 5, pad=2, group=2, bias=bias)), 2)
    x = n.relu("relu3", n.conv("conv3", x, 384, 3, pad=1))
    x = n.relu("relu4", n.conv("conv4", x, 384, 3, pad=1, group=2, bias=bias))
    x = n.relu("relu5", n.conv("conv5", x, 256, 3, pad=1, group=2, bias=bias))
    x = n.pool("pool5", x, MAX, 3, 2)
    for number in (6, 7):
        x = n.fc(f"fc{number}", x, 4096, gaussian(0.005), bias)
        x = n.dropout(f"drop{number}", n.relu(f"relu{number}", x), 0.5)
    x = n.fc("fc8", x, LABELS)
    if deploy:
        n.softmax(x)
    else:
        n.accuracy("accuracy", x)
        n.loss("loss", x)
    return n


def settings(folder, prefix):
    return solver(folder, prefix, base_lr=0.01, lr_policy="step", gamma=0.1, stepsize=100000, display=20,
                  max_iter=450000, momentum=0.9, weight_decay=0.0005, snapshot=10000)


def models():
    for folder, name, norm_first, bias, prefix in (
            ("bvlc_reference_caffenet", "CaffeNet", False, 1, "caffenet_train"),
            ("bvlc_alexnet", "AlexNet", True, 0.1, "caffe_alexnet_train")):
        yield folder, {"train_val": net(name, norm_first, bias, False), "deploy": net(name, norm_first, bias, True),
                       "solver": settings(folder, prefix)}
