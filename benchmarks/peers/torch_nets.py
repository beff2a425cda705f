"""The nets of the race in PyTorch, layer for layer those of race/nets.py.

Modules stand in the order in which the prototxts have their layers, so that parameters pair up by position. Pooling
rounds up as Caffe's does; scores, not probabilities, are what forward() returns.
"""
import torch
from torch import nn
from torch.nn import functional as F

STEPS, WIDTH, SYMBOLS = 50, 512, 128  # of the LSTM, see race/nets.py


def relu():
    return nn.ReLU(inplace=True)


def max_pool(kernel=3, stride=2, padding=0):
    return nn.MaxPool2d(kernel, stride, padding, ceil_mode=True)


def average_pool(kernel=3, stride=2):
    return nn.AvgPool2d(kernel, stride, ceil_mode=True)


def lrn():
    return nn.LocalResponseNorm(5, 1e-4, 0.75)


class WithinChannelNorm(nn.Module):
    """LRN over a window of each channel's own plane."""

    def __init__(self, size=3, alpha=5e-5, beta=0.75):
        super().__init__()
        self.size, self.alpha, self.beta = size, alpha, beta

    def forward(self, x):
        mean = F.avg_pool2d(x * x, self.size, stride=1, padding=self.size // 2)
        return x * (1 + self.alpha * mean).pow(-self.beta)


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), max_pool(2, 2), nn.Conv2d(20, 50, 5), max_pool(2, 2),
                         nn.Flatten(), nn.Linear(800, 500), relu(), nn.Linear(500, 10))


def cifar10(full):
    norm = [WithinChannelNorm()] if full else []
    end = [nn.Linear(1024, 10)] if full else [nn.Linear(1024, 64), nn.Linear(64, 10)]
    return nn.Sequential(nn.Conv2d(3, 32, 5, padding=2), max_pool(), relu(), *norm,
                         nn.Conv2d(32, 32, 5, padding=2), relu(), average_pool(), *norm,
                         nn.Conv2d(32, 64, 5, padding=2), relu(), average_pool(), nn.Flatten(), *end)


def caffenet():
    return nn.Sequential(
        nn.Conv2d(3, 96, 11, 4), relu(), max_pool(), lrn(),
        nn.Conv2d(96, 256, 5, padding=2, groups=2), relu(), max_pool(), lrn(),
        nn.Conv2d(256, 384, 3, padding=1), relu(),
        nn.Conv2d(384, 384, 3, padding=1, groups=2), relu(),
        nn.Conv2d(384, 256, 3, padding=1, groups=2), relu(), max_pool(), nn.Flatten(),
        nn.Linear(9216, 4096), relu(), nn.Dropout(0.5), nn.Linear(4096, 4096), relu(), nn.Dropout(0.5),
        nn.Linear(4096, 1000))


def conv_relu(inputs, outputs, kernel, stride=1, padding=0):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, padding), relu())


class Inception(nn.Module):
    def __init__(self, inputs, ones, reduce3, out3, reduce5, out5, projection):
        super().__init__()
        self.branches = nn.ModuleList([
            conv_relu(inputs, ones, 1),
            nn.Sequential(conv_relu(inputs, reduce3, 1), conv_relu(reduce3, out3, 3, padding=1)),
            nn.Sequential(conv_relu(inputs, reduce5, 1), conv_relu(reduce5, out5, 5, padding=2)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), conv_relu(inputs, projection, 1))])

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def auxiliary_head(inputs):
    return nn.Sequential(average_pool(5, 3), conv_relu(inputs, 128, 1), nn.Flatten(), nn.Linear(2048, 1024), relu(),
                         nn.Dropout(0.7), nn.Linear(1024, 1000))


