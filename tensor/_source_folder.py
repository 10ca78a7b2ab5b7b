"""Loads a package's compiled kernels, or says in one sentence that this is the source folder, which has none."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def load_kernels(package: str) -> ModuleType:
    """The module `<package>._kernels`.

    Raises ImportError with one sentence where that module does not exist. Whatever else goes wrong in loading it (a
    missing shared library, a wrong DROVEWAY_ISA) comes through as it is.
    """
    try:
        return import_module(f"{package}._kernels")
    except ModuleNotFoundError as error:
        if error.name != f"{package}._kernels":
            raise
        raise ImportError(
            f"this is the source folder of droveway's package '{package}', which has no built '_kernels': "
            "leave the folder, or run: pip install -e .",
            name=package,
        ) from None
    except ImportError as error:  # nanobind says no more than that it failed; the reason stands behind it
        if error.__cause__ is None:
            raise
        raise error.__cause__ from None
