"""The nets that compare.py gives to Carafe and to OpenCV: text, and the shape of each input."""

GAUSSIAN = 'weight_filler { type: "gaussian" std: 0.3 } bias_filler { type: "gaussian" std: 0.3 }'
FILLER = 'filler { type: "gaussian" std: 0.5 } bias_filler { type: "gaussian" std: 0.3 }'


class Net:
    """A deploy net under construction; add() returns its last top."""

    def __init__(self, *shapes):
        self.inputs = {f"in{i}" if i else "data": shape for i, shape in enumerate(shapes)}
        self.layers = []
        self.last = "data"

    def add(self, type_, parameters="", bottoms=None, tops=None, in_place=False):
        name = tops[0] if tops else f"{type_.lower()}{len(self.layers)}"
        bottoms = bottoms or [self.last]
        tops = tops or (bottoms if in_place else [name])
        ends = "".join(f' bottom: "{b}"' for b in bottoms) + "".join(f' top: "{t}"' for t in tops)
        self.layers.append((f'layer {{ name: "{name}" type: "{type_}"{ends} {parameters} }}', name, bottoms, tops))
        self.last = tops[0]
        return self.last

    def conv(self, outputs, kernel, more="", bottom=None):
        return self.add("Convolution", f"convolution_param {{ num_output: {outputs} kernel_size: {kernel} {more} {GAUSSIAN} }}",
                        bottom and [bottom])

    def pool(self, method, more, bottom=None):
        return self.add("Pooling", f"pooling_param {{ pool: {method} {more} }}", bottom and [bottom])

    def relu(self):
        return self.add("ReLU", in_place=True)

    def outputs(self):
        """{top: name of its last layer} of the tops that no later layer reads."""
        tops = {}
        for _, name, bottoms, layer_tops in self.layers:
            for bottom in bottoms:
                tops.pop(bottom, None)
            tops.update(dict.fromkeys(layer_tops, name))
        return tops

    def deploy(self):
        inputs = [f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims(shape)} }} }} }}'
                  for name, shape in self.inputs.items()]
        return "\n".join(inputs + [layer[0] for layer in self.layers]) + "\n"

    def train(self):
        """The same layers on random data, with sums of squares as losses."""
        inputs = [f'layer {{ name: "{name}" type: "DummyData" top: "{name}" dummy_data_param {{ shape {{ {dims(shape)} }} '
                  f'data_filler {{ type: "gaussian" }} }} }}' for name, shape in self.inputs.items()]
        losses = [f'layer {{ name: "loss_{top}" type: "Reduction" bottom: "{top}" top: "loss_{top}" loss_weight: 0.001 '
                  'reduction_param { operation: SUMSQ } }' for top in self.outputs()]
        return "\n".join(inputs + [layer[0] for layer in self.layers] + losses) + "\n"


def dims(shape):
    return " ".join(f"dim: {d}" for d in shape)


def single(type_, parameters="", *shapes, tops=1):
    net = Net(*(shapes or [(2, 4, 9, 8)]))
    net.add(type_, parameters, list(net.inputs), [f"top{i}" for i in range(tops)])
    if tops > 1:  # OpenCV makes only the tops that somebody reads, and hands out the first one of a layer
        for i in range(tops):
            net.add("TanH", "", [f"top{i}"])
    return net


def convolution(more, shape=(2, 4, 9, 8), type_="Convolution"):
    return single(type_, f"convolution_param {{ {more} {GAUSSIAN} }}", shape)


def pooling(more, shape=(2, 3, 9, 8)):
    return single("Pooling", f"pooling_param {{ {more} }}", shape)


def lenet():
    net = Net((2, 1, 28, 28))
    net.conv(8, 5)
    net.pool("MAX", "kernel_size: 2 stride: 2")
    net.conv(12, 5)
    net.pool("MAX", "kernel_size: 2 stride: 2")
    net.add("InnerProduct", f"inner_product_param {{ num_output: 30 {GAUSSIAN} }}")
    net.relu()
    net.add("Dropout", in_place=True)
    net.add("InnerProduct", f"inner_product_param {{ num_output: 10 {GAUSSIAN} }}")
    net.add("Softmax")
    return net


