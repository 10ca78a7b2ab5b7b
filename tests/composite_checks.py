"""What is asked of every function that is made of rows: values, gradients, batches, capture, the device of the twins.

A test file of a family has cases by name and runs each check on each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np

import tensor as tn
from tensor.autograd import gradcheck, tree_leaves, vmap

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Case:
    """A function, inputs (float64 and complex128 arrays are cast where a check asks for it), and who else knows it.

    `oracle` gets the arrays; `moving` names the inputs whose gradients are compared (all of floats if it isn't given,
    none for ()); `batched` those that get a batch (all if it isn't given).
    """

    fn: Callable[..., Any]
    inputs: Sequence[Array]
    oracle: Callable[..., Any]
    moving: tuple[int, ...] | None = None
    batched: tuple[int, ...] | None = None
    tolerance: float = 1e-12
    captured: bool = True
    absolute: float = field(default=1e-12)


def _cast(array: Array, wide: bool) -> Array:
    narrow = {"float64": "float32", "complex128": "complex64"}
    return array if wide else array.astype(narrow.get(array.dtype.name, array.dtype))


def tensors(case: Case, *, wide: bool, device: str = "cpu") -> list[Any]:
    """The inputs: float64 if wide, else float32."""
    return [tn.asarray(_cast(np.asarray(a), wide), device=device) for a in case.inputs]


def leaves(result: Any) -> list[Any]:
    return [x for x in tree_leaves(result) if isinstance(x, tn.Tensor)]


def bits(x: Any) -> tuple[str, tuple[int, ...], bytes]:
    return x.dtype.name, x.shape, x.detach().contiguous().numpy().tobytes()


def check_values(case: Case) -> None:
    """In float64, against the oracle."""
    came = leaves(case.fn(*tensors(case, wide=True)))
    with np.errstate(all="ignore"):
        want = case.oracle(*case.inputs)
    wanted = list(want) if isinstance(want, tuple | list) else [want]
    assert len(came) == len(wanted)
    for x, y in zip(came, wanted, strict=True):
        assert x.shape == np.shape(y)
        np.testing.assert_allclose(x.numpy(), y, rtol=case.tolerance, atol=case.absolute)


def check_gradient(case: Case) -> None:
    """Against finite differences in float64, and forward mode against reverse mode."""
    inputs = tensors(case, wide=True)
    moving = case.moving
    if moving is None:
        moving = tuple(i for i, a in enumerate(case.inputs) if np.asarray(a).dtype.kind in "fc")

    def fn(*values: Any) -> Any:
        full = list(inputs)
        for i, x in zip(moving, values, strict=True):
            full[i] = x
        return leaves(case.fn(*full))

    if moving:
        gradcheck(fn, tuple(inputs[i] for i in moving))
    else:
        assert all(not x.requires_grad or x.dtype.kind != "f" for x in leaves(case.fn(*inputs)))


def check_batches(case: Case) -> None:
    """vmap equals a loop over three elements, bit for bit."""
    batched = case.batched if case.batched is not None else tuple(range(len(case.inputs)))
    arrays = [_cast(np.asarray(a), False) for a in case.inputs]
    scales = (1.0, 0.75, 0.5)
    many = [
        np.stack([a * np.asarray(s, a.dtype) if a.dtype.kind in "fc" else a for s in scales]) if k in batched else a
        for k, a in enumerate(arrays)
    ]
    axes = [0 if k in batched else None for k in range(len(arrays))]
    whole = leaves(vmap(lambda *xs: leaves(case.fn(*xs)), in_axes=axes)(*map(tn.asarray, many)))
    for i in range(len(scales)):
        one = leaves(case.fn(*[tn.asarray(a[i] if k in batched else a) for k, a in enumerate(many)]))
        assert [bits(x[i]) for x in whole] == [bits(x) for x in one]


def check_devices(case: Case) -> None:
    """float32 on the kernels equals float32 on the twins, bit for bit."""
    here = leaves(case.fn(*tensors(case, wide=False)))
    there = leaves(case.fn(*tensors(case, wide=False, device="ref")))
    assert [bits(x) for x in here] == [bits(x) for x in there]


def check_capture(case: Case) -> None:
    """A captured function gives the bits of the function."""
    inputs = tensors(case, wide=False)
    if case.captured:
        captured = leaves(tn.capture(lambda *xs: leaves(case.fn(*xs)))(*inputs))
        assert [bits(x) for x in captured] == [bits(x) for x in leaves(case.fn(*inputs))]


# The test files that hold cases: docs/primitives.md has a line for each function of theirs.
FILES = (
    "test_layouts",
    "test_gates_and_parts",
    "test_more_norms",
    "test_block_products",
    "test_spectral",
    "test_conformal",
    "test_quant",
    "test_losses",
    "test_random_choices",
)

CHECKS: dict[str, Callable[[Case], None]] = {
    "values": check_values,
    "gradient": check_gradient,
    "batches": check_batches,
    "devices": check_devices,
    "capture": check_capture,
}


def all_cases() -> dict[str, list[Case]]:
    """The cases of each function: a case's name begins with that of its function."""
    found: dict[str, list[Case]] = {}
    for name in FILES:
        spec = util.spec_from_file_location(name, Path(__file__).parent / "tensor" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for case, inputs in module.CASES.items():
            found.setdefault(case.split()[0], []).append(inputs)
    return found


def outcome(cases: Sequence[Case], check: str) -> str:
    """'yes' if every case passes, 'failed', or '–' where the check asks nothing of any."""
    asked = {"gradient": lambda case: case.moving != (), "capture": lambda case: case.captured}.get(check)
    if asked is not None and not any(map(asked, cases)):
        return "–"
    for case in cases:
        try:
            CHECKS[check](case)
        except Exception:
            return "failed"
    return "yes"
