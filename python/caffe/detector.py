"""A net that looks at windows of pictures (R-CNN).

A window is (ymin, xmin, ymax, xmax) in pixels, the last row and column excluded. With context_pad the net sees more than
the window: of its square input the window fills all but a border of context_pad pixels, and the border shows what is around
it; where the picture ends the border is filled with the mean, which is 0 to the net.
"""

from __future__ import annotations

import os
from typing import Any, Iterable, Optional, Sequence

import numpy as np

from . import io
from .classifier import TEST, make_transformer
from .pycaffe import Net


def context_box(window: Sequence[float], crop_size: int, context_pad: int, picture_dims: Sequence[int]
                ) -> tuple[np.ndarray, tuple[int, ...], tuple[int, ...]]:
    """What to cut out of the picture, and where it goes in the net's input.

    Gives (box, (y, x), (height, width)): `box` is (ymin, xmin, ymax, xmax) inside the picture; it is to be resized to
    height x width and put at row y and column x of the crop_size x crop_size input.

    >>> box, place, size = context_box((10, 10, 19, 19), 10, 2, (100, 100))
    >>> box.tolist(), place, size     # everything is there: the window grows by 10 / (10 - 2 * 2)
    ([7, 7, 23, 23], (0, 0), (10, 10))
    >>> box, place, size = context_box((0, 10, 9, 19), 10, 2, (100, 100))
    >>> box.tolist(), place, size     # the picture begins below the border
    ([0, 7, 13, 23], (2, 0), (8, 10))
    """
    low, high = np.array(window[:2], dtype=float), np.array(window[2:], dtype=float)
    half = (high - low + 1) / 2
    center = low + half
    scale = crop_size / (crop_size - 2.0 * context_pad)
    low, high = np.round(center - scale * half), np.round(center + scale * half)
    shrink = crop_size / (high - low + 1)  # from pixels of the picture to those of the input
    place = np.round(np.maximum(0, -low) * shrink).astype(int)
    limit = np.array(picture_dims[:2], dtype=float)
    low, high = np.clip(low, 0, limit), np.clip(high, 0, limit)
    if not (high > low).all():
        raise ValueError("the window %s lies outside of the picture of %d x %d" %
                         (tuple(window), picture_dims[0], picture_dims[1]))
    size = np.minimum(np.round((high - low + 1) * shrink).astype(int), crop_size - place)
    return (np.concatenate([low, high]).astype(int), tuple(int(p) for p in place),
            tuple(int(s) for s in np.maximum(size, 1)))


class Detector(Net):
    """A Net in TEST phase that scores windows.

    mean, input_scale, raw_scale, channel_swap: see caffe.io.Transformer; context_pad: pixels of context on each side of the
    net's square input, 16 in R-CNN.
    """

    def __init__(self, model_file: str, pretrained_file: str, mean: Any = None, input_scale: Optional[float] = None,
                 raw_scale: Optional[float] = None, channel_swap: Optional[Sequence[int]] = None,
                 context_pad: Optional[int] = None) -> None:
        Net.__init__(self, model_file, TEST, weights=pretrained_file)
        self.transformer = make_transformer(self, mean, input_scale, raw_scale, channel_swap)
        self.configure_crop(context_pad)

    def detect_windows(self, images_windows: Iterable[tuple[str, Iterable[Any]]]) -> list[dict[str, Any]]:
        """Scores windows: [(file name, [window, ...]), ...] gives one dict with window, prediction and filename each."""
        found, crops = [], []
        name = self.inputs[0]
        for filename, windows in images_windows:
            picture = io.load_image(filename)
            for window in windows:
                crops.append(self.transformer.preprocess(name, self.crop(picture, window)))
                found.append({"window": window, "prediction": None, "filename": filename})
        if not crops:
            return []
        predictions = self.forward_all(**{name: np.stack(crops)})[self.outputs[0]]
        for entry, prediction in zip(found, predictions):
            entry["prediction"] = prediction
        return found

    def detect_selective_search(self, image_fnames: Sequence[str]) -> list[dict[str, Any]]:
        """detect_windows with the windows that selective search proposes.

        Wants the package selective_search_ijcv_with_python (and MATLAB, which it calls).
        """
        try:
            import selective_search_ijcv_with_python as selective_search
        except ImportError as error:
            raise ImportError("selective search needs the package selective_search_ijcv_with_python; without it, give "
                              "windows of your own to detect_windows") from error
        image_fnames = [os.path.abspath(name) for name in image_fnames]
        windows = selective_search.get_windows(image_fnames, cmd="selective_search_rcnn")
        return self.detect_windows(zip(image_fnames, windows))

    def crop(self, im: np.ndarray, window: Sequence[float]) -> np.ndarray:
        """The part of a picture that `window` names: with its context in the input's size, or else as it is."""
        window = [int(edge) for edge in window]
        if window[0] < 0 or window[1] < 0 or window[2] <= window[0] or window[3] <= window[1]:
            raise ValueError("a window is ymin, xmin, ymax, xmax with ymin < ymax and xmin < xmax, not %s" % (window,))
        if not self.context_pad:
            part = im[window[0]:window[2], window[1]:window[3]]
            if part.size == 0:
                raise ValueError("the window %s lies outside of the picture of %d x %d" %
                                 (window, im.shape[0], im.shape[1]))
            return part
        box, (y, x), (height, width) = context_box(window, int(self.crop_dims[1]), self.context_pad, im.shape)
        part = io.resize_image(im[box[0]:box[2], box[1]:box[3]], (height, width))
        filled = np.ones(self.crop_dims, dtype=np.float32) * self.crop_mean
        filled[y:y + height, x:x + width] = part
        return filled

    def configure_crop(self, context_pad: Optional[int]) -> None:
        """Sets the context, and makes the mean that fills what is missing: height x width x channels as pictures are read."""
        name = self.inputs[0]
        back = np.argsort(self.transformer.transpose[name])
        self.crop_dims = np.array(self.blobs[name].shape[1:])[back]
        self.context_pad = context_pad
        if not context_pad:
            return
        if self.crop_dims[0] != self.crop_dims[1] or 2 * context_pad >= self.crop_dims[0]:
            raise ValueError("context_pad %s wants a square input of more than %s pixels; this one has %d x %d" %
                             (context_pad, 2 * context_pad, self.crop_dims[0], self.crop_dims[1]))
        mean = self.transformer.mean.get(name)
        if mean is None:
            self.crop_mean = np.zeros(self.crop_dims, dtype=np.float32)
            return
        channel_swap = self.transformer.channel_swap.get(name)
        if channel_swap is not None and mean.shape[0] == len(channel_swap):
            mean = mean[np.argsort(channel_swap)]
        self.crop_mean = mean.transpose(back) / self.transformer.raw_scale.get(name, 1)