def cifar10_with_batch_norm():
    net = Net((3, 3, 32, 32))
    for outputs, method in ((8, "MAX"), (8, "AVE"), (12, "AVE")):
        net.conv(outputs, 5, "pad: 2 bias_term: false")
        net.add("BatchNorm", in_place=True)
        net.add("Scale", f"scale_param {{ bias_term: true {FILLER} }}", in_place=True)
        net.relu()
        net.pool(method, "kernel_size: 3 stride: 2")
    net.add("InnerProduct", f"inner_product_param {{ num_output: 10 {GAUSSIAN} }}")
    net.add("Softmax")
    return net


def inception():
    """The start of GoogLeNet and two of its modules, with few channels."""
    net = Net((1, 3, 64, 64))
    net.conv(8, 7, "pad: 3 stride: 2")
    net.relu()
    net.pool("MAX", "kernel_size: 3 stride: 2")
    net.add("LRN", "lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }")
    net.conv(12, 3, "pad: 1")
    bottom = net.relu()
    for _ in range(2):
        branches = [net.conv(4, 1, bottom=bottom)]
        for kernel in (3, 5):
            net.conv(4, 1, bottom=bottom)
            net.relu()
            branches.append(net.conv(6, kernel, f"pad: {kernel // 2}"))
            net.relu()
        net.pool("MAX", "kernel_size: 3 stride: 1 pad: 1", bottom)
        branches.append(net.conv(4, 1))
        bottom = net.add("Concat", bottoms=branches)
    net.pool("AVE", "global_pooling: true")
    net.add("InnerProduct", f"inner_product_param {{ num_output: 10 {GAUSSIAN} }}")
    net.add("Softmax")
    return net


def segmentation():
    """Down by convolution, up again by deconvolution, cropped to the input and added to it."""
    net = Net((1, 3, 30, 26))
    net.conv(6, 3, "stride: 2")
    net.relu()
    net.add("Deconvolution", f"convolution_param {{ num_output: 3 kernel_size: 4 stride: 2 {GAUSSIAN} }}")
    crop = net.add("Crop", "crop_param { axis: 2 offset: 0 }", [net.last, "data"])
    net.add("Eltwise", "eltwise_param { operation: SUM coeff: 1 coeff: -0.5 }", [crop, "data"])
    return net


def mobile():
    """Depthwise and pointwise convolutions, as in MobileNet."""
    net = Net((2, 3, 24, 24))
    net.conv(8, 3, "pad: 1 stride: 2 bias_term: false")
    for stride in (1, 2):
        for outputs, kernel, more in ((8, 3, f"pad: 1 stride: {stride} group: 8"), (8, 1, "")):
            net.conv(outputs, kernel, more + " bias_term: false")
            net.add("BatchNorm", "batch_norm_param { eps: 0.001 }", in_place=True)
            net.add("Scale", f"scale_param {{ bias_term: true {FILLER} }}", in_place=True)
            net.relu()
    net.pool("AVE", "global_pooling: true")
    return net


def residual():
    """Blocks that add their input, so that blobs are read twice (Split layers in the file)."""
    net = Net((2, 6, 12, 12))
    bottom = "data"
    for _ in range(2):
        branch = net.conv(6, 3, "pad: 1", bottom)
        net.add("PReLU", in_place=True)
        branch = net.conv(6, 3, "pad: 1")
        bottom = net.add("Eltwise", "", [bottom, branch])
        net.relu()
    return net


