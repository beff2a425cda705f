"""Where a pixel of one top lies in another, through the layers of a NetSpec between them; crops that follow from it.

A spatial layer takes coordinate x of its bottom to a x + b of its top. A map is (axis, a, b): `axis` is the one before the
first spatial axis, or None where the layer has no opinion; a and b are numbers, or arrays with one number per spatial axis.

>>> from caffe import layers as L
>>> data = L.Input(shape=dict(dim=[1, 3, 64, 64]))
>>> conv = L.Convolution(data, num_output=4, kernel_size=3, pad=10)
>>> pool = L.Pooling(conv, kernel_size=2, stride=2)
>>> up = L.Deconvolution(pool, num_output=4, kernel_size=4, stride=2)
>>> axis, a, b = coord_map_from_to(up, data)
>>> axis, a.tolist(), b.tolist()
(1, [1.0], [-10.0])
>>> crop(up, data).fn.params
{'crop_param': {'axis': 2, 'offset': [10]}}
"""

from __future__ import annotations

import numpy as np

from .net_spec import Function, Top
from .net_spec import layers as L

Map = tuple  # (axis or None, a, b)

__all__ = ["AxisMismatchException", "PASS_THROUGH_LAYERS", "UndefinedMapException", "compose", "conv_params",
           "coord_map", "coord_map_from_to", "crop", "crop_params", "inverse"]

PASS_THROUGH_LAYERS = [
    "AbsVal", "BatchNorm", "Bias", "BNLL", "Clip", "Dropout", "Eltwise", "ELU", "Exp", "Log", "LRN", "MVN", "Power",
    "PReLU", "ReLU", "ReLU6", "Scale", "Sigmoid", "Split", "Swish", "TanH", "Threshold"
]

_HEIGHT_AND_WIDTH = {"pad_h", "pad_w", "kernel_h", "kernel_w", "stride_h", "stride_w"}
_IDENTITY = (None, 1, 0)


class UndefinedMapException(Exception):
    """The layer is not spatial: its top has no coordinates that come from the bottom."""


class AxisMismatchException(Exception):
    """Two layers do not agree on which axes are spatial."""


def _per_axis(value):
    return np.array(value, ndmin=1)


def conv_params(fn: Function) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """(axis, stride, extent of the kernel with its dilation, pad) of a Convolution, Deconvolution, Pooling or Im2col."""
    params = fn.params
    for name in ("convolution_param", "pooling_param"):
        params = params.get(name, params)
    legacy = _HEIGHT_AND_WIDTH & (set(params) | set(fn.params))
    if legacy:
        raise AssertionError("cropping does not support legacy _h/_w params (%s of %s); fix: kernel_size=[h, w] and so on" %
                             (", ".join(sorted(legacy)), fn.type_name))
    extent = (_per_axis(params["kernel_size"]) - 1) * _per_axis(params.get("dilation", 1)) + 1
    return params.get("axis", 1), _per_axis(params.get("stride", 1)), extent, _per_axis(params.get("pad", 0))


def crop_params(fn: Function) -> tuple[int, np.ndarray]:
    """(axis, offset) of a Crop."""
    params = fn.params.get("crop_param", fn.params)
    return params.get("axis", 2), _per_axis(params.get("offset", 0))


def coord_map(fn: Function) -> Map:
    """The map from the bottom of a layer to its top; UndefinedMapException where there is none."""
    if fn.type_name in ("Convolution", "Pooling", "Im2col"):
        axis, stride, extent, pad = conv_params(fn)
        return axis, 1 / stride, (pad - (extent - 1) / 2) / stride
    if fn.type_name == "Deconvolution":
        axis, stride, extent, pad = conv_params(fn)
        return axis, stride, (extent - 1) / 2 - pad
    if fn.type_name == "Crop":
        axis, offset = crop_params(fn)
        return axis - 1, 1, -offset
    if fn.type_name in PASS_THROUGH_LAYERS:
        return _IDENTITY
    raise UndefinedMapException("%s has no coordinate map" % fn.type_name)


def compose(base_map: Map, next_map: Map) -> Map:
    """The map that does next_map first, then base_map: a1 (a2 x + b2) + b1."""
    ax1, a1, b1 = base_map
    ax2, a2, b2 = next_map
    if ax1 is not None and ax2 is not None and ax1 != ax2:
        raise AxisMismatchException("one layer counts its spatial axes from %d, another from %d" % (ax1 + 1, ax2 + 1))
    return (ax2 if ax1 is None else ax1), a1 * a2, a1 * b2 + b1


def inverse(coord_map: Map) -> Map:
    """The map that goes back: (x - b) / a."""
    ax, a, b = coord_map
    return ax, 1 / a, -b / a


def _maps_upwards(top):
    """Yields (ancestor, map from its coordinates to those of `top`), `top` itself first, as far as layers are spatial."""
    seen, frontier = set(), [(top, _IDENTITY)]
    while frontier:
        current, so_far = frontier.pop()
        if current in seen:
            continue
        seen.add(current)
        yield current, so_far
        try:
            step = compose(so_far, coord_map(current.fn))
        except UndefinedMapException:
            continue
        bottoms = current.fn.inputs[:1] if current.fn.type_name == "Crop" else current.fn.inputs
        frontier.extend((bottom, step) for bottom in bottoms)


def coord_map_from_to(top_from: Top, top_to: Top) -> Map:
    """The map from coordinates of top_from to those of top_to, through an ancestor that both have.

    RuntimeError where they have none, or where a layer between them is not spatial.
    """
    from_maps = dict(_maps_upwards(top_from))
    for ancestor, to_map in _maps_upwards(top_to):
        if ancestor in from_maps:
            return compose(to_map, inverse(from_maps[ancestor]))
    raise RuntimeError("Could not compute map between tops; are they connected by spatial layers?")


def crop(top_from: Top, top_to: Top) -> Top:
    """A Crop of top_from to the size of top_to, at the place where their coordinates agree.

    AssertionError where a crop cannot do it: another scale, a negative or a broken offset.
    """
    ax, a, b = coord_map_from_to(top_from, top_to)
    a, b = _per_axis(a), _per_axis(b)
    if not (a == 1).all():
        raise AssertionError("scale mismatch on crop (a = {})".format(a))
    if not (b <= 0).all():
        raise AssertionError("cannot crop negative offset (b = {})".format(b))
    if not (np.round(b) == b).all():
        raise AssertionError("cannot crop noninteger offset (b = {})".format(b))
    first = 2 if ax is None else ax + 1  # None: nothing but layers that keep coordinates
    return L.Crop(top_from, top_to, crop_param=dict(axis=first, offset=[int(offset) for offset in -b]))
