"""ONNX models on the engine: `load` reads and checks a file, `Model.run` computes, with the same bits on every machine.

Reading a file needs the package onnx (the extra `onnx`).
"""

from tensor.onnx.model import Model, load

__all__ = ["Model", "load"]
