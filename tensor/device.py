"""Devices and memory spaces: where tensors lie and what computes with them.

Two devices exist on every machine, both in host memory: `cpu` runs the kernels, `ref` the readable twins, which define
the bits. A model runs on `ref` by moving its inputs there; nothing else changes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from tensor.errors import DeviceError

if TYPE_CHECKING:
    from tensor import Tensor

__all__ = ["Device", "MemorySpace", "copy_async", "devices", "resolve_device", "to_device", "to_host"]


class Device(StrEnum):
    """A device by name; `auto` is the best one that is here.

    >>> Device.cpu == "cpu"
    True
    """

    cpu = "cpu"
    gpu = "gpu"
    npu = "npu"
    auto = "auto"
    ref = "ref"


class MemorySpace(StrEnum):
    """A kind of memory; tensors of `cpu` and `ref` lie in `host`."""

    host = "host"
    device = "device"
    shared = "shared"
    sram = "sram"
    dram = "dram"
    vram = "vram"


def devices() -> list[Device]:
    """The devices of this machine, the default first.

    >>> [str(d) for d in devices()]
    ['cpu', 'ref']
    """
    return [Device.cpu, Device.ref]


def resolve_device(device: Device | str | None = None) -> Device:
    """The device that a name means here: `auto` and None give `cpu`. DeviceError for one that is not here.

    >>> str(resolve_device("auto"))
    'cpu'
    """
    if device is None or device == "auto":
        return Device.cpu
    if device in ("cpu", "ref"):
        return Device(device)
    raise DeviceError(f"device must be 'cpu' or 'ref' (the twins), got {str(device)!r}")


def to_device(x: Tensor, device: Device | str) -> Tensor:
    """The tensor on another device: itself if it is there already, else a copy. Gradients pass through.

    >>> import tensor as tn
    >>> str(to_device(tn.zeros((2,)), "ref").device)
    'ref'
    """
    moved: Tensor = x.to_device(resolve_device(device))
    return moved


def to_host(x: Tensor) -> Tensor:
    """The tensor on the CPU: itself if it is there already, else a copy."""
    return to_device(x, Device.cpu)


def copy_async(x: Tensor, device: Device | str) -> Tensor:
    """As `to_device`, always a copy. Between host memories there is nothing to wait for: it is done on return.

    >>> import tensor as tn
    >>> x = tn.zeros((2,))
    >>> copy_async(x, "cpu") is x
    False
    """
    moved = to_device(x, device)
    return moved.clone() if moved is x else moved
