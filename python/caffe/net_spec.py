"""Nets written as Python expressions, and made into prototxt.

`layers` makes a layer of any type: positional arguments are its bottoms, keyword arguments its fields; the result is its
top, or a tuple of tops (`ntop=2`), or the layer itself where it has none (`ntop=0`). `params` gives the constants of the
messages. An attribute of a `NetSpec` names a top and its layer; what has no name is called after its type, with a number.

>>> from caffe import layers as L, params as P
>>> n = NetSpec()
>>> n.data, n.label = L.DummyData(shape=[dict(dim=[8, 1, 28, 28]), dict(dim=[8])], ntop=2)
>>> n.conv = L.Convolution(n.data, num_output=20, kernel_size=5, weight_filler=dict(type='xavier'))
>>> n.pool = L.Pooling(n.conv, kernel_size=2, stride=2, pool=P.Pooling.MAX)
>>> n.relu = L.ReLU(n.pool, in_place=True)
>>> n.loss = L.SoftmaxWithLoss(L.InnerProduct(n.relu, num_output=10), n.label)
>>> for layer in n.to_proto().layer:
...     print(layer.name, list(layer.bottom), '->', list(layer.top))
data [] -> ['data', 'label']
conv ['data'] -> ['conv']
pool ['conv'] -> ['pool']
relu ['pool'] -> ['pool']
InnerProduct1 ['pool'] -> ['InnerProduct1']
loss ['InnerProduct1', 'label'] -> ['loss']
>>> print(n.to_proto().layer[1])
name: "conv"
type: "Convolution"
bottom: "data"
top: "conv"
convolution_param {
  num_output: 20
  kernel_size: 5
  weight_filler {
    type: "xavier"
  }
}
<BLANKLINE>
"""

from __future__ import annotations

import difflib
from collections import Counter, OrderedDict
from typing import Any, Callable, Mapping, Sequence, Union

from .proto import caffe_pb2

__all__ = ["Function", "Layers", "NetSpec", "Parameters", "Top", "assign_proto", "layers", "param_name_dict", "params",
           "to_proto"]

# Types that read the message of another layer: {type: fields of LayerParameter}. Caffe wants these messages spelled out
# (convolution_param=dict(...)), which works as well.
_BORROWED = {
    "Deconvolution": ("convolution_param",),
    "EuclideanLoss": ("loss_param",),
    "Im2col": ("convolution_param",),
    "InfogainLoss": ("loss_param",),
    "LSTM": ("recurrent_param",),
    "MultinomialLogisticLoss": ("loss_param",),
    "ParallelData": ("parallel_data_param",),
    "ParallelInMemData": ("parallel_inmem_data_param",),
    "RNN": ("recurrent_param",),
    "SigmoidCrossEntropyLoss": ("loss_param",),
    "SoftmaxWithLoss": ("softmax_param", "loss_param"),
}


def param_name_dict() -> dict[str, str]:
    """Maps a layer type to the name of its own message: the field of LayerParameter without `_param`.

    >>> names = param_name_dict()
    >>> names['InnerProduct'], names['HDF5Data'], names['ReLU']
    ('inner_product', 'hdf5_data', 'relu')
    """
    names = {}
    for field in caffe_pb2.LayerParameter.DESCRIPTOR.fields:
        if field.name.endswith("_param"):
            names[_without_end(field.message_type.name, "Parameter")] = _without_end(field.name, "_param")
    return names


def _without_end(text, end):
    return text[:-len(end)] if text.endswith(end) else text


def assign_proto(proto: Any, name: str, val: Any) -> None:
    """Sets field `name` of the message `proto`, whatever kind of field it is.

    A dict fills a message, a list a repeated field; a single value becomes the only element of a repeated field. Enums are
    taken as numbers or by name; NumPy's numbers and arrays and whole messages are taken too.

    >>> layer = caffe_pb2.LayerParameter()
    >>> assign_proto(layer, 'param', [dict(lr_mult=1), dict(lr_mult=2)])
    >>> assign_proto(layer, 'pooling_param', dict(pool='AVE', kernel_size=3))
    >>> assign_proto(layer, 'loss_weight', 0.5)
    >>> layer.param[1].lr_mult, layer.pooling_param.pool, layer.loss_weight[0]
    (2.0, 1, 0.5)
    """
    field = proto.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        raise AttributeError(_no_field(proto.DESCRIPTOR, name))
    if hasattr(val, "tolist"):  # NumPy's scalars and arrays
        val = val.tolist()
    current = getattr(proto, name)
    if hasattr(current, "extend"):
        for item in val if isinstance(val, (list, tuple)) else [val]:
            if field.message_type is not None:
                _fill(current.add(), item)
            else:
                current.append(_scalar(field, item))
    elif field.message_type is not None:
        _fill(current, val)
    else:
        setattr(proto, name, _scalar(field, val))