class GoogLeNet(nn.Module):
    """In training the scores of the two auxiliary heads come first, as they do in the prototxt."""

    def __init__(self, deploy):
        super().__init__()
        self.before_head1 = nn.Sequential(
            conv_relu(3, 64, 7, 2, 3), max_pool(), lrn(), conv_relu(64, 64, 1), conv_relu(64, 192, 3, padding=1), lrn(),
            max_pool(), Inception(192, 64, 96, 128, 16, 32, 32), Inception(256, 128, 128, 192, 32, 96, 64), max_pool(),
            Inception(480, 192, 96, 208, 16, 48, 64))
        self.head1 = None if deploy else auxiliary_head(512)
        self.before_head2 = nn.Sequential(
            Inception(512, 160, 112, 224, 24, 64, 64), Inception(512, 128, 128, 256, 24, 64, 64),
            Inception(512, 112, 144, 288, 32, 64, 64))
        self.head2 = None if deploy else auxiliary_head(528)
        self.tail = nn.Sequential(
            Inception(528, 256, 160, 320, 32, 128, 128), max_pool(), Inception(832, 256, 160, 320, 32, 128, 128),
            Inception(832, 384, 192, 384, 48, 128, 128), nn.AvgPool2d(7, 1), nn.Dropout(0.4), nn.Flatten(),
            nn.Linear(1024, 1000))

    def forward(self, x):
        x = self.before_head1(x)
        y = self.before_head2(x)
        scores = self.tail(y)
        return scores if self.head1 is None else (scores, self.head1(x), self.head2(y))


def vgg16():
    layers, inputs = [], 3
    for count, outputs in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), relu()]
            inputs = outputs
        layers.append(max_pool(2, 2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(25088, 4096), relu(), nn.Dropout(), nn.Linear(4096, 4096),
                         relu(), nn.Dropout(), nn.Linear(4096, 1000))


def conv_norm(inputs, outputs, kernel, stride=1, padding=0, groups=1):
    return [nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False), nn.BatchNorm2d(outputs)]


class Bottleneck(nn.Module):
    def __init__(self, inputs, channels, stride, project):
        super().__init__()
        outputs = 4 * channels
        self.shortcut = nn.Sequential(*conv_norm(inputs, outputs, 1, stride)) if project else nn.Identity()
        self.body = nn.Sequential(*conv_norm(inputs, channels, 1, stride), relu(),
                                  *conv_norm(channels, channels, 3, padding=1), relu(), *conv_norm(channels, outputs, 1))

    def forward(self, x):
        return F.relu_(self.body(x) + self.shortcut(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), relu(), max_pool()]
    inputs = 64
    for blocks, channels, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, channels, stride if block == 0 else 1, project=block == 0))
            inputs = 4 * channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def mobilenet_v1():
    layers, inputs = [*conv_norm(3, 32, 3, 2, 1), relu()], 32
    for outputs, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2),
                            (1024, 1)):
        layers += [*conv_norm(inputs, inputs, 3, stride, 1, groups=inputs), relu(), *conv_norm(inputs, outputs, 1), relu()]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Conv2d(1024, 1000, 1), nn.Flatten())


class Lstm(nn.Module):
    """Every sequence starts at its first step with a state of zeros."""

    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(WIDTH, WIDTH, num_layers=2)
        self.scores = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, x):
        return self.scores(self.layers(x)[0])


# name: (made by, shape of one image or None for sequences, classes)
NETS = {
    "lenet": (lambda deploy: lenet(), (1, 28, 28), 10),
    "cifar10_quick": (lambda deploy: cifar10(False), (3, 32, 32), 10),
    "cifar10_full": (lambda deploy: cifar10(True), (3, 32, 32), 10),
    "caffenet": (lambda deploy: caffenet(), (3, 227, 227), 1000),
    "googlenet": (GoogLeNet, (3, 224, 224), 1000),
    "vgg16": (lambda deploy: vgg16(), (3, 224, 224), 1000),
    "resnet50": (lambda deploy: resnet50(), (3, 224, 224), 1000),
    "mobilenet_v1": (lambda deploy: mobilenet_v1(), (3, 224, 224), 1000),
    "lstm": (lambda deploy: Lstm(), None, SYMBOLS),
}


def draw_inputs(net, batch):
    """(data, label), drawn at random."""
    _, image, classes = NETS[net]
    data = (batch, *image) if image else (STEPS, batch, WIDTH)
    return torch.randn(data), torch.randint(0, classes, (batch,) if image else (STEPS, batch))


def loss_of(scores, label):
    if isinstance(scores, tuple):  # the auxiliary heads weigh 0.3
        return sum(weight * F.cross_entropy(part, label) for weight, part in zip((1, 0.3, 0.3), scores))
    return F.cross_entropy(scores.flatten(0, -2), label.flatten())
