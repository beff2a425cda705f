"""A net in the making, and the layers that all nets here are made of."""
from generators.prototxt import Enum, text

MAX, AVE = Enum("MAX"), Enum("AVE")
TRAIN, TEST = Enum("TRAIN"), Enum("TEST")
LABELS = 1000  # classes of ImageNet's competition


def gaussian(std):
    return {"type": "gaussian", "std": std}


def constant(value):
    return {"type": "constant", "value": value} if value else {"type": "constant"}


XAVIER = {"type": "xavier"}
MSRA = {"type": "msra"}
# Weights and bias as in Caffe's own nets: the bias learns twice as fast and does not decay.
WEIGHT_AND_BIAS = [{"lr_mult": 1, "decay_mult": 1}, {"lr_mult": 2, "decay_mult": 0}]


class Net:
    """Collects layers; each call that adds one returns the name of its top."""

    def __init__(self, name, filler=None, params=None):
        self.message = {"name": name, "layer": []}
        self.filler = filler  # of weights, unless a layer says otherwise
        self.params = params  # `param` entries of a layer with weights and bias

    def layer(self, type, name, bottoms, tops, **fields):
        bottoms = [bottoms] if isinstance(bottoms, str) else bottoms
        tops = [tops] if isinstance(tops, str) else tops
        message = {"name": name, "type": type}
        if bottoms:
            message["bottom"] = list(bottoms)
        if tops:
            message["top"] = list(tops)
        message.update((key, value) for key, value in fields.items() if value is not None)
        self.message["layer"].append(message)
        return tops[0] if tops else None

    def text(self, head):
        return "\n".join([f"# {line}" for line in head] + text(self.message)) + "\n"

    # Data and inputs

    def imagenet(self, crop, batches, mean, scale=None):
        """The two data layers over Caffe's ImageNet databases; `mean` is a file's name or one number per channel."""
        for phase, batch, source in ((TRAIN, batches[0], "train"), (TEST, batches[1], "val")):
            transform = {"mirror": phase == TRAIN, "crop_size": crop}
            transform["mean_file" if isinstance(mean, str) else "mean_value"] = mean
            if scale:
                transform["scale"] = scale
            self.layer("Data", "data", [], ["data", "label"], include={"phase": phase}, transform_param=transform,
                       data_param={"source": f"examples/imagenet/ilsvrc12_{source}_lmdb", "batch_size": batch,
                                   "backend": Enum("LMDB")})
        return "data"

    def input(self, *shape):
        return self.layer("Input", "data", [], "data", input_param={"shape": {"dim": list(shape)}})

    # Layers

    def _weights(self, outputs, settings, filler, bias):
        """Fields of a layer with weights; bias is the value it starts with, or None for no bias."""
        settings = {"num_output": outputs, **settings}
        params = self.params
        if bias is None:
            settings["bias_term"] = False
            params = self.params and self.params[:1]
        settings["weight_filler"] = filler or self.filler
        if bias is not None:
            settings["bias_filler"] = constant(bias)
        return settings, params

    def conv(self, name, bottom, outputs, kernel, stride=1, pad=0, group=1, filler=None, bias=0, params=None):
        settings = {"pad": pad} if pad else {}
        settings["kernel_size"] = kernel
        if group != 1:
            settings["group"] = group
        if stride != 1:
            settings["stride"] = stride
        settings, own = self._weights(outputs, settings, filler, bias)
        return self.layer("Convolution", name, bottom, name, param=params or own, convolution_param=settings)

    def fc(self, name, bottom, outputs, filler=None, bias=0):
        settings, params = self._weights(outputs, {}, filler, bias)
        return self.layer("InnerProduct", name, bottom, name, param=params, inner_product_param=settings)

    def relu(self, name, blob):
        return self.layer("ReLU", name, blob, blob)

    def pool(self, name, bottom, method, kernel, stride, pad=0):
        settings = {"pool": method, "kernel_size": kernel, "stride": stride}
        if pad:
            settings["pad"] = pad
        return self.layer("Pooling", name, bottom, name, pooling_param=settings)

    def global_average(self, name, bottom):
        return self.layer("Pooling", name, bottom, name, pooling_param={"pool": AVE, "global_pooling": True})

    def lrn(self, name, bottom):
        return self.layer("LRN", name, bottom, name, lrn_param={"local_size": 5, "alpha": 0.0001, "beta": 0.75})

    def dropout(self, name, blob, ratio):
        return self.layer("Dropout", name, blob, blob, dropout_param={"dropout_ratio": ratio})

    def batch_norm(self, norm, scale, blob):
        """Statistics, which are not learned, then scale and bias, which are; both in place."""
        self.layer("BatchNorm", norm, blob, blob, param=[{"lr_mult": 0, "decay_mult": 0}] * 3)
        return self.layer("Scale", scale, blob, blob, param=[{"decay_mult": 0}] * 2, scale_param={"bias_term": True})

    # Ends

    def accuracy(self, name, bottom, top_k=None):
        self.layer("Accuracy", name, [bottom, "label"], name, include={"phase": TEST},
                   accuracy_param={"top_k": top_k} if top_k else None)

    def loss(self, name, bottom, top=None, weight=None):
        self.layer("SoftmaxWithLoss", name, [bottom, "label"], top or name, loss_weight=weight)

    def softmax(self, bottom):
        return self.layer("Softmax", "prob", bottom, "prob")

    def end(self, scores, deploy):
        """Probabilities to deploy; loss and accuracies to train."""
        if deploy:
            self.softmax(scores)
            return
        self.accuracy("accuracy", scores)
        self.accuracy("accuracy_top5", scores, top_k=5)
        self.loss("loss", scores)


def solver(folder, prefix, **settings):
    """A solver's message; the tests run over ImageNet's 50,000 validation images in batches of 50."""
    message = {"net": f"models/{folder}/train_val.prototxt", "test_iter": 1000, "test_interval": 1000}
    message.update(settings)
    message.update({"snapshot_prefix": f"models/{folder}/{prefix}", "solver_mode": Enum("GPU")})
    return message
