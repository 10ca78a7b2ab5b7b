"""Errors of vector.

VectorError
├── VectorTypeError   (TypeError)    an argument of another kind or element type than the function computes with
└── VectorValueError  (ValueError)   a value or a shape that no answer can be given for
"""

from __future__ import annotations


class VectorError(Exception):
    """Root of all errors that vector raises on purpose."""


class VectorTypeError(VectorError, TypeError):
    """An argument is of a kind that the function does not compute with."""


class VectorValueError(VectorError, ValueError):
    """A value or a shape of an argument that no answer can be given for; nothing was changed."""
