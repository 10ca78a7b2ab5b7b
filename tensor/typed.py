"""Names for annotations: which element type and how many dimensions a tensor has, for a type checker to compare.

`Tensor[Float32, Rank2]` is a matrix of float32. The checker knows what `zeros`, `ones`, `full`, `empty`, `eye`,
`arange`, `astype`, `matmul` and the operators give, and rejects a tensor of another element type or rank where one is
asked for. Nothing is checked when the program runs: there, each function checks its arguments. A plain `Tensor` fits
everywhere.

    import tensor as tn
    from tensor.typed import Float32, Rank1, Rank2

    def layer(x: tn.Tensor[Float32, Rank2], bias: tn.Tensor[Float32, Rank1]) -> tn.Tensor[Float32, Rank2]:
        return x + bias
"""

from __future__ import annotations

__all__ = [
    "BFloat16",
    "Bool",
    "Complex64",
    "Complex128",
    "Float16",
    "Float32",
    "Float64",
    "Floating",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Kind",
    "Rank0",
    "Rank1",
    "Rank2",
    "Rank3",
    "Rank4",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
]


class Kind:
    """An element type."""


class Floating(Kind):
    """An element type with gradients."""


class Bool(Kind): ...


class Int8(Kind): ...


class Int16(Kind): ...


class Int32(Kind): ...


class Int64(Kind): ...


class UInt8(Kind): ...


class UInt16(Kind): ...


class UInt32(Kind): ...


class UInt64(Kind): ...


class Float16(Floating): ...


class BFloat16(Floating): ...


class Float32(Floating): ...


class Float64(Floating): ...


class Complex64(Floating): ...


class Complex128(Floating): ...


class Rank0:
    """No dimension: one element."""


class Rank1:
    """One dimension."""


class Rank2:
    """Two dimensions."""


class Rank3:
    """Three dimensions."""


class Rank4:
    """Four dimensions."""
