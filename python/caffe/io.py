"""Arrays, pictures and Caffe's messages: from one to the other, and into the form that a net was trained with.

Pictures are arrays of height x width x channels, R G B, float32 from 0 to 1; Pillow reads them. Nothing here needs
scikit-image or SciPy (interpolation orders from 2 on excepted).
"""

from __future__ import annotations

import io as _streams
from typing import Any, Iterable, Mapping, Optional, Sequence

import numpy as np

from .proto import caffe_pb2

__all__ = ["Transformer", "array_to_blobproto", "array_to_datum", "arraylist_to_blobprotovecor_str",
           "arraylist_to_blobprotovector_str", "blobproto_to_array", "blobprotovector_str_to_arraylist",
           "datum_to_array", "load_image", "load_mean", "oversample", "resize_image"]

# Luminance of linear R G B, as scikit-image weighs it.
_GRAY = np.array([0.2125, 0.7154, 0.0721])


# --- messages ---


def blobproto_to_array(blob: caffe_pb2.BlobProto, return_diff: bool = False) -> np.ndarray:
    """The values (or with return_diff the gradients) of a BlobProto as an array.

    The old kind has num, channels, height, width, and gives 4 axes; the new has `shape`. Without either it must be one
    number, and gives an array without axes.

    >>> blob = array_to_blobproto(np.arange(6).reshape(2, 3))
    >>> blobproto_to_array(blob)
    array([[0., 1., 2.],
           [3., 4., 5.]])
    """
    single, double = (blob.diff, blob.double_diff) if return_diff else (blob.data, blob.double_data)
    values = np.array(double if len(double) and not len(single) else single, dtype=float)
    if any(blob.HasField(name) for name in ("num", "channels", "height", "width")):
        shape = (blob.num, blob.channels, blob.height, blob.width)
    else:
        shape = tuple(blob.shape.dim)
    if values.size != int(np.prod(shape, dtype=object)):
        raise ValueError("the blob has %d values, but its shape is %s" % (values.size, shape))
    return values.reshape(shape)


def array_to_blobproto(arr: Any, diff: Any = None) -> caffe_pb2.BlobProto:
    """A BlobProto with the shape and values of `arr`, and the gradients of `diff` where they are given."""
    arr = np.asarray(arr)
    blob = caffe_pb2.BlobProto()
    blob.shape.dim.extend(arr.shape)
    blob.data.extend(arr.astype(float).ravel().tolist())
    if diff is not None:
        blob.diff.extend(np.asarray(diff).astype(float).ravel().tolist())
    return blob


def arraylist_to_blobprotovector_str(arraylist: Iterable[Any]) -> bytes:
    """Arrays as the bytes of one BlobProtoVector.

    >>> data = arraylist_to_blobprotovector_str([np.zeros((2, 3)), np.ones(4)])
    >>> [array.shape for array in blobprotovector_str_to_arraylist(data)]
    [(2, 3), (4,)]
    """
    vector = caffe_pb2.BlobProtoVector()
    vector.blobs.extend([array_to_blobproto(arr) for arr in arraylist])
    return vector.SerializeToString()


# pycaffe's own spelling.
arraylist_to_blobprotovecor_str = arraylist_to_blobprotovector_str


def blobprotovector_str_to_arraylist(str: bytes) -> list[np.ndarray]:
    """The arrays in the bytes of a BlobProtoVector."""
    vector = caffe_pb2.BlobProtoVector()
    vector.ParseFromString(str)
    return [blobproto_to_array(blob) for blob in vector.blobs]


def array_to_datum(arr: np.ndarray, label: Optional[int] = None) -> caffe_pb2.Datum:
    """A Datum of an array of channels x height x width: uint8 as bytes, any other kind as floats.

    >>> datum = array_to_datum(np.zeros((3, 4, 5), np.uint8), label=7)
    >>> datum.channels, datum.height, datum.width, len(datum.data), datum.label
    (3, 4, 5, 60, 7)
    """
    if arr.ndim != 3:
        raise ValueError("Incorrect array shape: a Datum wants channels x height x width, not %s." % (arr.shape,))
    datum = caffe_pb2.Datum()
    datum.channels, datum.height, datum.width = arr.shape
    if arr.dtype == np.uint8:
        datum.data = arr.tobytes()
    else:
        datum.float_data.extend(arr.astype(float).ravel().tolist())
    if label is not None:
        datum.label = label
    return datum


