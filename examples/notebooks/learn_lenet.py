# %% [markdown]
# # Learning LeNet
#
# A net is written as Python expressions, trained step by step, looked at on the way, and asked for its opinion. The pictures
# are digits that Carafe draws by itself: nothing is downloaded. It takes seconds on a CPU.

# %%
import numpy as np
from notebook_help import Chart, digits, sheet, work_file, write

import caffe
from caffe import layers as L
from caffe import params as P

caffe.init_log(1)  # warnings only
caffe.set_mode_cpu()
caffe.set_random_seed(1)

# %% [markdown]
# ## The net
# `caffe.layers` has a function for each type of layer; its arguments are the layer's bottoms and its fields. Attributes of a
# `NetSpec` give names. `to_proto()` makes the text that Caffe reads.


# %%
def lenet(database, batch):
    n = caffe.NetSpec()
    n.data, n.label = L.Data(batch_size=batch, backend=P.Data.LMDB, source=database,
                             transform_param=dict(scale=1 / 256), ntop=2)
    fill = dict(type="xavier")
    n.conv1 = L.Convolution(n.data, kernel_size=5, num_output=20, weight_filler=fill)
    n.pool1 = L.Pooling(n.conv1, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.conv2 = L.Convolution(n.pool1, kernel_size=5, num_output=50, weight_filler=fill)
    n.pool2 = L.Pooling(n.conv2, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.fc1 = L.InnerProduct(n.pool2, num_output=200, weight_filler=fill)
    n.relu1 = L.ReLU(n.fc1, in_place=True)
    n.score = L.InnerProduct(n.relu1, num_output=10, weight_filler=fill)
    n.loss = L.SoftmaxWithLoss(n.score, n.label)
    return n.to_proto()


train_set, test_set = digits()
train_file = write("lenet_train.prototxt", lenet(train_set, 64))
test_file = write("lenet_test.prototxt", lenet(test_set, 100))
print(lenet("digits_train_lmdb", 64).layer[1])

# %% [markdown]
# ## The solver
# It says how the weights are changed, and how often the net is tested. It is a message like any other.

# %%
solver_file = write("lenet_solver.prototxt", caffe.proto.caffe_pb2.SolverParameter(
    train_net=train_file, test_net=[test_file], test_iter=[10], test_interval=1000, base_lr=0.01, momentum=0.9,
    weight_decay=5e-4, lr_policy="inv", gamma=1e-4, power=0.75, snapshot_prefix=work_file("lenet"),
    snapshot_after_train=False, random_seed=1))
solver = caffe.get_solver(solver_file)

for name, blob in solver.net.blobs.items():
    print("%-8s %s" % (name, tuple(blob.shape)))
for name, blobs in solver.net.params.items():
    print("%-8s %s" % (name, [tuple(blob.shape) for blob in blobs]))

# %% [markdown]
# One pass forward fills the blobs. They are NumPy arrays that share the net's memory.

# %%
solver.net.forward()
solver.test_nets[0].forward()
print("labels:", solver.net.blobs["label"].data[:16].astype(int))
sheet(solver.net.blobs["data"].data[:16, 0], 16)

# %% [markdown]
# ## Training, step by step
# `step(1)` is one iteration: forward, backward, update. By hand, `forward()` and `backward()` compute the gradients of one batch;
# here are those of the filters of `conv1`. The first step will move the filters along them, a little.

# %%
solver.net.backward()
sheet(solver.net.params["conv1"][0].diff[:, 0], 20, zoom=6)

# %% [markdown]
# `solver.solve()` would do the rest; a loop of our own can look at everything while it runs. `caffe.progress` steps the solver and
# shows how far it is. Under
# `mpirun -n 4 python learn_lenet.py` the same loop is data-parallel, with a batch of 4 x 64.


# %%
solver.net.clear_param_diffs()


def accuracy(net, batches):
    right = 0
    for _ in range(batches):
        net.forward()
        right += np.sum(net.blobs["score"].data.argmax(1) == net.blobs["label"].data)
    return right / (batches * len(net.blobs["label"].data))


losses, accuracies = [], []
for iteration in caffe.progress(solver, 200):
    losses.append((iteration, float(solver.net.blobs["loss"].data)))
    if iteration % 25 == 0:
        accuracies.append((iteration, accuracy(solver.test_nets[0], 10)))
print("accuracy after %d iterations: %.1f %%" % (iteration, 100 * accuracies[-1][1]))
Chart({"loss": {"training batch": losses}, "accuracy": {"1000 test pictures": accuracies}})

# %% [markdown]
# ## What it thinks
# The trained filters of `conv1`, and the test pictures of which it is least sure.

# %%
sheet(solver.net.params["conv1"][0].data[:, 0], 20, zoom=6)

# %%
net = solver.test_nets[0]
net.forward()
scores = net.blobs["score"].data
probabilities = np.exp(scores - scores.max(1, keepdims=True))
probabilities /= probabilities.sum(1, keepdims=True)
doubtful = probabilities.max(1).argsort()[:10]
for i in doubtful:
    first, second = probabilities[i].argsort()[::-1][:2]
    print("label %d: %d with %2.0f %%, or %d with %2.0f %%" % (net.blobs["label"].data[i], first, 100 * probabilities[i, first],
                                                             second, 100 * probabilities[i, second]))
sheet(net.blobs["data"].data[doubtful, 0], 10, zoom=3)

# %% [markdown]
# The weights go to a file that any Caffe reads. [net_surgery](net_surgery.ipynb) and [fine_tune](fine_tune.ipynb) show
# what else can be done with weights.

# %%
solver.net.save(work_file("lenet.caffemodel"))
assert accuracies[-1][1] > 0.9, "LeNet should get nine of ten digits right by now"
