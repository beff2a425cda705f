"""What Net and the solvers do in Python: names, dictionaries and batches around the C++ classes."""

import functools
from collections import OrderedDict
from itertools import zip_longest

import numpy as np

from . import _caffe
from ._caffe import Net, Solver
from .summary import summary


def _once(method):
    """A property that is worked out at the first use: what a net consists of does not change."""
    name = "_cached_" + method.__name__

    @functools.wraps(method)
    def get(self):
        found = self.__dict__.get(name)
        if found is None:
            found = self.__dict__[name] = method(self)
        return found

    return property(get)


# ---------------------------------------------------------------- what a net consists of


@_once
def _net_blobs(self):
    """All blobs by name, in the order in which the layers make them."""
    return OrderedDict(zip(self._blob_names, self._blobs))


@_once
def _net_blob_loss_weights(self):
    """The loss weight of each blob, by name."""
    return OrderedDict(zip(self._blob_names, self._blob_loss_weights))


@_once
def _net_layers(self):
    """All layers, in the order in which they run."""
    return self._layers


@_once
def _net_layer_dict(self):
    """All layers by name."""
    return OrderedDict(zip(self._layer_names, self.layers))


@_once
def _net_params(self):
    """The parameters of the layers that have some, by the layer's name."""
    pairs = zip(self._layer_names, self.layers)
    return OrderedDict((name, layer.blobs) for name, layer in pairs if len(layer.blobs) > 0)


@_once
def _net_inputs(self):
    """The names of the blobs that the user fills."""
    names = list(self.blobs)
    return [names[i] for i in self._inputs]


@_once
def _net_outputs(self):
    """The names of the blobs that no layer reads."""
    names = list(self.blobs)
    return [names[i] for i in self._outputs]


def _names_by_layer(net, ids_of):
    names = net._blob_names
    pairs = enumerate(net._layer_names)
    return OrderedDict((layer, [names[i] for i in ids_of(number)]) for number, layer in pairs)


@_once
def _net_top_names(self):
    """The tops of each layer, by the layer's name."""
    return _names_by_layer(self, self._top_ids)


@_once
def _net_bottom_names(self):
    """The bottoms of each layer, by the layer's name."""
    return _names_by_layer(self, self._bottom_ids)


@_once
def _net_numbers(self):
    """Layer name -> index; the first of a name counts."""
    numbers = {}
    for number, name in enumerate(self._layer_names):
        numbers.setdefault(name, number)
    return numbers


def _layer_number(net, name):
    try:
        return net._numbers[name]
    except KeyError:
        raise ValueError("the net has no layer {!r}".format(name)) from None


# ---------------------------------------------------------------- running it


def _fill(net, arrays, wanted, half):
    """Copies arrays into the blobs of the same name, which must be exactly those of `wanted`."""
    if set(arrays) != set(wanted):
        what = "Input blob" if half == "data" else "Top diff"
        raise Exception(
            "{} arguments do not match net {}. Given: {}; the net has: {}".format(
                what, "inputs" if half == "data" else "outputs", ", ".join(arrays), ", ".join(wanted) or "none")
        )
    for name, array in arrays.items():
        blob = net.blobs[name]
        array = np.asarray(array)
        if array.ndim == 0 or not blob.shape or array.shape[0] != blob.shape[0]:
            raise Exception("{} is not batch sized: {!r} has the shape {}, the array {}".format(
                "Input" if half == "data" else "Diff", name, blob.shape, array.shape))
        try:
            getattr(blob, half)[...] = array
        except ValueError as error:
            raise ValueError("{!r} has the shape {}: {}".format(name, blob.shape, error)) from None