def datum_to_array(datum: caffe_pb2.Datum) -> np.ndarray:
    """The picture in a Datum, channels x height x width: uint8, or float. An encoded one is decoded, in B G R as Caffe does."""
    if datum.encoded:
        picture = _open_picture(_streams.BytesIO(datum.data))
        pixels = np.asarray(picture if picture.mode == "L" else picture.convert("RGB"))
        return pixels[np.newaxis].copy() if pixels.ndim == 2 else pixels[:, :, ::-1].transpose(2, 0, 1).copy()
    shape = (datum.channels, datum.height, datum.width)
    if len(datum.data):
        return np.frombuffer(datum.data, dtype=np.uint8).reshape(shape).copy()
    return np.array(datum.float_data, dtype=float).reshape(shape)


# --- pictures ---


def load_image(filename: Any, color: bool = True) -> np.ndarray:
    """Reads a picture: height x width x 3 (R G B), or with color=False height x width x 1; float32 from 0 to 1.

    A gray picture becomes three equal channels; an alpha channel is dropped.
    """
    return _to_floats(_open_picture(filename), color)


def _open_picture(file):
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("reading pictures needs Pillow: pip install pillow") from error
    picture = Image.open(file)
    picture.load()
    return picture


def _to_floats(picture, color):
    if picture.mode == "1":
        pixels = np.asarray(picture).astype(np.float64)
    elif picture.mode == "F":
        pixels = np.asarray(picture, dtype=np.float64)
    elif picture.mode.startswith("I"):  # 16 bits
        pixels = np.asarray(picture).astype(np.float64) / 65535
    elif picture.mode in ("L", "LA", "La"):
        pixels = np.asarray(picture.convert("L")) / 255.0
    else:
        pixels = np.asarray(picture.convert("RGB")) / 255.0
    if pixels.ndim == 3 and not color:
        pixels = pixels @ _GRAY
    if pixels.ndim == 2:
        pixels = pixels[:, :, np.newaxis]
    return np.tile(pixels, (1, 1, 3 if color and pixels.shape[2] == 1 else 1)).astype(np.float32)


def load_mean(source: str) -> np.ndarray:
    """A mean for Transformer.set_mean: from a .npy file, from a .binaryproto file (compute_image_mean), or "104,117,123".

    >>> load_mean('104,117,123')
    array([104., 117., 123.])
    """
    try:
        return np.array([float(value) for value in source.split(",")])
    except ValueError:
        pass
    if source.endswith(".npy"):
        return np.load(source)
    blob = caffe_pb2.BlobProto()
    with open(source, "rb") as file:
        data = file.read()
    try:
        blob.ParseFromString(data)
        mean = blobproto_to_array(blob)
    except Exception as error:
        raise ValueError("%s is no mean: it is neither a .npy file nor a BlobProto (%s)" % (source, error)) from None
    return mean[0] if mean.ndim == 4 else mean


def resize_image(im: Any, new_dims: Any, interp_order: int = 1) -> np.ndarray:
    """Resizes height x width x channels to new_dims = (height, width); interp_order 0 is nearest, 1 bilinear. float32.

    With 1 or 3 channels pixels are areas: source = (target + 1/2) * old / new - 1/2; what lies outside counts as the
    picture's smallest value (scikit-image's mode 'constant', which pycaffe uses), and nothing is smoothed before it is
    made smaller, as in Caffe's own data layers. With any other number of channels pixels are points and the corners stay
    where they are: source = target * (old - 1) / (new - 1), as SciPy's zoom has it.

    >>> resize_image(np.array([[[0.], [4.]]]), (1, 4)).ravel().tolist()
    [0.0, 1.0, 3.0, 3.0]
    """
    im = np.asarray(im)
    height, width = (int(size) for size in new_dims)
    if im.ndim != 3 or im.size == 0 or height < 1 or width < 1:
        raise ValueError("cannot resize an array of shape %s to %d x %d; it must be height x width x channels" %
                         (im.shape, height, width))
    areas = im.shape[2] in (1, 3)
    if areas and im.min() == im.max():
        return np.full((height, width, im.shape[2]), im.min(), dtype=np.float32)
    if interp_order > 1:
        return _resize_by_splines(im, (height, width), interp_order, areas)
    outside = float(im.min())
    axes = [(0, height), (1, width)]
    axes.sort(key=lambda axis: axis[1] / im.shape[axis[0]])  # the axis that shrinks more goes first: fewer sums
    for axis, size in axes:
        im = _resize_axis(im, axis, size, interp_order, areas, outside)
    return im.astype(np.float32)


