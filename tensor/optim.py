"""Optimizers: SGD and AdamW with parameter groups, all tensors of a group in one fused call; clipping of gradients.

A step computes each element on its own, in one fixed order of operations: the same bits for every number of threads and
every way to cut a model into tensors. State is a named tree, allocated under the active memory budget before the first
step changes anything:

    SGD    {"step": {name: int64[]}, "momentum": {name: tensor}}
    AdamW  {"step": {name: int64[]}, "first": {name: tensor}, "second": {name: tensor},
            "power1": {name: float64[]}, "power2": {name: float64[]}}        powers: β1^t, β2^t

All of it is tensors, so `tensor.save` writes it and `tensor.load` gives it back. The powers are kept by repeated
multiplication in float64; no library's pow takes part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tensor import _kernels
from tensor.errors import AnomalyError, DtypeError, ShapeError
from tensor.float_mode import plain_mode

__all__ = ["SGD", "AdamW", "Optimizer", "clip_grad_norm_"]

Tensor = Any


class _Parameter:
    """One tensor that is stepped, and its state by name."""

    __slots__ = ("name", "state", "step", "tensor")

    def __init__(self, name: str, tensor: Tensor) -> None:
        self.name = name
        self.tensor = tensor
        self.step = 0
        self.state: dict[str, Any] = {}


def _named(parameters: Any, first_number: int) -> list[tuple[str, Tensor]]:
    """(name, tensor) pairs of a dict, of pairs, or of tensors (which get numbers as names)."""
    if isinstance(parameters, _kernels.Tensor):
        raise TypeError("optim: parameters must be an iterable of tensors, got a Tensor (hint: [x])")
    items = parameters.items() if isinstance(parameters, Mapping) else parameters
    found: list[tuple[str, Tensor]] = []
    for item in items:
        name, x = item if isinstance(item, tuple) else (str(first_number + len(found)), item)
        if not isinstance(x, _kernels.Tensor):
            raise TypeError(f"optim: parameter {name!r} must be a Tensor, got {type(x).__name__}")
        if x.dtype not in ("float32", "float64"):
            raise DtypeError(f"optim: parameter {name!r} must be float32 or float64, got {x.dtype.name}")
        if not x.is_contiguous():
            raise ShapeError(f"optim: parameter {name!r} must lie in C order (hint: contiguous())")
        found.append((name, x))
    return found


def _number(owner: str, name: str, value: Any, low: float, high: float = math.inf, *, below: bool = False) -> float:
    """A finite number from low to high (below it); ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{owner}: {name} must be a number, got {type(value).__name__}")
    number = float(value)
    if not (math.isfinite(number) and low <= number <= high and not (below and number == high)):
        rule = f"from {low:g} to below {high:g}" if below else f"finite and at least {low:g}"
        raise ValueError(f"{owner}: {name} must be {rule}, got {value}")
    return number


def _require_apart(owner: str, members: list[_Parameter]) -> None:
    """ValueError where two parameters share memory: a step would change it twice, in no order."""
    ranges = sorted((p.tensor.data_address, p.tensor.nbytes, i) for i, p in enumerate(members) if p.tensor.nbytes)
    for (start, length, i), (following, _, j) in pairwise(ranges):
        if following < start + length:
            first, second = members[min(i, j)], members[max(i, j)]
            if first.tensor is second.tensor:
                raise ValueError(f"{owner}: a tensor is given twice")
            raise ValueError(f"{owner}: parameters {first.name!r} and {second.name!r} share memory")