def _net_forward(self, blobs=None, start=None, end=None, **kwargs):
    """Runs the net forward and returns its outputs.

    blobs: names of further blobs to return. start, end: names of the first and last layer to run; with `end`, its
    tops are returned instead of the outputs. Arrays given by name go into the net's inputs first, and must be given for
    all of them. What is returned are views, {name: array}: the next pass changes them.
    """
    first = 0 if start is None else _layer_number(self, start)
    if end is None:
        last = len(self.layers) - 1
        names = self.outputs
    else:
        last = _layer_number(self, end)
        names = self.top_names[end]
    if blobs:
        names = list(dict.fromkeys([*names, *blobs]))
    if kwargs:
        _fill(self, kwargs, self.inputs, "data")
    self._forward(first, last)
    found = self.blobs
    return {name: found[name].data for name in names}


def _net_backward(self, diffs=None, start=None, end=None, **kwargs):
    """Runs the net backward and returns the gradients of its inputs.

    diffs: names of further blobs whose gradients to return. start, end: names of the first and last layer to run,
    counted from the net's end; with `end`, the gradients of its bottoms are returned. Arrays given by name go into the
    gradients of the outputs (or of the tops of `start`) first. What is returned are views, {name: array}.
    """
    if start is None:
        first = len(self.layers) - 1
        tops = self.outputs
    else:
        first = _layer_number(self, start)
        tops = self.top_names[start]
    if end is None:
        last = 0
        names = self.inputs
    else:
        last = _layer_number(self, end)
        names = self.bottom_names[end]
    if diffs:
        names = list(dict.fromkeys([*names, *diffs]))
    if kwargs:
        _fill(self, kwargs, tops, "diff")
    self._backward(first, last)
    found = self.blobs
    return {name: found[name].diff for name in names}


def _batches(net, arrays):
    """Splits {name: rows} in batches of the net's size. The last is filled up with zeros."""
    size = next(iter(net.blobs.values())).shape[0]
    rows = len(next(iter(arrays.values())))
    for begin in range(0, rows, size):
        batch = {}
        for name, array in arrays.items():
            part = np.asarray(array[begin:begin + size])
            if len(part) < size:
                part = np.concatenate([part, np.zeros((size - len(part),) + part.shape[1:], part.dtype)])
            batch[name] = part
        yield batch


def _collected(net, parts, rows):
    """{name: list of batches} as arrays: row by row, without what filled up the last batch; or, where a blob has no row
    for each of the input's (a loss), one entry per batch."""
    size = next(iter(net.blobs.values())).shape[0]
    whole = {}
    for name, batches in parts.items():
        by_row = batches[0].ndim > 0 and len(batches[0]) == size
        whole[name] = np.concatenate(batches)[:rows] if by_row else np.stack(batches)
    return whole


def _rows(arrays):
    return len(next(iter(arrays.values()))) if arrays else 0


def _net_forward_all(self, blobs=None, **kwargs):
    """Runs any number of rows through the net, batch by batch, and returns copies of the outputs for all of them."""
    parts = {}
    for batch in _batches(self, kwargs):
        for name, array in self.forward(blobs=blobs, **batch).items():
            parts.setdefault(name, []).append(array.copy())
    return _collected(self, parts, _rows(kwargs))


def _net_forward_backward_all(self, blobs=None, diffs=None, **kwargs):
    """Runs any number of rows forward and backward, batch by batch.

    Arrays of the net's inputs go forward, arrays named like its outputs are their gradients. Returns copies of the
    outputs (and `blobs`) and of the gradients of the inputs (and `diffs`).
    """
    forward = {name: array for name, array in kwargs.items() if name in self.inputs}
    backward = {name: array for name, array in kwargs.items() if name in self.outputs}
    values, gradients = {}, {}
    for ahead, back in zip_longest(_batches(self, forward), _batches(self, backward) if backward else (), fillvalue={}):
        for name, array in self.forward(blobs=blobs, **ahead).items():
            values.setdefault(name, []).append(array.copy())
        for name, array in self.backward(diffs=diffs, **back).items():
            gradients.setdefault(name, []).append(array.copy())
    rows = _rows(forward)
    return _collected(self, values, rows), _collected(self, gradients, rows)