def _resize_axis(im, axis, size, interp_order, areas, outside):
    """Linear (or nearest) interpolation along one axis, in double."""
    old = im.shape[axis]
    if size == old:
        return im
    target = np.arange(size, dtype=np.float64)
    if areas:
        source = (target + 0.5) * old / size - 0.5
    else:
        source = target * (old - 1) / max(size - 1, 1)
    if interp_order == 0:
        return im.take(np.clip(np.floor(source + 0.5).astype(int), 0, old - 1), axis)
    low = np.floor(source).astype(int)
    shape = [-1 if i == axis else 1 for i in range(3)]
    part = (source - low).reshape(shape)

    def pixels(index):
        inside = ((index >= 0) & (index < old)).reshape(shape)
        values = im.take(np.clip(index, 0, old - 1), axis).astype(np.float64)
        return np.where(inside, values, outside) if areas else values

    return (1 - part) * pixels(low) + part * pixels(low + 1)


def _resize_by_splines(im, new_dims, interp_order, areas):
    try:
        from scipy import ndimage
    except ImportError as error:
        raise ImportError("interp_order %d needs SciPy: pip install scipy; 0 and 1 do not" % interp_order) from error
    factors = [new / old for new, old in zip(new_dims, im.shape)] + [1]
    low, high = float(im.min()), float(im.max())
    if not areas:
        return ndimage.zoom(im, factors, order=interp_order).astype(np.float32)
    zoomed = ndimage.zoom(im.astype(np.float64) - low, factors, order=interp_order, mode="grid-constant", grid_mode=True)
    return (np.clip(zoomed, 0, high - low) + low).astype(np.float32)


