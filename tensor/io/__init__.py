"""Files of tensors: canonical safetensors, read strictly and memory-mapped, and .npy. No numpy, never a pickle.

The formats: docs/formats/safetensors.md, docs/formats/npy.md.
"""

from tensor.io.files import load, save
from tensor.io.npy import read_npy, write_npy
from tensor.io.safetensors import SafetensorsFile, write_safetensors
from tensor.io.stored import Stored

__all__ = ["SafetensorsFile", "Stored", "load", "read_npy", "save", "write_npy", "write_safetensors"]
