"""Loads the compiled kernels, or says in one sentence that this is the source folder, which has none."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def load_kernels() -> ModuleType:
    """The module `storage._kernels`.

    Raises ImportError with one sentence where it does not exist. Whatever else goes wrong in loading it (a missing
    shared library, a wrong DROVEWAY_ISA) comes through as it is.
    """
    try:
        return import_module("storage._kernels")
    except ModuleNotFoundError as error:
        if error.name != "storage._kernels":
            raise
        raise ImportError(
            "this is the source folder of droveway's package 'storage', which has no built '_kernels': "
            "leave the folder, or run: pip install -e .",
            name="storage",
        ) from None