NETS = {
    "lenet": lenet(),
    "cifar10_with_batch_norm": cifar10_with_batch_norm(),
    "inception": inception(),
    "segmentation": segmentation(),
    "mobile": mobile(),
    "residual": residual(),
    "conv": convolution("num_output: 6 kernel_size: 3"),
    "conv_stride_pad": convolution("num_output: 6 kernel_size: 3 stride: 2 pad: 1"),
    "conv_rectangle": convolution("num_output: 5 kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 3 pad_h: 2 pad_w: 1"),
    "conv_dilated": convolution("num_output: 6 kernel_size: 3 dilation: 2 pad: 2"),
    "conv_groups": convolution("num_output: 6 kernel_size: 3 group: 2"),
    "conv_depthwise": convolution("num_output: 4 kernel_size: 3 group: 4 pad: 1"),
    "conv_no_bias": convolution("num_output: 6 kernel_size: 3 bias_term: false"),
    "conv_pointwise": convolution("num_output: 7 kernel_size: 1"),
    "deconv": convolution("num_output: 6 kernel_size: 3 stride: 2", type_="Deconvolution"),
    "deconv_pad": convolution("num_output: 6 kernel_size: 4 stride: 2 pad: 1", type_="Deconvolution"),
    "deconv_groups": convolution("num_output: 8 kernel_size: 3 stride: 2 group: 4 pad: 1", type_="Deconvolution"),
    "pool_max": pooling("pool: MAX kernel_size: 3 stride: 2"),
    "pool_max_pad": pooling("pool: MAX kernel_size: 3 stride: 2 pad: 1"),
    "pool_max_global": pooling("pool: MAX global_pooling: true"),
    "pool_max_rectangle": pooling("pool: MAX kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 2 pad_h: 1 pad_w: 0"),
    "pool_ave": pooling("pool: AVE kernel_size: 3 stride: 2"),
    "pool_ave_pad": pooling("pool: AVE kernel_size: 3 stride: 2 pad: 1"),
    "pool_ave_overhang": pooling("pool: AVE kernel_size: 3 stride: 2 pad: 1", (2, 3, 10, 7)),
    "pool_ave_global": pooling("pool: AVE global_pooling: true"),
    "inner_product": single("InnerProduct", f"inner_product_param {{ num_output: 5 {GAUSSIAN} }}"),
    "inner_product_no_bias": single("InnerProduct", f"inner_product_param {{ num_output: 5 bias_term: false {GAUSSIAN} }}"),
    "inner_product_axis": single("InnerProduct", f"inner_product_param {{ num_output: 5 axis: 2 {GAUSSIAN} }}"),
    "inner_product_last_axis": single("InnerProduct", f"inner_product_param {{ num_output: 5 axis: -1 {GAUSSIAN} }}"),
    "lrn_across": single("LRN", "lrn_param { local_size: 5 alpha: 0.5 beta: 0.75 }", (2, 9, 4, 5)),
    "lrn_within": single("LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 norm_region: WITHIN_CHANNEL }"),
    "relu": single("ReLU"),
    "relu_leaky": single("ReLU", "relu_param { negative_slope: 0.2 }"),
    "relu6": single("ReLU6"),
    "prelu": single("PReLU", 'prelu_param { filler { type: "gaussian" std: 0.5 } }'),
    "prelu_shared": single("PReLU", "prelu_param { channel_shared: true }"),
    "elu": single("ELU"),
    "elu_alpha": single("ELU", "elu_param { alpha: 0.4 }"),
    "sigmoid": single("Sigmoid"),
    "tanh": single("TanH"),
    "absval": single("AbsVal"),
    "bnll": single("BNLL"),
    "swish": single("Swish"),
    "power": single("Power", "power_param { power: 2 scale: 0.7 shift: -0.3 }"),
    "power_linear": single("Power", "power_param { scale: 0.7 shift: -0.3 }"),
    "exp": single("Exp"),
    "exp_base": single("Exp", "exp_param { base: 2 scale: 0.5 shift: 0.1 }"),
    "softmax": single("Softmax"),
    "softmax_axis": single("Softmax", "softmax_param { axis: 2 }"),
    "split": single("Split", tops=2),
    "concat": single("Concat", "", (2, 4, 5, 6), (2, 3, 5, 6)),
    "concat_axis": single("Concat", "concat_param { axis: 2 }", (2, 4, 5, 6), (2, 4, 1, 6)),
    "concat_last_axis": single("Concat", "concat_param { axis: -1 }", (2, 4, 5, 6), (2, 4, 5, 2)),
    "slice": single("Slice", tops=2),
    "slice_points": single("Slice", "slice_param { axis: 1 slice_point: 1 slice_point: 3 }", tops=3),
    "slice_axis": single("Slice", "slice_param { axis: 2 slice_point: 4 }", tops=2),
    "crop": single("Crop", "crop_param { axis: 2 offset: 2 }", (1, 3, 9, 8), (1, 3, 5, 4)),
    "crop_offsets": single("Crop", "crop_param { axis: 1 offset: 1 offset: 0 offset: 3 }", (1, 4, 9, 8), (1, 2, 5, 4)),
    "eltwise_sum": single("Eltwise", "", (2, 4, 5, 6), (2, 4, 5, 6), (2, 4, 5, 6)),
    "eltwise_coeff": single("Eltwise", "eltwise_param { coeff: 0.5 coeff: -2 }", (2, 4, 5, 6), (2, 4, 5, 6)),
    "eltwise_prod": single("Eltwise", "eltwise_param { operation: PROD }", (2, 4, 5, 6), (2, 4, 5, 6)),
    "eltwise_max": single("Eltwise", "eltwise_param { operation: MAX }", (2, 4, 5, 6), (2, 4, 5, 6)),
    "flatten": single("Flatten"),
    "flatten_axes": single("Flatten", "flatten_param { axis: 1 end_axis: 2 }"),
    "reshape": single("Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: -1 } }"),
    "reshape_part": single("Reshape", "reshape_param { shape { dim: 2 dim: 2 } axis: 1 num_axes: 1 }"),
    "scale": single("Scale", f"scale_param {{ {FILLER} }}"),
    "scale_bias": single("Scale", f"scale_param {{ bias_term: true {FILLER} }}"),
    "scale_two_axes": single("Scale", f"scale_param {{ axis: 1 num_axes: 2 bias_term: true {FILLER} }}"),
    "scale_two_bottoms": single("Scale", "scale_param { axis: 0 }", (2, 4, 5, 6), (2, 4)),
    "batch_norm": single("BatchNorm"),
    "batch_norm_eps": single("BatchNorm", "batch_norm_param { eps: 0.1 }"),
    "mvn": single("MVN"),
    "mvn_across": single("MVN", "mvn_param { across_channels: true }"),
    "mvn_mean": single("MVN", "mvn_param { normalize_variance: false }"),
    "dropout": single("Dropout", "dropout_param { dropout_ratio: 0.7 }"),
    "permute": single("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }"),
    "normalize": single("Normalize", "norm_param { across_spatial: false channel_shared: false "
                                     'scale_filler { type: "constant" value: 20 } }'),
    "normalize_across": single("Normalize", "norm_param { across_spatial: true channel_shared: true "
                                            'scale_filler { type: "constant" value: 3 } }'),
    "shuffle_channel": single("ShuffleChannel", "shuffle_channel_param { group: 2 }"),
    "interp": single("Interp", "interp_param { height: 17 width: 15 }"),
}

# What OpenCV's reader does otherwise; not compared.
DIFFERENT = {
    "pooling_param.round_mode": "unknown to its schema, where field 13 is a bool ceil_mode",
    "lrn_param.k": "not read: 1 is assumed",
    "inner_product_param.transpose": "not read: weights are taken as (outputs, inputs)",
    "dilation of Deconvolution": "not read",
    "negative axis of Scale": "reads outside its memory and crashes",
    "log_param": "not read: the natural logarithm of the bare input",
    "tile_param": "not read: Tile has other parameters",
    "ArgMax, Bias, Clip, Reduction, Threshold": "are no layer types of its Caffe reader",
    "Axpy": "refused, whether the factors are N x C or N x C x 1 x 1",
}
