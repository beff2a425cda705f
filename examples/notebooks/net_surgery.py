# %% [markdown]
# # Net surgery, and filters by hand
#
# Weights are arrays that can be read and written. First a net gets filters that no training has found; then a net that
# classifies one digit becomes, without training, one that reads a whole line.

# %%
import numpy as np
from notebook_help import digits, sheet, work_file, write

import caffe
from caffe import layers as L
from caffe import params as P

caffe.init_log(1)  # warnings only
caffe.set_mode_cpu()
caffe.set_random_seed(2)


def read(database, count):
    """The first pictures and labels of a database: a net of one Data layer reads them."""
    n = caffe.NetSpec()
    n.data, n.label = L.Data(batch_size=count, backend=P.Data.LMDB, source=database,
                             transform_param=dict(scale=1 / 256), ntop=2)
    net = caffe.Net(write("read.prototxt", n.to_proto()), caffe.TEST)
    net.forward()
    return net.blobs["data"].data.copy(), net.blobs["label"].data.astype(int)


train_set, test_set = digits()
pictures, labels = read(test_set, 64)

# %% [markdown]
# ## Filters by hand
# A convolution of one channel with three filters of 5 x 5: a blur, and the edges across and along.

# %%
n = caffe.NetSpec()
n.data = L.Input(shape=dict(dim=[1, 1, 28, 28]))
n.conv = L.Convolution(n.data, kernel_size=5, num_output=3, pad=2)
net = caffe.Net(write("filters.prototxt", n.to_proto()), caffe.TEST)

ramp = np.array([1, 2, 0, -2, -1])
bell = np.array([1, 4, 6, 4, 1]) / 16
net.params["conv"][0].data[0, 0] = np.outer(bell, bell)
net.params["conv"][0].data[1, 0] = np.outer(ramp, bell)
net.params["conv"][0].data[2, 0] = np.outer(bell, ramp)
net.params["conv"][1].data[...] = 0

net.forward(data=pictures[:1])
sheet([pictures[0, 0]] + list(net.blobs["conv"].data[0]), 4, zoom=5)

# %% [markdown]
# A net takes pictures of any size: its input gets a new shape, and all that follows gets one with the next pass. Arithmetic on
# weights works as on any array: here the filters are turned by 180 degrees and made stronger.

# %%
line = np.concatenate(list(pictures[:8, 0]), axis=1)
net.blobs["data"].reshape(1, 1, *line.shape)
net.params["conv"][0].data[...] = 2 * net.params["conv"][0].data[:, :, ::-1, ::-1]
net.forward(data=line[np.newaxis, np.newaxis])
print(net.blobs["conv"].data.shape)
sheet([line] + list(net.blobs["conv"].data[0]), 1, zoom=3)

# %% [markdown]
# ## From one digit to a line of digits
# A small net is trained first, on single digits of 28 x 28.


# %%
def body(n):
    fill = dict(type="xavier")
    n.conv1 = L.Convolution(n.data, kernel_size=5, num_output=16, weight_filler=fill)
    n.pool1 = L.Pooling(n.conv1, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.conv2 = L.Convolution(n.pool1, kernel_size=5, num_output=32, weight_filler=fill)
    n.relu2 = L.ReLU(n.conv2, in_place=True)
    n.pool2 = L.Pooling(n.relu2, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    return n.pool2


n = caffe.NetSpec()
n.data, n.label = L.Data(batch_size=64, backend=P.Data.LMDB, source=train_set, transform_param=dict(scale=1 / 256), ntop=2)
n.fc = L.InnerProduct(body(n), num_output=100, weight_filler=dict(type="xavier"))
n.relu = L.ReLU(n.fc, in_place=True)
n.score = L.InnerProduct(n.relu, num_output=10, weight_filler=dict(type="xavier"))
n.loss = L.SoftmaxWithLoss(n.score, n.label)
solver = caffe.get_solver(write("surgery_solver.prototxt", caffe.proto.caffe_pb2.SolverParameter(
    train_net=write("surgery_train.prototxt", n.to_proto()), base_lr=0.02, momentum=0.9, weight_decay=5e-4, lr_policy="fixed",
    snapshot_prefix=work_file("surgery"), snapshot_after_train=False, random_seed=2)))
solver.step(200)
print("loss after %d iterations: %.3f" % (solver.iter, float(solver.net.blobs["loss"].data)))

# %% [markdown]
# A fully connected layer over 32 x 4 x 4 values is a convolution with a kernel of 4 x 4: the same numbers in another shape. So
# the net below has convolutions in place of `fc` and `score`, gets their weights, and can slide over a wider picture.

# %%
n = caffe.NetSpec()
n.data = L.Input(shape=dict(dim=[1, 1, 28, 28 * 8]))
n.fc_conv = L.Convolution(body(n), kernel_size=4, num_output=100)
n.relu = L.ReLU(n.fc_conv, in_place=True)
n.score_conv = L.Convolution(n.relu, kernel_size=1, num_output=10)
n.prob = L.Softmax(n.score_conv)
wide = caffe.Net(write("wide.prototxt", n.to_proto()), caffe.TEST)

trained = solver.net
for new, old in {"conv1": "conv1", "conv2": "conv2", "fc_conv": "fc", "score_conv": "score"}.items():
    for target, source in zip(wide.params[new], trained.params[old]):
        target.data.flat = source.data.flat
    print("%-10s %-18s from %-5s %s" % (new, tuple(wide.params[new][0].shape), old, tuple(trained.params[old][0].shape)))

# %% [markdown]
# Eight digits side by side. The map of scores has a column for every fourth pixel; each column sees 28 pixels. White is a
# probability of 1; a row of the map is a digit, 0 on top.

# %%
line = np.concatenate(list(pictures[:8, 0]), axis=1)
probabilities = wide.forward(data=line[np.newaxis, np.newaxis])["prob"][0, :, 0]
centers = np.arange(8) * 7  # pixel 28 k is column 7 k
read_digits = probabilities[:, centers].argmax(0)
print("labels:", labels[:8], " read:", read_digits)
map_of_scores = np.zeros((10, line.shape[1]))
stretched = probabilities.repeat(4, axis=1)
map_of_scores[:, 14:14 + stretched.shape[1]] = stretched
sheet([np.concatenate([line, map_of_scores.repeat(4, axis=0)])], 1, zoom=3, normalise=False)

# %%
assert np.mean(read_digits == labels[:8]) > 0.7, "the net should read most digits of the line"
wide.save(work_file("wide.caffemodel"))
