"""Caffe's Python interface, by Carafe.

In a clone this folder holds the Python files and build/python/caffe the compiled ones, so both go on the path:

    PYTHONPATH=python:build/python python3 -c 'import caffe'
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
