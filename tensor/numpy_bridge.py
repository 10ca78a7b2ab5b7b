"""Between tensors and numpy: arrays over the same memory where both know the element type, copies elsewhere.

numpy is imported here and only here on the way of a tensor, when the first array appears.
"""

from __future__ import annotations

from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

from tensor._kernels import DTYPES, arange, asarray, bitcast, empty, from_dlpack
from tensor.errors import DtypeError, GradientError

if TYPE_CHECKING:
    from tensor import Tensor

__all__ = ["from_array_like", "reduced", "restored", "to_numpy"]


def to_numpy(x: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """A numpy array over the tensor's memory; of bfloat16, of the type that the package ml_dtypes has.

    With `dtype`, or copy=True, a copy. Raises GradientError for a tensor that requires gradients, ValueError where
    copy=False cannot be had.
    """
    import numpy as np

    if x.requires_grad:
        raise GradientError(
            "numpy: the tensor requires a gradient, which numpy would not follow (hint: x.detach().numpy())"
        )
    if x.dtype == "bfloat16":
        try:
            bfloat16 = import_module("ml_dtypes").bfloat16
        except ImportError:
            raise DtypeError(
                "numpy: numpy has no bfloat16 without the package ml_dtypes (hint: x.to(tensor.float32))"
            ) from None
        array = np.asarray(bitcast(x, "uint16")).view(bfloat16)
    else:
        array = np.asarray(memoryview(x))
    if dtype is not None and np.dtype(dtype) != array.dtype:
        if copy is False:
            raise ValueError(f"__array__: {array.dtype} cannot become {np.dtype(dtype)} without a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


def from_array_like(value: Any, copy: bool | None = None) -> Tensor:
    """A Tensor of what is no buffer of our element types: DLPack, __array__, __array_interface__, ranges.

    Raises DtypeError for anything else, for other byte orders and for masked arrays; with copy=False, ValueError or
    BufferError for what cannot be had without one.
    """
    if hasattr(value, "mask") and hasattr(value, "filled"):
        raise DtypeError("asarray: a masked array has no values where it is masked (hint: x.filled(0))")
    if isinstance(value, range):
        if copy is False:
            raise ValueError("asarray: a range cannot become a tensor without a copy")
        return arange(value.start, value.step, len(value), "int64")
    name = getattr(getattr(value, "dtype", None), "name", None)
    if name == "bfloat16" and hasattr(value, "view") and type(value).__module__.startswith("numpy"):
        return bitcast(asarray(value.view("uint16"), None, None, copy), "bfloat16")
    if hasattr(value, "__dlpack__") and not type(value).__module__.startswith("numpy"):
        return from_dlpack(value, copy)
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        import numpy as np

        array = np.asarray(value, copy=copy)
        if array.dtype.name in {d.name for d in DTYPES} and array.dtype.isnative:
            return asarray(array.data, None, None, copy)
        raise DtypeError(
            f"asarray: tensor has no element type for numpy's {array.dtype!r} (hint: x.astype(numpy.float32))"
        )
    if hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, (str, bytes, dict)):
        return asarray(list(chain(value)), None, None, copy)  # not what __len__ claims
    raise DtypeError(f"asarray: expected numbers, lists of numbers or an array, got {type(value).__name__}")


def reduced(x: Tensor) -> tuple[Any, ...]:
    """What pickle keeps of a tensor: its bytes. A tensor with history is refused."""
    if x.node is not None:
        raise GradientError("pickle: only a tensor without history can be pickled (hint: x.detach())")
    plain = x.detach().contiguous()
    name = plain.dtype.name
    if name == "bfloat16":
        plain = bitcast(plain, "uint16")
    return restored, (memoryview(plain).tobytes(), name, x.shape, x.requires_grad, str(x.device))


def restored(content: bytes, dtype: str, shape: tuple[int, ...], requires_grad: bool, device: str = "cpu") -> Tensor:
    """The reverse of `reduced`."""
    x = empty(shape, dtype, device)
    raw = bitcast(x, "uint16") if dtype == "bfloat16" else x
    if x.size:
        memoryview(raw).cast("B").cast("B", (len(content),))[:] = content
    return x.requires_grad_() if requires_grad else x