def _fill(message, val):
    if isinstance(val, dict):
        for key, item in val.items():
            assign_proto(message, key, item)
    elif isinstance(val, type(message)):
        message.MergeFrom(val)
    else:
        raise TypeError("%s wants a dict, not %r" % (message.DESCRIPTOR.name, val))


def _scalar(field, val):
    if hasattr(val, "tolist"):
        val = val.tolist()
    if field.enum_type is not None and isinstance(val, str):
        known = field.enum_type.values_by_name
        if val not in known:
            raise ValueError("%s has no value %r; there are %s" % (field.name, val, ", ".join(known)))
        return known[val].number
    return val


def _no_field(descriptor, name):
    near = difflib.get_close_matches(name, [field.name for field in descriptor.fields], 1)
    hint = "; did you mean %r?" % near[0] if near else ""
    return "%s has no field %r%s" % (descriptor.name, name, hint)


def to_proto(*tops: Union[Top, Function]) -> caffe_pb2.NetParameter:
    """The NetParameter of all layers that the given tops need; none of them has a name of its own.

    >>> data = layers.Input(shape=dict(dim=[1, 3]))
    >>> [layer.name for layer in to_proto(layers.Sigmoid(data), layers.TanH(data)).layer]
    ['Input1', 'Sigmoid1', 'TanH1']
    """
    return _net_of(tops, {})


def _net_of(tops, names):
    made, counts = OrderedDict(), Counter()
    for top in tops:
        top._to_proto(made, names, counts)
    net = caffe_pb2.NetParameter()
    net.layer.extend(made.values())
    return net


class Top:
    """One output of a layer: output number `n` of the Function `fn`."""

    def __init__(self, fn: Function, n: int) -> None:
        self.fn = fn
        self.n = n

    def __repr__(self):
        return "<Top %d of %s>" % (self.n, self.fn.type_name)

    def to_proto(self) -> caffe_pb2.NetParameter:
        """The NetParameter of all layers that this top needs."""
        return to_proto(self)

    def _to_proto(self, made, names, counts):
        return self.fn._to_proto(made, names, counts)


class Function:
    """A layer that is not yet in a net: its type, the Tops that it reads, its fields, the Tops that it makes."""

    def __init__(self, type_name: str, inputs: Sequence[Top], params: Mapping[str, Any]) -> None:
        for index, bottom in enumerate(inputs):
            if not isinstance(bottom, Top):
                raise TypeError("%s input %d is not a Top (type is %s)" % (type_name, index, type(bottom)))
        self.type_name = type_name
        self.inputs = inputs
        self.params = dict(params)
        self.ntop = self.params.pop("ntop", 1)
        self.in_place = self.params.pop("in_place", False)
        self.tops: tuple[Top, ...] = tuple(Top(self, n) for n in range(self.ntop))

    def __repr__(self):
        return "<%s layer, %d in, %d out>" % (self.type_name, len(self.inputs), self.ntop)

    def to_proto(self) -> caffe_pb2.NetParameter:
        """The NetParameter of this layer and of all that it needs."""
        return to_proto(self)

    def _get_name(self, names, counts):
        """The layer is called as its first top is, or has a number of its own where it has no top."""
        if self not in names:
            names[self] = self._get_top_name(self.tops[0], names, counts) if self.ntop > 0 else self._number(names, counts)
        return names[self]

    def _get_top_name(self, top, names, counts):
        if top not in names:
            names[top] = self._number(names, counts)
        return names[top]

    def _number(self, names, counts):
        while True:
            counts[self.type_name] += 1
            name = "%s%d" % (self.type_name, counts[self.type_name])
            if name not in names.values():
                return name

    def _to_proto(self, made, names, counts):
        """Adds the layers that this one needs, then this one, to `made` ({Function: LayerParameter} in order)."""
        pending = [self]  # not recursive: nets are deeper than Python's stack
        while pending:
            fn = pending[-1]
            missing = next((top.fn for top in fn.inputs if top.fn not in made), None)
            if fn not in made and missing is not None:
                pending.append(missing)
            else:
                pending.pop()
                if fn not in made:
                    made[fn] = fn._layer(made, names, counts)

    def _layer(self, made, names, counts):
        layer = caffe_pb2.LayerParameter()
        layer.type = self.type_name
        layer.bottom.extend(made[top.fn].top[top.n] for top in self.inputs)
        if self.in_place:
            layer.top.extend(layer.bottom)
        else:
            layer.top.extend([self._get_top_name(top, names, counts) for top in self.tops])
        layer.name = self._get_name(names, counts)
        for key, val in self.params.items():
            assign_proto(self._home_of(key, layer), key, val)
        return layer

    def _home_of(self, key, layer):
        """The message that field `key` belongs to: the layer's own message first, then the layer itself."""
        if key.endswith("param"):
            return layer
        homes = [_param_names[self.type_name] + "_param"] if self.type_name in _param_names else []
        homes += [""] + list(_BORROWED.get(self.type_name, ()))
        for home in homes:
            message = getattr(layer, home) if home else layer
            if key in message.DESCRIPTOR.fields_by_name:
                return message
        fields = [f.name for home in homes for f in (getattr(layer, home) if home else layer).DESCRIPTOR.fields]
        near = difflib.get_close_matches(key, fields, 1)
        raise AttributeError("a %s layer has no field %r%s" %
                             (self.type_name, key, "; did you mean %r?" % near[0] if near else ""))


