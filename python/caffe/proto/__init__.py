"""The messages of Caffe's files: caffe.proto.caffe_pb2, which the build makes out of carafe.proto."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