def _net_set_input_arrays(self, data, labels):
    """Gives a net that begins with MemoryData its rows (n, channels, height, width) and one label for each.

    Both are float32 and C-contiguous, n is a multiple of the batch size; they are read in place, not copied.
    """
    if np.ndim(labels) == 1:
        labels = labels[:, np.newaxis, np.newaxis, np.newaxis]
    self._set_input_arrays(data, labels)


def _add_hook(when, doc):
    def add(self, hook):
        if isinstance(hook, NCCL):
            return  # gradients travel with the solver's own exchange
        if not callable(hook):
            raise TypeError("a hook is called with the layer's number, so it must be callable")
        self._add_hook(when, hook)

    add.__doc__ = doc
    return add


def _net_state_dict(self):
    """Copies of all parameters: {"conv1.0": array, "conv1.1": array, ...}."""
    return OrderedDict(
        ("{}.{}".format(name, i), blob.data.copy())
        for name, blobs in self.params.items() for i, blob in enumerate(blobs)
    )


# ---------------------------------------------------------------- NCCL's names


class NCCL:
    """Of old multi-GPU scripts. Here the solver itself sums gradients over all ranks that mpirun started."""

    def __init__(self, solver, uid):
        if _caffe.solver_count() > 1 and _caffe.size() == 1:
            raise _caffe.ConfigError(
                "NCCL with {} solvers, but this process is alone\n  fix: start the script once per worker, with "
                "mpirun -n {} python ..., and leave out its own processes".format(*[_caffe.solver_count()] * 2)
            )
        self.solver = solver
        self.uid = uid

    @staticmethod
    def new_uid():
        """A fresh name for a group of solvers, as bytes."""
        import os

        return os.urandom(128)

    def bcast(self):
        """Nothing is left to do: all ranks start with the weights of rank 0."""


# ---------------------------------------------------------------- solvers


def _solver_add_callback(self, on_start, on_gradients_ready=None):
    """Calls on_start() before each iteration, and on_gradients_ready() when its gradients are there, before the update.

    They are the mean over all ranks then, in net.params[...][i].diff, and may be changed.
    """
    if isinstance(on_start, NCCL):
        return
    if on_gradients_ready is None:
        on_gradients_ready = lambda: None  # noqa: E731
    if not callable(on_start) or not callable(on_gradients_ready):
        raise TypeError("add_callback takes two functions without arguments")
    self._add_callback(on_start, on_gradients_ready)


def _solver_class(kind):
    def __init__(self, solver_file):
        Solver.__init__(self, solver_file, kind)

    doc = "A training run with the update rule {}, whatever the file's type is.".format(kind)
    return type(kind + "Solver", (Solver,), {"__init__": __init__, "__doc__": doc, "__module__": "caffe"})


solver_classes = {kind: _solver_class(kind) for kind in _caffe._solver_types()}


def get_solver(solver_file):
    """The solver of a file, of the class that its `type` names."""
    return solver_classes[_caffe._solver_type(solver_file)](solver_file)


Net.blobs = _net_blobs
Net.blob_loss_weights = _net_blob_loss_weights
Net.layers = _net_layers
Net.layer_dict = _net_layer_dict
Net.params = _net_params
Net.inputs = _net_inputs
Net.outputs = _net_outputs
Net.top_names = _net_top_names
Net.bottom_names = _net_bottom_names
Net._numbers = _net_numbers
Net.forward = _net_forward
Net.backward = _net_backward
Net.forward_all = _net_forward_all
Net.forward_backward_all = _net_forward_backward_all
Net.set_input_arrays = _net_set_input_arrays
Net.before_forward = _add_hook(0, "Calls hook(layer's number) before each layer runs forward.")
Net.after_forward = _add_hook(1, "Calls hook(layer's number) after each layer has run forward.")
Net.before_backward = _add_hook(2, "Calls hook(layer's number) before each layer runs backward.")
Net.after_backward = _add_hook(3, "Calls hook(layer's number) after each layer has run backward.")
Net.state_dict = _net_state_dict
Net.summary = summary
Solver.add_callback = _solver_add_callback