class Optimizer:
    """What SGD and AdamW share. `groups` is a list of dicts of numbers, each with its parameters."""

    def __init__(self, parameters: Any, numbers: Mapping[str, Any]) -> None:
        if isinstance(parameters, _kernels.Tensor):
            raise TypeError("optim: parameters must be an iterable of tensors, got a Tensor (hint: [x])")
        given: list[Any] = list(parameters.items()) if isinstance(parameters, Mapping) else list(parameters)
        groups: list[Any] = given if given and isinstance(given[0], Mapping) else [{"params": given}]
        self.groups: list[dict[str, Any]] = []
        self._parameters: list[list[_Parameter]] = []
        names: set[str] = set()
        count = 0
        for group in groups:
            unknown = set(group) - set(numbers) - {"params"}
            if unknown:
                raise TypeError(f"{type(self).__name__}: a group has no {', '.join(sorted(unknown))}")
            pairs = _named(group["params"], count)
            count += len(pairs)
            for name, _ in pairs:
                if name in names:
                    raise ValueError(f"{type(self).__name__}: parameter {name!r} is named twice")
                names.add(name)
            merged = {**numbers, **{k: v for k, v in group.items() if k != "params"}}
            self.groups.append(self._checked(merged))
            self._parameters.append([_Parameter(name, x) for name, x in pairs])
        if not names:
            raise ValueError(f"{type(self).__name__}: no parameters were given")
        _require_apart(type(self).__name__, [p for group in self._parameters for p in group])

    def __repr__(self) -> str:
        groups = "; ".join(
            f"{len(held)} parameters, " + ", ".join(f"{k}={v}" for k, v in numbers.items())
            for held, numbers in zip(self._parameters, self.groups, strict=True)
        )
        return f"{type(self).__name__}({groups})"

    # --- to be said by each optimizer --------------------------------------------------------------------------------

    _buffers: Sequence[str] = ()
    _numbers: Sequence[str] = ()  # those of _buffers that are floats from 0 to below 1, not tensors
    _optional: Sequence[str] = ()  # those that a parameter may have no state of

    def _checked(self, numbers: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _prepare(self, p: _Parameter, numbers: dict[str, Any]) -> None:
        raise NotImplementedError

    def _step_all(self, numbers: dict[str, Any], members: list[_Parameter], gradients: list[Tensor]) -> None:
        raise NotImplementedError

    # --- the same for all --------------------------------------------------------------------------------------------

    def zero_grad(self) -> None:
        """Forgets the gradients: each `.grad` becomes None."""
        for group in self._parameters:
            for p in group:
                p.tensor.grad = None

    def step(self, *, skip_nonfinite: bool = False) -> bool:
        """Changes the parameters that have a gradient; whether it did.

        skip_nonfinite: where a gradient holds NaN or an infinity nothing is changed, and False comes back. In checked
        mode that is an AnomalyError which names the parameter and the step. BudgetExceeded, before anything is
        changed, where state does not fit into the memory budget.
        """
        work: list[tuple[dict[str, Any], list[_Parameter], list[Tensor]]] = []
        for numbers, group in zip(self.groups, self._parameters, strict=True):
            checked = self._checked(numbers)
            members = [p for p in group if p.tensor.grad is not None]
            work.append((checked, members, [self._gradient(p) for p in members]))
        checks = _kernels.checked_mode()
        if skip_nonfinite or checks:
            for _, members, gradients in work:
                for p, g in zip(members, gradients, strict=True):
                    if not _finite(g):
                        if skip_nonfinite:
                            return False
                        raise AnomalyError(
                            f"{type(self).__name__}: the gradient of {p.name!r} is not finite (step {p.step + 1})"
                        )
        for numbers, members, _ in work:
            for p in members:
                if not p.state:
                    self._prepare(p, numbers)
        with plain_mode():
            for numbers, members, gradients in work:
                if members:
                    self._step_all(numbers, members, gradients)
        return True

    @staticmethod
    def _gradient(p: _Parameter) -> Tensor:
        g = p.tensor.grad
        if g.shape != p.tensor.shape or g.dtype != p.tensor.dtype:
            raise ShapeError(
                f"optim: the gradient of {p.name!r} is {g.dtype.name}{list(g.shape)}, not like its parameter"
            )
        g = g.detach() if g.requires_grad else g
        return g if g.is_contiguous() else g.contiguous()

    def state_tree(self) -> dict[str, dict[str, Any]]:
        """The state by kind, then by the parameter's name: a tree for `tensor.save`. The tensors are no copies.

        >>> import tensor as tn
        >>> optimizer = AdamW({"x": tn.ones(2)})
        >>> optimizer.state_tree()["first"]  # before the first step there is none
        {}
        """
        from tensor.functions.creation import asarray

        tree: dict[str, dict[str, Any]] = {"step": {}, **{kind: {} for kind in self._buffers}}
        for group in self._parameters:
            for p in group:
                if p.step:
                    tree["step"][p.name] = asarray(p.step, dtype="int64")
                    for kind, value in p.state.items():
                        tree[kind][p.name] = asarray(value, dtype="float64") if kind in self._numbers else value
        return tree

    def load_state_tree(self, tree: Mapping[str, Mapping[str, Any]]) -> None:
        """Takes over what `state_tree` gave, copies of it; steps and powers may be Python numbers.

        KeyError, ShapeError, TypeError, ValueError where it doesn't fit; nothing has changed then.
        """
        kinds = {"step", *self._buffers}
        if set(tree) != kinds:
            raise KeyError(
                f"{type(self).__name__}: state has {', '.join(sorted(kinds))}, got {', '.join(sorted(tree))}"
            )
        members = {p.name: p for group in self._parameters for p in group}
        for kind in sorted(kinds):
            unknown = sorted(set(tree[kind]) - set(members))
            if unknown:
                raise KeyError(f"{type(self).__name__}: state of an unknown parameter {unknown[0]!r}")
            missing = sorted(set(tree["step"]) - set(tree[kind])) if kind not in self._optional else ()
            if missing:
                raise KeyError(f"{type(self).__name__}: {kind} of {missing[0]!r} is missing")
        loaded: list[tuple[_Parameter, int, dict[str, Any]]] = []
        for name, stored in tree["step"].items():
            step = _plain(stored, "int64")
            if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step < 2**63:
                raise ValueError(f"{type(self).__name__}: the step of {name!r} must be from 1 to 2^63 - 1, got {step}")
            state: dict[str, Any] = {}
            for kind in self._buffers:
                if name not in tree[kind]:
                    continue
                value = tree[kind][name]
                if kind in self._numbers:
                    value = _plain(value, "float64")
                    if type(value) is not float or not 0 <= value < 1:
                        owner = type(self).__name__
                        raise ValueError(
                            f"{owner}: {kind} of {name!r} must be a float from 0 to below 1, got {value!r}"
                        )
                else:
                    x = members[name].tensor
                    if not isinstance(value, _kernels.Tensor):
                        raise TypeError(
                            f"{type(self).__name__}: {kind} of {name!r} must be a Tensor, got {type(value).__name__}"
                        )
                    if value.shape != x.shape or value.dtype != x.dtype:
                        raise ShapeError(f"{type(self).__name__}: {kind} of {name!r} does not fit its parameter")
                    value = value.detach().clone().contiguous()
                state[kind] = value
            loaded.append((members[name], step, state))
        for p, step, state in loaded:
            p.step, p.state = step, state


def _plain(value: Any, dtype: str) -> Any:
    """The number that a tensor of one element and of this type holds; anything else as it is."""
    if isinstance(value, _kernels.Tensor) and value.size == 1 and value.dtype == dtype:
        return value.item()
    return value


def _finite(g: Tensor) -> bool:
    from tensor.functions.comparison import isfinite

    return bool(isfinite(g).all().item())


def _zeros_like(x: Tensor) -> Tensor:
    from tensor.functions.creation import zeros

    return zeros(x.shape, dtype=x.dtype, device=x.device)


def _twins(members: list[_Parameter]) -> bool:
    """Whether the twins run: they take one tensor a call."""
    return _kernels.isa() == "ref" or any(str(p.tensor.device) != "cpu" for p in members)


def _apply(name: str, inputs: tuple[Tensor, ...], params: dict[str, Any]) -> None:
    from tensor.primitives.registry import row

    before = _kernels.set_grad_mode(False)
    try:
        _kernels.apply(row(name, "optimizer_steps"), inputs, params)
    finally:
        _kernels.set_grad_mode(before)


def _by_type(
    members: list[_Parameter], gradients: list[Tensor], key: Any
) -> list[tuple[list[_Parameter], list[Tensor]]]:
    """Members that share a call: of one dtype and with equal numbers."""
    buckets: dict[Any, tuple[list[_Parameter], list[Tensor]]] = {}
    for p, g in zip(members, gradients, strict=True):
        ours = buckets.setdefault((p.tensor.dtype.name, key(p)), ([], []))
        ours[0].append(p)
        ours[1].append(g)
    return list(buckets.values())


class SGD(Optimizer):
    """Gradient descent with momentum: d = g + weight_decay·p; momentum = μ·momentum + (1 − dampening)·d; p −= lr·d.

    parameters: tensors, (name, tensor) pairs, a dict of them, or a list of groups {"params": …, "lr": …, …}. The first
    momentum is d itself; with nesterov the step is d + μ·momentum. ValueError for numbers that make no sense.

    >>> import tensor as tn
    >>> x = tn.asarray([1.0]).requires_grad_()
    >>> optimizer = SGD([x], lr=0.25)
    >>> (x * x).sum().backward()
    >>> optimizer.step(), x.item()
    (True, 0.5)
    """

    _buffers = _optional = ("momentum",)

    def __init__(
        self,
        parameters: Any,
        *,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        numbers = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(parameters, {**numbers, "nesterov": nesterov})

    def _checked(self, numbers: dict[str, Any]) -> dict[str, Any]:
        for name in ("lr", "momentum", "weight_decay"):
            numbers[name] = _number("SGD", name, numbers[name], 0.0)
        numbers["dampening"] = _number("SGD", "dampening", numbers["dampening"], -math.inf)
        if numbers["nesterov"] and (numbers["momentum"] == 0 or numbers["dampening"] != 0):
            raise ValueError("SGD: nesterov needs a momentum and no dampening")
        return numbers

    def _prepare(self, p: _Parameter, numbers: dict[str, Any]) -> None:
        if numbers["momentum"] != 0:
            p.state["momentum"] = _zeros_like(p.tensor)

    def _step_all(self, numbers: dict[str, Any], members: list[_Parameter], gradients: list[Tensor]) -> None:
        from tensor.primitives.optimizer_steps import sgd_numbers

        moving = numbers["momentum"] != 0
        plain = {"rate": numbers["lr"], "decay": numbers["weight_decay"]}
        for ours, their in _by_type(members, gradients, lambda p: p.step == 0):
            params = {
                **plain,
                "momentum": numbers["momentum"],
                "dampening": numbers["dampening"],
                "nesterov": bool(numbers["nesterov"]),
                "first_step": ours[0].step == 0,
            }
            if _twins(ours):
                for p, g in zip(ours, their, strict=True):
                    if moving:
                        _apply("sgd_step", (p.tensor, g, p.state["momentum"]), params)
                    else:
                        _apply("sgd_plain_step", (p.tensor, g), plain)
            else:
                momenta = [p.state["momentum"] for p in ours] if moving else None
                _kernels.sgd_step([p.tensor for p in ours], their, momenta, *sgd_numbers(params))
            for p in ours:
                p.step += 1


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019).

    p·(1 − lr·weight_decay) − lr·m̂ / (√v̂ + eps), m̂ = m / (1 − β1^t), v̂ = v / (1 − β2^t). parameters: tensors,
    (name, tensor) pairs, a dict of them, or a list of groups {"params": …, "lr": …, …}. ValueError for numbers that
    make no sense.

    >>> import tensor as tn
    >>> x = tn.asarray([1.0]).requires_grad_()
    >>> optimizer = AdamW({"x": x}, lr=0.5, weight_decay=0.0)
    >>> (x * x).sum().backward()
    >>> optimizer.step(), x.item(), optimizer.state_tree()["step"]
    (True, 0.5, {'x': tensor(1, dtype=int64)})
    """

    _buffers = ("first", "second", "power1", "power2")
    _numbers = ("power1", "power2")

    def __init__(
        self,
        parameters: Any,
        *,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _checked(self, numbers: dict[str, Any]) -> dict[str, Any]:
        for name in ("lr", "eps", "weight_decay"):
            numbers[name] = _number("AdamW", name, numbers[name], 0.0)
        if not isinstance(numbers["betas"], (tuple, list)) or len(numbers["betas"]) != 2:
            raise ValueError(f"AdamW: betas must be two numbers, got {numbers['betas']}")
        betas = tuple(numbers["betas"])
        numbers["betas"] = tuple(_number("AdamW", "beta", b, 0.0, 1.0, below=True) for b in betas)
        return numbers

    def _prepare(self, p: _Parameter, numbers: dict[str, Any]) -> None:
        first, second = _zeros_like(p.tensor), _zeros_like(p.tensor)
        p.state.update(first=first, second=second, power1=1.0, power2=1.0)

    def _step_all(self, numbers: dict[str, Any], members: list[_Parameter], gradients: list[Tensor]) -> None:
        from tensor.primitives.optimizer_steps import adamw_numbers

        beta1, beta2 = numbers["betas"]
        for ours, their in _by_type(members, gradients, lambda p: (p.state["power1"], p.state["power2"])):
            power1, power2 = ours[0].state["power1"] * beta1, ours[0].state["power2"] * beta2
            params = {
                "decay": 1 - numbers["lr"] * numbers["weight_decay"],
                "beta1": beta1,
                "beta2": beta2,
                "step": numbers["lr"] / (1 - power1),
                "root_scale": 1 / math.sqrt(1 - power2),
                "epsilon": numbers["eps"],
            }
            if _twins(ours):
                for p, g in zip(ours, their, strict=True):
                    _apply("adamw_step", (p.tensor, g, p.state["first"], p.state["second"]), params)
            else:
                state = [p.state for p in ours]
                first, second = [s["first"] for s in state], [s["second"] for s in state]
                _kernels.adamw_step([p.tensor for p in ours], their, first, second, *adamw_numbers(params))
            for p in ours:
                p.step += 1
                p.state["power1"], p.state["power2"] = power1, power2


def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scales all gradients so that their common norm is at most max_norm; returns the norm before, without dimensions.

    The factor is min(1, max_norm / (norm + 1e-6)). Gradients are replaced, not changed in place. ValueError for a
    max_norm that is negative or no number.

    >>> import tensor as tn
    >>> x = tn.asarray([3.0, 4.0]).requires_grad_()
    >>> x.grad = tn.asarray([3.0, 4.0])
    >>> clip_grad_norm_([x], 1.0).item(), x.grad.tolist()
    (5.0, [0.5999999046325684, 0.7999998331069946])
    """
    limit = _number("clip_grad_norm_", "max_norm", max_norm, 0.0)
    if isinstance(parameters, _kernels.Tensor):
        raise TypeError("clip_grad_norm_: parameters must be an iterable of tensors, got a Tensor (hint: [x])")
    given = list(parameters)
    for x in given:
        if not isinstance(x, _kernels.Tensor):
            raise TypeError(f"clip_grad_norm_: parameters must be Tensors, got {type(x).__name__}")
    members = [x for x in {id(x): x for x in given}.values() if x.grad is not None]
    from tensor.functions.axes import reduced
    from tensor.functions.creation import zeros
    from tensor.functions.manipulation import stack
    from tensor.functions.promotion import cast_to

    if not members:
        return zeros((), dtype="float32")
    before = _kernels.set_grad_mode(False)
    try:
        kind = "float64" if any(x.dtype == "float64" for x in members) else "float32"
        squares = [reduced("square_sum", cast_to(x.grad, kind), None, False) for x in members]
        total = stack(squares, axis=0).sum().sqrt()
        with plain_mode():
            scale = min(1.0, limit / (float(total.item()) + 1e-6))
        if scale < 1:
            for x in members:
                x.grad = x.grad * scale
        return total
    finally:
        _kernels.set_grad_mode(before)
