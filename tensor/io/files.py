"""`tensor.save` and `tensor.load`: a tree of tensors in one file, safetensors or .npy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensor.io.mapped import map_file
from tensor.io.npy import MAGIC, read_npy, write_npy
from tensor.io.safetensors import SafetensorsFile, write_safetensors
from tensor.io.stored import tensor_of
from tensor.io.tree import TREE_KEY, assemble, flatten

__all__ = ["load", "save"]


def save(path: str | os.PathLike[str], tree: object, *, metadata: Mapping[str, str] | None = None) -> None:
    """Write a tree of tensors (dicts, lists, tuples, None) as canonical safetensors: equal state, equal bytes.

    A path that ends in `.npy` gets one tensor in that format. The file is replaced at once, after it is on the disk.
    Raises TypeError for what a tree can't have, ValueError for two leaves of one name, DtypeError for elements that
    the format has no code for, OSError. Formats: docs/formats/safetensors.md, docs/formats/npy.md.

    >>> import tempfile
    >>> import tensor as tn
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Path(folder, "a.safetensors"), {"layers": [tn.ones(2)], "step": tn.asarray(3)})
    ...     load(Path(folder, "a.safetensors"))["layers"][0].tolist()
    [1.0, 1.0]
    """
    if Path(path).suffix == ".npy":
        if metadata:
            raise ValueError("save: .npy has no metadata (hint: .safetensors)")
        write_npy(path, tree)
        return
    leaves, text = flatten(tree, _is_array)
    words = dict(metadata or {})
    if TREE_KEY in words:
        raise ValueError(f"save: {TREE_KEY!r} is no key for metadata of yours")
    if text is not None:
        words[TREE_KEY] = text
    write_safetensors(path, leaves, words)


def load(path: str | os.PathLike[str]) -> Any:
    """The tree of tensors that `save` wrote, or the dict of tensors of any other safetensors file, or an .npy's tensor.

    Elements are memory-mapped: read when they are used, and a change to a tensor stays in this process. Raises
    TensorFileError for a damaged or hostile file before it takes memory for elements, OSError.
    """
    name = os.fspath(path)
    if bytes(map_file(name)[: len(MAGIC)]) == MAGIC:
        array, fortran = read_npy(name)
        return tensor_of(array, fortran)
    file_of_tensors = SafetensorsFile(name)
    leaves = {key: tensor_of(array) for key, array in file_of_tensors.items()}
    return assemble(name, file_of_tensors.metadata.get(TREE_KEY), leaves)


def _is_array(value: object) -> bool:
    if isinstance(value, (Mapping, list, tuple, str)):
        return False
    if hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__"):
        return True
    try:
        memoryview(value).release()  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return False
    return True
