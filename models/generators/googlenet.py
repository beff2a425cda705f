"""GoogLeNet (Inception v1), with its two auxiliary classifiers in training."""
from generators.net import AVE, LABELS, MAX, WEIGHT_AND_BIAS, XAVIER, Net, solver

FOLDER = "bvlc_googlenet"
MEAN = [104, 117, 123]
# name: 1x1; 3x3 after its reduction; 5x5 after its reduction; projection of the pooled input
INCEPTION = {
    "3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64), "4b": (160, 112, 224, 24, 64, 64), "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64), "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128), "5b": (384, 192, 384, 48, 128, 128),
}
POOL_BEFORE = {"4a": "pool3/3x3_s2", "5a": "pool4/3x3_s2"}
HEAD_AFTER = {"4a": "loss1", "4d": "loss2"}


def conv_relu(n, prefix, name, x, outputs, kernel, **settings):
    return n.relu(f"{prefix}/relu_{name}", n.conv(f"{prefix}/{name}", x, outputs, kernel, bias=0.2, **settings))


def inception(n, name, x, sizes):
    prefix = f"inception_{name}"
    ones, reduce3, out3, reduce5, out5, projection = sizes
    a = conv_relu(n, prefix, "1x1", x, ones, 1)
    b = conv_relu(n, prefix, "3x3", conv_relu(n, prefix, "3x3_reduce", x, reduce3, 1), out3, 3, pad=1)
    c = conv_relu(n, prefix, "5x5", conv_relu(n, prefix, "5x5_reduce", x, reduce5, 1), out5, 5, pad=2)
    pooled = n.pool(f"{prefix}/pool", x, MAX, 3, 1, pad=1)
    d = conv_relu(n, prefix, "pool_proj", pooled, projection, 1)
    return n.layer("Concat", f"{prefix}/output", [a, b, c, d], f"{prefix}/output")


def scores(n, head, bottom):
    n.accuracy(f"{head}/top-1", bottom)
    n.accuracy(f"{head}/top-5", bottom, top_k=5)


def auxiliary(n, head, x):
    x = n.pool(f"{head}/ave_pool", x, AVE, 5, 3)
    x = n.relu(f"{head}/relu_conv", n.conv(f"{head}/conv", x, 128, 1, bias=0.2))
    x = n.relu(f"{head}/relu_fc", n.fc(f"{head}/fc", x, 1024, bias=0.2))
    x = n.fc(f"{head}/classifier", n.dropout(f"{head}/drop_fc", x, 0.7), LABELS)
    n.loss(f"{head}/loss", x, top=f"{head}/loss1", weight=0.3)
    scores(n, head, x)


def net(deploy):
    n = Net("GoogleNet", XAVIER, WEIGHT_AND_BIAS)
    x = n.input(10, 3, 224, 224) if deploy else n.imagenet(224, (32, 50), MEAN)
    x = conv_relu(n, "conv1", "7x7_s2", x, 64, 7, stride=2, pad=3)
    x = n.lrn("pool1/norm1", n.pool("pool1/3x3_s2", x, MAX, 3, 2))
    x = conv_relu(n, "conv2", "3x3_reduce", x, 64, 1)
    x = n.lrn("conv2/norm2", conv_relu(n, "conv2", "3x3", x, 192, 3, pad=1))
    x = n.pool("pool2/3x3_s2", x, MAX, 3, 2)
    for name, sizes in INCEPTION.items():
        if name in POOL_BEFORE:
            x = n.pool(POOL_BEFORE[name], x, MAX, 3, 2)
        x = inception(n, name, x, sizes)
        if name in HEAD_AFTER and not deploy:
            auxiliary(n, HEAD_AFTER[name], x)
    x = n.dropout("pool5/drop_7x7_s1", n.pool("pool5/7x7_s1", x, AVE, 7, 1), 0.4)
    x = n.fc("loss3/classifier", x, LABELS)
    if deploy:
        n.softmax(x)
    else:
        n.loss("loss3/loss3", x, weight=1)
        scores(n, "loss3", x)
    return n


def settings(**policy):
    return solver(FOLDER, "bvlc_googlenet", test_interval=4000, test_initialization=False, display=40, average_loss=40,
                  base_lr=0.01, **policy, momentum=0.9, weight_decay=0.0002, snapshot=40000)


def models():
    yield FOLDER, {"train_val": net(False), "deploy": net(True),
                   "solver": settings(lr_policy="step", stepsize=320000, gamma=0.96, max_iter=10000000),
                   "quick_solver": settings(lr_policy="poly", power=0.5, max_iter=2400000)}
