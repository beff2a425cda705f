"""Small nets and solvers as files in a folder that goes away with the test."""

import os

import caffe
from small_nets import WithFolder

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# A convolution and a fully connected layer with a loss; every gradient is worked out.
TWO_LAYERS = """
name: "two_layers" force_backward: true
layer { name: "data" type: "DummyData" top: "data" top: "label"
  dummy_data_param { shape { dim: 5 dim: 2 dim: 3 dim: 4 } shape { dim: 5 }
    data_filler { type: "gaussian" std: 1 } data_filler { type: "constant" } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" param { decay_mult: 1 } param { decay_mult: 0 }
  convolution_param { num_output: 4 kernel_size: 2 weight_filler { type: "gaussian" std: 1 }
    bias_filler { type: "constant" value: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip_blob"
  inner_product_param { num_output: 3 weight_filler { type: "gaussian" std: 0.3 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip_blob" bottom: "label" top: "loss" }
"""

# y = x1 W1^T in two steps, from blobs that the user fills.
INPUTS = """
name: "inputs" force_backward: true
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "a" type: "InnerProduct" bottom: "x" top: "a"
  inner_product_param { num_output: 5 weight_filler { type: "gaussian" std: 1 } } }
layer { name: "b" type: "InnerProduct" bottom: "a" top: "b"
  inner_product_param { num_output: 2 weight_filler { type: "gaussian" std: 1 } } }
"""

SOLVER = """net: "{net}" base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005 lr_policy: "inv" gamma: 0.0001 power: 0.75
  test_iter: 2 test_interval: 10 max_iter: 20 random_seed: 7 snapshot_prefix: "{prefix}" {more}"""


def environment(*folders):
    """That of a child process: Python finds these folders too, and mpirun starts more ranks than there are cores."""
    return dict(os.environ, PYTHONPATH=os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")]), OMP_NUM_THREADS="1",
                OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                OMPI_MCA_hwloc_base_binding_policy="none")


class WithNets(WithFolder):

    def net(self, text, phase=caffe.TRAIN, **options):
        return caffe.Net(self.write("net.prototxt", text), phase, **options)

    def solver_file(self, net=TWO_LAYERS, more=""):
        path = self.write("net.prototxt", net)
        return self.write("solver.prototxt", SOLVER.format(net=path, prefix=self.path("snap"), more=more))
