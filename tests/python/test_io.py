"""Arrays, messages and pictures; the resizing is compared with scikit-image's and SciPy's."""

import io
import json
import os
import tempfile
import unittest

import numpy as np

import caffe.io
from caffe.proto import caffe_pb2

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


def source(shape):
    """Integers from 0 to 99 by a linear congruence, as in data/resize.json."""
    state, values = 7, []
    for _ in range(int(np.prod(shape))):
        state = (state * 1103515245 + 12345) % 2**31
        values.append((state >> 16) % 100)
    return np.array(values, dtype=float).reshape(shape)


class Blobs(unittest.TestCase):

    def test_shape_survives_the_way_there_and_back(self):
        values, gradients = source((2, 3, 4, 5, 6)), source((2, 3, 4, 5, 6)) / 2
        blob = caffe.io.array_to_blobproto(values, gradients)
        np.testing.assert_array_equal(caffe.io.blobproto_to_array(blob), values)
        np.testing.assert_array_equal(caffe.io.blobproto_to_array(blob, return_diff=True), gradients)

    def test_old_blobs_have_four_axes(self):
        blob = caffe_pb2.BlobProto(num=1, channels=2, height=3, width=4, data=range(24))
        self.assertEqual(caffe.io.blobproto_to_array(blob).shape, (1, 2, 3, 4))

    def test_blob_without_shape_is_one_number(self):
        array = caffe.io.blobproto_to_array(caffe_pb2.BlobProto(data=[5]))
        self.assertEqual((array.shape, float(array)), ((), 5))

    def test_values_that_do_not_fill_the_shape_are_refused(self):
        with self.assertRaisesRegex(ValueError, r"3 values, but its shape is \(\)"):
            caffe.io.blobproto_to_array(caffe_pb2.BlobProto(data=[1, 2, 3]))
        blob = caffe_pb2.BlobProto(data=[1, 2, 3])
        blob.shape.dim.extend([1 << 40, 1 << 40])
        with self.assertRaises(ValueError):
            caffe.io.blobproto_to_array(blob)

    def test_double_values_are_read(self):
        blob = caffe_pb2.BlobProto(double_data=[0.1, 0.2])
        blob.shape.dim.append(2)
        np.testing.assert_array_equal(caffe.io.blobproto_to_array(blob), [0.1, 0.2])

    def test_vectors_of_blobs_in_both_spellings(self):
        arrays = [source((2, 2)), source((3,))]
        for write in (caffe.io.arraylist_to_blobprotovector_str, caffe.io.arraylist_to_blobprotovecor_str):
            back = caffe.io.blobprotovector_str_to_arraylist(write(arrays))
            self.assertEqual(len(back), 2)
            for array, expected in zip(back, arrays):
                np.testing.assert_array_equal(array, expected)


class Datums(unittest.TestCase):

    def test_bytes_and_floats_survive(self):
        for array in (source((3, 4, 5)).astype(np.uint8), source((3, 4, 5)) / 3):
            back = caffe.io.datum_to_array(caffe.io.array_to_datum(array))
            self.assertEqual(back.dtype, array.dtype)
            np.testing.assert_allclose(back, array, rtol=1e-6)
            back[0] = 0  # an array of its own

    def test_label_is_there_only_where_it_was_given(self):
        array = source((1, 2, 2))
        self.assertEqual(caffe.io.array_to_datum(array, 0).label, 0)
        self.assertTrue(caffe.io.array_to_datum(array, 0).HasField("label"))
        self.assertFalse(caffe.io.array_to_datum(array).HasField("label"))

    def test_other_numbers_of_axes_are_refused(self):
        with self.assertRaisesRegex(ValueError, "Incorrect array shape"):
            caffe.io.array_to_datum(np.zeros((2, 2)))

    def test_encoded_pictures_come_in_blue_green_red(self):
        from PIL import Image
        pixels = source((4, 5, 3)).astype(np.uint8)
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "PNG")
        datum = caffe_pb2.Datum(data=stream.getvalue(), encoded=True)
        np.testing.assert_array_equal(caffe.io.datum_to_array(datum), pixels[:, :, ::-1].transpose(2, 0, 1))


