"""A net that classifies pictures."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from . import io
from .pycaffe import Net

TEST = 1  # caffe.TEST; the package is still being imported when this file is


def make_transformer(net: Net, mean: Any, input_scale: Optional[float], raw_scale: Optional[float],
                     channel_swap: Optional[Sequence[int]]) -> io.Transformer:
    """The io.Transformer for the first input of `net`: transposed always, all else where it is given."""
    name = net.inputs[0]
    transformer = io.Transformer({name: tuple(net.blobs[name].shape)})
    transformer.set_transpose(name, (2, 0, 1))
    if mean is not None:
        transformer.set_mean(name, mean)
    if input_scale is not None:
        transformer.set_input_scale(name, input_scale)
    if raw_scale is not None:
        transformer.set_raw_scale(name, raw_scale)
    if channel_swap is not None:
        transformer.set_channel_swap(name, channel_swap)
    return transformer


class Classifier(Net):
    """A Net in TEST phase with all that its pictures need.

    image_dims: (height, width) that pictures are resized to before crops are taken (default: the input's own size);
    mean, input_scale, raw_scale, channel_swap: see caffe.io.Transformer.

        net = caffe.Classifier('deploy.prototxt', 'net.caffemodel', image_dims=(256, 256),
                               mean=np.array([104, 117, 123]), raw_scale=255, channel_swap=(2, 1, 0))
        net.predict([caffe.io.load_image('cat.jpg')])[0].argmax()
    """

    def __init__(self, model_file: str, pretrained_file: str, image_dims: Optional[Sequence[int]] = None, mean: Any = None,
                 input_scale: Optional[float] = None, raw_scale: Optional[float] = None,
                 channel_swap: Optional[Sequence[int]] = None) -> None:
        Net.__init__(self, model_file, TEST, weights=pretrained_file)
        self.transformer = make_transformer(self, mean, input_scale, raw_scale, channel_swap)
        self.crop_dims = np.array(self.blobs[self.inputs[0]].shape[2:])
        self.image_dims = self.crop_dims if image_dims is None or len(image_dims) == 0 else image_dims

    def predict(self, inputs: Any, oversample: bool = True) -> np.ndarray:
        """The net's first output for each picture: pictures x classes.

        inputs: pictures, height x width x channels, as caffe.io.load_image gives them; oversample: the mean over ten crops
        (corners, middle, mirrors), else the middle alone.
        """
        if len(inputs) == 0:
            raise ValueError("predict wants at least one picture")
        resized = np.stack([io.resize_image(picture, self.image_dims) for picture in inputs])
        if oversample:
            crops = io.oversample(resized, self.crop_dims)
        else:
            crops = self._middle(resized)
        name = self.inputs[0]
        batch = np.stack([self.transformer.preprocess(name, crop) for crop in crops])
        predictions = self.forward_all(**{name: batch})[self.outputs[0]]
        if oversample:
            predictions = predictions.reshape((len(inputs), 10, -1)).mean(1)
        return predictions

    def _middle(self, pictures):
        height, width = (int(size) for size in self.crop_dims)
        y, x = (pictures.shape[1] - height) // 2, (pictures.shape[2] - width) // 2
        if y < 0 or x < 0:
            raise ValueError("image_dims %s are smaller than the net's input %s" %
                             (tuple(self.image_dims), tuple(self.crop_dims)))
        return pictures[:, y:y + height, x:x + width]
