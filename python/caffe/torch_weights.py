"""Weights from PyTorch, and from any other {name: array}.

A Caffe layer has its blobs in an order, a PyTorch module has tensors with names; the numbers lie in memory alike for
convolutions (transposed ones too), fully connected layers, PReLU, embeddings and normalisation. PyTorch is not needed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Mapping, Sequence, Union

import numpy as np

from .pycaffe import Net

__all__ = ["from_torch", "load_state_dict"]


def _array(value: Any) -> np.ndarray:
    for method in ("detach", "cpu"):  # a tensor of PyTorch, wherever it lies
        value = getattr(value, method)() if hasattr(value, method) else value
    return np.asarray(value, dtype=np.float32)


def from_torch(state_dict: Mapping[str, Any], mapping: Mapping[str, Union[str, Sequence[str]]]
               ) -> OrderedDict[str, np.ndarray]:
    """The tensors of a PyTorch state_dict as Net.load_state_dict takes them: {"conv1.0": array, "conv1.1": array, ...}.

    mapping: {Caffe layer: module} or {Caffe layer: [tensor, ...]} in the order of the layer's blobs. A module gives its
    weight and bias; a BatchNorm its statistics, as Caffe's BatchNorm has them: its weight and bias go to the Scale layer
    that follows, and have to be named.

    >>> state = {"features.0.weight": np.ones((2, 3)), "features.0.bias": np.zeros(2), "bn.weight": np.ones(2),
    ...          "bn.bias": np.zeros(2), "bn.running_mean": np.zeros(2), "bn.running_var": np.ones(2)}
    >>> weights = from_torch(state, {"ip": "features.0", "bn": "bn", "scale": ["bn.weight", "bn.bias"]})
    >>> [(name, value.shape) for name, value in weights.items()]
    [('ip.0', (2, 3)), ('ip.1', (2,)), ('bn.0', (2,)), ('bn.1', (2,)), ('bn.2', (1,)), ('scale.0', (2,)), ('scale.1', (2,))]
    """
    weights: OrderedDict[str, np.ndarray] = OrderedDict()
    for layer, source in mapping.items():
        if not isinstance(source, str):
            values = [_array(_find(state_dict, name, layer)) for name in source]
        elif source + ".running_mean" in state_dict:
            values = [_array(state_dict[source + end]) for end in (".running_mean", ".running_var")] + [np.ones(1, np.float32)]
        elif source + ".weight_ih_l0" in state_dict:
            raise ValueError("%s: the gates of %s lie in another order than Caffe's; recurrent layers are not translated" %
                             (layer, source))
        else:
            values = [_array(_find(state_dict, source + ".weight", layer))]
            values += [_array(state_dict[source + ".bias"])] if state_dict.get(source + ".bias") is not None else []
        for i, value in enumerate(values):
            weights["%s.%d" % (layer, i)] = value
    return weights


def _find(state_dict: Mapping[str, Any], name: str, layer: str) -> Any:
    if name not in state_dict:
        raise KeyError("layer %s: the state_dict has no %r; it has %s" %
                       (layer, name, ", ".join(sorted(state_dict)[:20]) or "nothing"))
    return state_dict[name]


def load_state_dict(self: Net, state_dict: Mapping[str, Any], strict: bool = True) -> None:
    """Sets the parameters of the net: {"conv1.0": array, ...}, as Net.state_dict() gives them.

    strict: everything that the net has must be there, and nothing else. Nothing is changed where something does not fit; a
    shape with the same number of values, such as (1, 1, 1, 10) for (10,), fits.
    """
    own = {"%s.%d" % (name, i): blob for name, blobs in self.params.items() for i, blob in enumerate(blobs)}
    if strict and set(own) != set(state_dict):
        missing, unknown = sorted(set(own) - set(state_dict)), sorted(set(state_dict) - set(own))
        raise KeyError("the weights are not those of the net; missing: %s; unknown: %s" %
                       (", ".join(missing) or "none", ", ".join(unknown) or "none"))
    values = {name: _array(value) for name, value in state_dict.items() if name in own}
    for name, value in values.items():
        if value.size != own[name].count:
            raise ValueError("%s has the shape %s in the net, and %s in the weights" %
                             (name, tuple(own[name].shape), value.shape))
    for name, value in values.items():
        own[name].data[...] = value.reshape(tuple(own[name].shape))


Net.load_state_dict = load_state_dict
