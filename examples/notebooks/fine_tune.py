# %% [markdown]
# # Fine-tuning
#
# Weights that were learned on much data help where there is little. A net learns the digits 0 to 4 from thousands of pictures;
# then it has to tell 5, 6, 7, 8 and 9 apart, of which it gets five pictures each.

# %%
import numpy as np
from notebook_help import Chart, digits, sheet, work_file, write

import caffe
from caffe import layers as L
from caffe import params as P

caffe.init_log(1)  # warnings only
caffe.set_mode_cpu()
caffe.set_random_seed(3)


def read(database, count):
    """The first pictures and labels of a database: a net of one Data layer reads them."""
    n = caffe.NetSpec()
    n.data, n.label = L.Data(batch_size=count, backend=P.Data.LMDB, source=database,
                             transform_param=dict(scale=1 / 256), ntop=2)
    net = caffe.Net(write("read.prototxt", n.to_proto()), caffe.TEST)
    net.forward()
    return net.blobs["data"].data.copy(), net.blobs["label"].data.astype(np.float32)


def choose(pictures, labels, low, high, each=None):
    """Pictures with labels from low to high - 1, at most `each` of a label; labels count from 0."""
    index = np.concatenate([np.flatnonzero(labels == label)[:each] for label in range(low, high)])
    return np.ascontiguousarray(pictures[index]), labels[index] - low


train_set, test_set = digits()
pictures, labels = read(train_set, 4000)
many = choose(pictures, labels, 0, 5)
few = [choose(pictures[i:i + 1000], labels[i:i + 1000], 5, 10, each=5) for i in range(0, 4000, 1000)]  # four draws
test = choose(*read(test_set, 1000), 5, 10)
print("%d pictures of 0-4; %d of 5-9, four times; %d of 5-9 to test with" % (len(many[0]), len(few[0][0]), len(test[0])))
sheet(few[0][0][:, 0], 25)

# %% [markdown]
# ## One net, two uses
# The last layer is new for the new task, and so has another name: weights are copied by name. `lr_mult` is the factor of the
# learning rate: the new layer learns twice as fast as those which know something already.


# %%
def net(batch, last, last_mult=1):
    n = caffe.NetSpec()
    fill = dict(type="xavier")
    n.data, n.label = L.MemoryData(batch_size=batch, channels=1, height=28, width=28, ntop=2)
    n.conv1 = L.Convolution(n.data, kernel_size=5, num_output=16, weight_filler=fill)
    n.pool1 = L.Pooling(n.conv1, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.conv2 = L.Convolution(n.pool1, kernel_size=5, num_output=32, weight_filler=fill)
    n.relu2 = L.ReLU(n.conv2, in_place=True)
    n.pool2 = L.Pooling(n.relu2, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.fc = L.InnerProduct(n.pool2, num_output=100, weight_filler=fill)
    n.relu = L.ReLU(n.fc, in_place=True)
    n[last] = L.InnerProduct(n.relu, num_output=5, weight_filler=fill,
                             param=[dict(lr_mult=last_mult), dict(lr_mult=2 * last_mult)])
    n.loss = L.SoftmaxWithLoss(n[last], n.label)
    return n.to_proto()


def make_solver(name, net_message, rate):
    return caffe.get_solver(write(name + "_solver.prototxt", caffe.proto.caffe_pb2.SolverParameter(
        train_net=write(name + ".prototxt", net_message), base_lr=rate, momentum=0.9, weight_decay=5e-4, lr_policy="fixed",
        snapshot_prefix=work_file(name), snapshot_after_train=False, random_seed=3)))


def shuffled(data, batch):
    """A multiple of the batch size of rows, in random order: what MemoryData takes."""
    order = np.random.default_rng(3).permutation(len(data[0]))[:len(data[0]) // batch * batch]
    return np.ascontiguousarray(data[0][order]), np.ascontiguousarray(data[1][order])


# %% [markdown]
# ## First the old task

# %%
base = make_solver("base", net(50, "score"), 0.02)
rows = shuffled(many, 50)  # held by us while the net reads it
base.net.set_input_arrays(*rows)
base.step(200)
print("loss on 0-4 after %d iterations: %.3f" % (base.iter, float(base.net.blobs["loss"].data)))
weights = work_file("base.caffemodel")
base.net.save(weights)

# %% [markdown]
# ## Then the new one, with and without what was learned
# `copy_from` takes all layers whose names agree: everything but `score_new`. With so few pictures luck plays a part, so each way is
# gone four times, with other pictures, and the mean is shown.


# %%
def accuracy(weights_of):
    """On all test pictures of 5-9, with the weights of another net."""
    tester = caffe.Net(write("tester.prototxt", net(len(test[0]), "score_new")), caffe.TEST)
    tester.share_with(weights_of)
    tester.set_input_arrays(*test)
    tester.forward()
    return float(np.mean(tester.blobs["score_new"].data.argmax(1) == test[1]))


def learn(data, start):
    """Accuracies after 0, 3, 6, ... 36 iterations; `start` is a file of weights, or None."""
    solver = make_solver("new", net(25, "score_new", 2), 0.01) if start else make_solver("new", net(25, "score_new"), 0.02)
    if start:
        solver.net.copy_from(start)
    rows = shuffled(data, 25)
    solver.net.set_input_arrays(*rows)
    found = [accuracy(solver.net)]
    for _ in range(12):
        solver.step(3)
        found.append(accuracy(solver.net))
    return found


def mean_of_draws(start):
    return np.mean([learn(data, start) for data in few], axis=0)


fine_tuned, from_scratch = mean_of_draws(weights), mean_of_draws(None)
print("after 36 iterations: %.1f %% fine-tuned, %.1f %% from scratch" % (100 * fine_tuned[-1], 100 * from_scratch[-1]))
iterations = range(0, 37, 3)
Chart({"accuracy on 5-9, learned from 25 pictures": {"fine-tuned": zip(iterations, fine_tuned),
                                                     "from scratch": zip(iterations, from_scratch)}})

# %%
assert fine_tuned[-1] > from_scratch[-1], "fine-tuning should be ahead"