class Pictures(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def save(self, picture, name="a.png"):
        path = os.path.join(self.folder, name)
        picture.save(path)
        return path

    def test_color_pictures_are_floats_from_0_to_1(self):
        from PIL import Image
        pixels = (source((4, 5, 3)) * 2).astype(np.uint8)
        loaded = caffe.io.load_image(self.save(Image.fromarray(pixels)))
        self.assertEqual((loaded.dtype, loaded.shape), (np.float32, (4, 5, 3)))
        np.testing.assert_allclose(loaded, pixels / 255.0, rtol=1e-6)

    def test_gray_of_a_color_picture_is_its_luminance(self):
        from PIL import Image
        pixels = (source((4, 5, 3)) * 2).astype(np.uint8)
        loaded = caffe.io.load_image(self.save(Image.fromarray(pixels)), color=False)
        self.assertEqual(loaded.shape, (4, 5, 1))
        np.testing.assert_allclose(loaded[:, :, 0], pixels @ np.array([0.2125, 0.7154, 0.0721]) / 255, rtol=1e-6)

    def test_gray_pictures_have_one_channel_or_three_equal_ones(self):
        from PIL import Image
        pixels = source((4, 5)).astype(np.uint8)
        path = self.save(Image.fromarray(pixels))
        color, gray = caffe.io.load_image(path), caffe.io.load_image(path, color=False)
        self.assertEqual((color.shape, gray.shape), ((4, 5, 3), (4, 5, 1)))
        for channel in range(3):
            np.testing.assert_array_equal(color[:, :, channel], gray[:, :, 0])

    def test_alpha_is_dropped(self):
        from PIL import Image
        pixels = source((4, 5, 4)).astype(np.uint8)
        loaded = caffe.io.load_image(self.save(Image.fromarray(pixels)))
        np.testing.assert_allclose(loaded, pixels[:, :, :3] / 255.0, rtol=1e-6)

    def test_palettes_sixteen_bits_and_one_bit(self):
        from PIL import Image
        colors = Image.fromarray(np.repeat(np.array([[[255, 0, 0], [0, 0, 255]]], np.uint8), 3, axis=0))
        loaded = caffe.io.load_image(self.save(colors.convert("P", palette=Image.Palette.ADAPTIVE), "p.png"))
        np.testing.assert_allclose(loaded[0], [[1, 0, 0], [0, 0, 1]])
        deep = Image.fromarray(np.array([[0, 65535, 32768]], np.uint16))
        np.testing.assert_allclose(caffe.io.load_image(self.save(deep, "d.png"), False).ravel(), [0, 1, 32768 / 65535],
                                   rtol=1e-6)
        bits = Image.fromarray(np.array([[0, 255]], np.uint8)).convert("1")
        np.testing.assert_array_equal(caffe.io.load_image(self.save(bits, "b.png"), False).ravel(), [0, 1])

    def test_file_that_is_no_picture_is_named(self):
        path = os.path.join(self.folder, "text.jpg")
        with open(path, "w") as file:
            file.write("no picture")
        with self.assertRaisesRegex(OSError, "text.jpg"):
            caffe.io.load_image(path)
        with self.assertRaises(FileNotFoundError):
            caffe.io.load_image(path + ".none")

    def test_means_from_files_and_from_text(self):
        mean = source((3, 4, 5))
        npy, proto = os.path.join(self.folder, "m.npy"), os.path.join(self.folder, "m.binaryproto")
        np.save(npy, mean)
        with open(proto, "wb") as file:
            file.write(caffe.io.array_to_blobproto(mean[np.newaxis]).SerializeToString())
        np.testing.assert_array_equal(caffe.io.load_mean(npy), mean)
        np.testing.assert_array_equal(caffe.io.load_mean(proto), mean)
        np.testing.assert_array_equal(caffe.io.load_mean("1,2.5,3"), [1, 2.5, 3])
        with open(proto, "wb") as file:
            file.write(b"no mean")
        with self.assertRaisesRegex(ValueError, "m.binaryproto is no mean"):
            caffe.io.load_mean(proto)


class Resizing(unittest.TestCase):

    def test_values_are_those_of_scikit_image_and_scipy(self):
        with open(os.path.join(DATA, "resize.json")) as file:
            cases = json.load(file)["cases"]
        for case in cases:
            with self.subTest(shape=case["shape"], dims=case["dims"], order=case["order"]):
                if case["order"] > 1:
                    try:
                        import scipy  # noqa: F401
                    except ImportError:
                        self.skipTest("SciPy is not there")
                picture = source(case["shape"])
                resized = caffe.io.resize_image(picture, case["dims"], case["order"])
                self.assertEqual(resized.dtype, np.float32)
                expected = np.array(case["values"]).reshape(*case["dims"], case["shape"][2])
                np.testing.assert_allclose(resized, expected, atol=2e-5)
                np.testing.assert_array_equal(picture, source(case["shape"]))

    def test_one_color_stays_one_color(self):
        np.testing.assert_array_equal(caffe.io.resize_image(np.full((3, 4, 3), 0.25), (9, 5)), np.full((9, 5, 3), 0.25))

    def test_same_size_changes_nothing(self):
        picture = source((4, 6, 3))
        np.testing.assert_array_equal(caffe.io.resize_image(picture, (4, 6)), picture)

    def test_shapes_that_make_no_sense_are_refused(self):
        for picture, dims in ((np.zeros((4, 4)), (2, 2)), (np.zeros((4, 4, 3)), (0, 2)), (np.zeros((0, 4, 3)), (2, 2))):
            with self.assertRaisesRegex(ValueError, "cannot resize"):
                caffe.io.resize_image(picture, dims)


class Oversampling(unittest.TestCase):

    def test_ten_crops_in_their_order(self):
        pictures = [source((5, 7, 3)), source((5, 7, 3)) + 1]
        crops = caffe.io.oversample(pictures, (3, 4))
        self.assertEqual((crops.shape, crops.dtype), ((20, 3, 4, 3), np.float32))
        for picture, ten in zip(pictures, (crops[:10], crops[10:])):
            for crop, (y, x) in zip(ten, [(0, 0), (0, 3), (2, 0), (2, 3), (1, 1)]):
                np.testing.assert_array_equal(crop, picture[y:y + 3, x:x + 4])
            np.testing.assert_array_equal(ten[5:], ten[:5, :, ::-1])

    def test_crop_larger_than_the_picture_is_refused(self):
        with self.assertRaisesRegex(ValueError, "does not fit"):
            caffe.io.oversample([np.zeros((5, 7, 3))], (6, 4))


class Transforming(unittest.TestCase):

    def make(self):
        transformer = caffe.io.Transformer({"data": (2, 3, 4, 5)})
        transformer.set_transpose("data", (2, 0, 1))
        transformer.set_channel_swap("data", (2, 1, 0))
        transformer.set_raw_scale("data", 255)
        transformer.set_mean("data", np.array([1, 2, 3]))
        transformer.set_input_scale("data", 0.5)
        return transformer

    def test_steps_are_done_in_order(self):
        picture = source((4, 5, 3)).astype(np.float32)
        before = picture.copy()
        out = self.make().preprocess("data", picture)
        expected = (picture.transpose(2, 0, 1)[::-1] * 255 - np.array([1, 2, 3])[:, None, None]) * 0.5
        np.testing.assert_allclose(out, expected, rtol=1e-6)
        self.assertEqual(out.dtype, np.float32)
        np.testing.assert_array_equal(picture, before)

    def test_deprocess_goes_back(self):
        transformer = self.make()
        picture = source((4, 5, 3)).astype(np.float32)
        out = transformer.preprocess("data", picture)
        for data in (out, out[np.newaxis]):
            before = data.copy()
            np.testing.assert_allclose(transformer.deprocess("data", data), picture, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(data, before)

    def test_gray_picture_comes_back_with_its_axis(self):
        transformer = caffe.io.Transformer({"data": (1, 1, 4, 5)})
        transformer.set_transpose("data", (2, 0, 1))
        self.assertEqual(transformer.deprocess("data", np.zeros((1, 1, 4, 5))).shape, (4, 5, 1))
        self.assertEqual(caffe.io.Transformer({"data": (1, 1, 4, 5)}).deprocess("data", np.zeros((1, 1, 4, 5))).shape, (4, 5))

    def test_pictures_are_resized_to_the_input(self):
        picture = source((8, 9, 3)) / 100
        transformer = caffe.io.Transformer({"data": (1, 3, 4, 5)})
        transformer.set_transpose("data", (2, 0, 1))
        expected = caffe.io.resize_image(picture.astype(np.float32), (4, 5)).transpose(2, 0, 1)
        np.testing.assert_array_equal(transformer.preprocess("data", picture), expected)

    def test_whole_means_are_resized_to_the_input(self):
        transformer = caffe.io.Transformer({"data": (1, 3, 4, 5)})
        mean = source((3, 8, 9))
        transformer.set_mean("data", mean)
        expected = caffe.io.resize_image(mean.transpose(1, 2, 0), (4, 5)).transpose(2, 0, 1)
        np.testing.assert_array_equal(transformer.mean["data"], expected)
        transformer.set_mean("data", mean[:, :4, :5])
        np.testing.assert_array_equal(transformer.mean["data"], mean[:, :4, :5])
        transformer.set_mean("data", np.full((3, 2, 2), 7.0))
        np.testing.assert_array_equal(transformer.mean["data"], np.full((3, 4, 5), 7))

    def test_what_does_not_fit_is_refused(self):
        transformer = caffe.io.Transformer({"data": (1, 3, 4, 5)})
        with self.assertRaisesRegex(ValueError, "image is not one of the net inputs"):
            transformer.set_raw_scale("image", 255)
        with self.assertRaisesRegex(ValueError, "Transpose order"):
            transformer.set_transpose("data", (1, 0))
        with self.assertRaisesRegex(ValueError, "Channel swap"):
            transformer.set_channel_swap("data", (1, 0))
        for mean in (np.zeros(4), np.zeros((2, 4, 5))):
            with self.assertRaisesRegex(ValueError, "Mean channels incompatible"):
                transformer.set_mean("data", mean)
        with self.assertRaisesRegex(ValueError, "Mean shape invalid"):
            transformer.set_mean("data", np.zeros((1, 3, 4, 5)))


if __name__ == "__main__":
    unittest.main()