class _NoSuchTop(AttributeError, KeyError):
    """An AttributeError, so that hasattr works; a KeyError, which is what pycaffe raises."""

    def __str__(self):
        return str(self.args[0])


class NetSpec:
    """Names for tops: `spec.conv1 = layers.Convolution(...)`, or `spec['conv1'] = ...`; `spec.tops` has them all.

    >>> n = NetSpec()
    >>> n['data'] = layers.Input(shape=dict(dim=[2, 4]))
    >>> n.quiet = layers.Silence(n.data, ntop=0)
    >>> list(n.tops), [layer.name for layer in n.to_proto().layer]
    (['data', 'quiet'], ['data', 'quiet'])
    """

    tops: OrderedDict[str, Any]

    def __init__(self) -> None:
        super().__setattr__("tops", OrderedDict())

    def __setattr__(self, name: str, value: Any) -> None:
        self.tops[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copy, pickle and inspect ask for
            raise AttributeError(name)
        try:
            return self.tops[name]
        except KeyError:
            known = ", ".join(self.tops) or "none yet"
            raise _NoSuchTop("this NetSpec has no top %r; it has: %s" % (name, known)) from None

    def __delattr__(self, name: str) -> None:
        self.__getattr__(name)
        del self.tops[name]

    def __setitem__(self, key: str, value: Any) -> None:
        self.__setattr__(key, value)

    def __getitem__(self, key: str) -> Any:
        return self.__getattr__(key)

    def __delitem__(self, key: str) -> None:
        self.__delattr__(key)

    def __contains__(self, key: object) -> bool:
        return key in self.tops

    def __dir__(self):
        return sorted(set(super().__dir__()) | set(self.tops))

    def __getstate__(self):
        return {"tops": self.tops}

    def __setstate__(self, state):
        super().__setattr__("tops", state["tops"])

    def to_proto(self) -> caffe_pb2.NetParameter:
        """The NetParameter of all named tops and of what they need, in the order in which they were named."""
        for name, top in self.tops.items():
            if not isinstance(top, (Top, Function)):
                raise TypeError("NetSpec.%s is not a Top (type is %s)" % (name, type(top)))
        return _net_of(self.tops.values(), {top: name for name, top in self.tops.items()})


class Layers:
    """`layers.Type(*bottoms, ntop=1, in_place=False, **fields)` makes a layer of any type."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):  # what copy, doctest and inspect ask for is no layer
            raise AttributeError(name)

        def layer_fn(*args, **kwargs):
            fn = Function(name, args, kwargs)
            if fn.ntop == 0:
                return fn
            return fn.tops[0] if fn.ntop == 1 else fn.tops

        layer_fn.__name__ = layer_fn.__qualname__ = name
        layer_fn.__doc__ = "Makes a %s layer: bottoms, then its fields by name; ntop and in_place." % name
        return layer_fn

    def __dir__(self):
        try:
            from ._caffe import layer_type_list
            return sorted(layer_type_list())
        except ImportError:
            return sorted(set(_param_names) | set(_BORROWED))


class Parameters:
    """`params.Pooling.MAX` is the constant MAX of PoolingParameter.

    >>> params.Eltwise.SUM, params.Data.LMDB
    (1, 1)
    """

    def __getattr__(self, name: str) -> Any:
        message = None if name.startswith("__") else getattr(caffe_pb2, name + "Parameter", None)
        if message is None:
            raise AttributeError("there is no %sParameter" % name)
        return _Constants(name, message)

    def __dir__(self):
        return sorted(_without_end(name, "Parameter") for name in caffe_pb2.DESCRIPTOR.message_types_by_name
                      if name.endswith("Parameter"))


class _Constants:

    def __init__(self, name, message):
        self._name = name
        self._message = message

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._message, name)

    def __dir__(self):
        return sorted(value for enum in self._message.DESCRIPTOR.enum_types for value in enum.values_by_name)

    def __repr__(self):
        return "<constants of %sParameter: %s>" % (self._name, ", ".join(dir(self)))


_param_names = param_name_dict()

layers = Layers()
params = Parameters()