def oversample(images: Any, crop_dims: Any) -> np.ndarray:
    """Ten crops of each picture: the four corners and the middle, then the same five mirrored.

    images: pictures of one size, height x width x channels; crop_dims: (height, width). Gives
    (10 * pictures) x height x width x channels, all ten of one picture together.

    >>> crops = oversample([np.arange(12.).reshape(3, 4, 1)], (2, 2))
    >>> crops.shape, crops[0].ravel().tolist(), crops[5].ravel().tolist()
    ((10, 2, 2, 1), [0.0, 1.0, 4.0, 5.0], [1.0, 0.0, 5.0, 4.0])
    """
    height, width = (int(size) for size in crop_dims)
    whole = images[0].shape
    bottom, right = whole[0] - height, whole[1] - width
    if bottom < 0 or right < 0:
        raise ValueError("a crop of %d x %d does not fit in pictures of %d x %d" % (height, width, whole[0], whole[1]))
    corners = [(0, 0), (0, right), (bottom, 0), (bottom, right), (bottom // 2, right // 2)]
    crops = np.empty((10 * len(images), height, width, whole[2]), dtype=np.float32)
    for i, image in enumerate(images):
        ten = crops[10 * i:10 * (i + 1)]
        for k, (y, x) in enumerate(corners):
            ten[k] = image[y:y + height, x:x + width]
        ten[5:] = ten[:5, :, ::-1]
    return crops


class Transformer:
    """Makes pictures into what a net takes, by steps that are set for each input; those that are not set are left out.

    preprocess: resize, transpose, channel swap, times raw_scale, minus mean, times input_scale; deprocess goes back.

    inputs: {name of the input: its shape}, e.g. {'data': net.blobs['data'].data.shape}.

    >>> transformer = Transformer({'data': (1, 3, 2, 2)})
    >>> transformer.set_transpose('data', (2, 0, 1))      # height x width x channels to channels x height x width
    >>> transformer.set_channel_swap('data', (2, 1, 0))   # R G B to B G R
    >>> transformer.set_raw_scale('data', 255)            # 0..1 to 0..255
    >>> transformer.set_mean('data', np.array([104, 117, 123]))
    >>> picture = np.zeros((4, 4, 3), np.float32)
    >>> transformer.preprocess('data', picture)[:, 0, 0].tolist()
    [-104.0, -117.0, -123.0]
    """

    def __init__(self, inputs: Mapping[str, Sequence[int]]) -> None:
        self.inputs = inputs
        self.transpose: dict[str, Sequence[int]] = {}
        self.channel_swap: dict[str, Sequence[int]] = {}
        self.raw_scale: dict[str, float] = {}
        self.mean: dict[str, np.ndarray] = {}
        self.input_scale: dict[str, float] = {}

    def _check_input(self, in_):
        if in_ not in self.inputs:
            raise ValueError("{} is not one of the net inputs: {}".format(in_, self.inputs))

    def preprocess(self, in_: str, data: Any) -> np.ndarray:
        """`data` (height x width x channels) as input `in_` takes it, without the batch axis. `data` is not changed."""
        self._check_input(in_)
        out = np.asarray(data).astype(np.float32, copy=False)
        dims = tuple(self.inputs[in_][2:])
        if out.shape[:2] != dims:
            out = resize_image(out, dims)
        if in_ in self.transpose:
            out = out.transpose(self.transpose[in_])
        if in_ in self.channel_swap:
            out = out[list(self.channel_swap[in_]), :, :]
        if in_ in self.raw_scale:
            out = out * np.float32(self.raw_scale[in_])
        if in_ in self.mean:
            out = (out - self.mean[in_]).astype(np.float32, copy=False)
        if in_ in self.input_scale:
            out = out * np.float32(self.input_scale[in_])
        return out

    def deprocess(self, in_: str, data: Any) -> np.ndarray:
        """The picture that preprocess has made `data` of, in the input's size. `data` is not changed."""
        self._check_input(in_)
        out = np.array(data)
        order = self.transpose.get(in_)
        # A batch of one loses its axis; the only channel of a gray picture stays where the axes are known.
        out = out.squeeze() if order is None else out.reshape(out.shape[-len(order):])
        if in_ in self.input_scale:
            out = out / self.input_scale[in_]
        if in_ in self.mean:
            out = out + self.mean[in_]
        if in_ in self.raw_scale:
            out = out / self.raw_scale[in_]
        if in_ in self.channel_swap:
            out = out[np.argsort(self.channel_swap[in_]), :, :]
        if order is not None:
            out = out.transpose(np.argsort(order))
        return out.astype(np.asarray(data).dtype, copy=False)

    def set_transpose(self, in_: str, order: Sequence[int]) -> None:
        """The order of the axes, e.g. (2, 0, 1) for pictures."""
        self._check_input(in_)
        if len(order) != len(self.inputs[in_]) - 1:
            raise ValueError("Transpose order needs to have the same number of dimensions as the input.")
        self.transpose[in_] = order

    def set_channel_swap(self, in_: str, order: Sequence[int]) -> None:
        """The order of the channels, e.g. (2, 1, 0) for nets that take B G R. It comes after the transpose."""
        self._check_input(in_)
        if len(order) != self.inputs[in_][1]:
            raise ValueError("Channel swap needs to have the same number of dimensions as the input channels.")
        self.channel_swap[in_] = order

    def set_raw_scale(self, in_: str, scale: float) -> None:
        """Multiplies before the mean is taken off: 255 where pictures are read as 0..1 and the mean is of 0..255."""
        self._check_input(in_)
        self.raw_scale[in_] = scale

    def set_mean(self, in_: str, mean: Any) -> None:
        """What is taken off, in the net's order of channels: a value per channel, or a picture, which is resized to fit."""
        self._check_input(in_)
        mean = np.asarray(mean)
        shape = tuple(self.inputs[in_][1:])
        if mean.ndim == 1:
            if mean.shape[0] != shape[0]:
                raise ValueError("Mean channels incompatible with input: %d, not %d." % (mean.shape[0], shape[0]))
            mean = mean[:, np.newaxis, np.newaxis]
        else:
            if mean.ndim == 2:
                mean = mean[np.newaxis]
            if mean.ndim != 3:
                raise ValueError("Mean shape invalid: %s is not channels x height x width." % (mean.shape,))
            if mean.shape[1:] != shape[1:]:
                mean = resize_image(mean.transpose(1, 2, 0), shape[1:]).transpose(2, 0, 1)
            if mean.shape[0] not in (1, shape[0]):
                raise ValueError("Mean channels incompatible with input: %d, not %d." % (mean.shape[0], shape[0]))
        self.mean[in_] = mean

    def set_input_scale(self, in_: str, scale: float) -> None:
        """Multiplies after the mean is taken off."""
        self._check_input(in_)
        self.input_scale[in_] = scale
