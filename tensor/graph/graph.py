"""A graph: values in single assignment, and the steps that make them, in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tensor.primitives.spec import Spec

__all__ = ["Graph", "Step"]

Tensor = Any


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a row: the numbers of the values that it reads and makes.

    `again` marks a step that makes a second time what was dropped to need less memory.
    """

    primitive: Any  # a row of the registry, or a BodyRow
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: Any = None
    again: bool = False

    @property
    def row(self) -> str:
        """The name of its row in the registry, which says what it does; "" for an operation of a user's own."""
        return "" if self.primitive.category == "custom" else str(self.primitive.name)

    @property
    def changes(self) -> bool:
        """Whether it overwrites some of its inputs."""
        return bool(self.primitive.in_place)

    @property
    def is_view(self) -> bool:
        """Whether its result looks at its first input's memory."""
        return self.primitive.view is not None


@dataclass(slots=True)
class Graph:
    """Values and steps. `specs[v]` is what value v is; inputs come with each run, constants belong to the graph.

    A constant is a tensor that the function found outside its arguments: a weight, a table. Steps read it where it
    lies, so that a later change of it is seen by the next run.
    """

    name: str
    specs: list[Spec] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    constants: dict[int, Tensor] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def value(self, spec: Spec) -> int:
        """The number of a new value."""
        self.specs.append(spec)
        return len(self.specs) - 1

    def verify(self) -> None:
        """Checks that each value is made once and before it is read, and has the shape its step's rule gives.

        Raises ValueError that names the step.
        """
        known = set(self.inputs) | set(self.constants)
        for at, step in enumerate(self.steps):
            where = f"{self.name}: step {at}, {step.primitive.name}"
            for v in step.inputs:
                if v not in known:
                    raise ValueError(f"{where}: reads value {v}, which no step before it makes")
            expected = step.primitive.specs_of(tuple(self.specs[v] for v in step.inputs), step.params)
            if len(expected) != len(step.outputs):
                raise ValueError(f"{where}: the rule gives {len(expected)} results, the step has {len(step.outputs)}")
            for v, spec in zip(step.outputs, expected, strict=True):
                if v in known:
                    raise ValueError(f"{where}: makes value {v} a second time")
                if (spec.shape, spec.dtype) != (self.specs[v].shape, self.specs[v].dtype):
                    raise ValueError(f"{where}: value {v} is {self.specs[v]!r}, the rule gives {spec!r}")
                known.add(v)
        for v in self.outputs:
            if v not in known:
                raise ValueError(f"{self.name}: the result, value {v}, is made by no step")

    def readers(self) -> dict[int, list[int]]:
        """For each value the indices of the steps that read it."""
        found: dict[int, list[int]] = {}
        for at, step in enumerate(self.steps):
            for v in step.inputs:
                found.setdefault(v, []).append(at)
        return found

    def lines(self) -> Iterator[str]:
        """The graph as text, a line a step."""
        for v in self.inputs:
            yield f"%{v} = input {self.specs[v]!r}"
        for v in self.constants:
            yield f"%{v} = constant {self.specs[v]!r}"
        for step in self.steps:
            made = ", ".join(f"%{v}" for v in step.outputs)
            read = ", ".join(f"%{v}" for v in step.inputs)
            params = "" if not step.params else f" {_text(step.params)}"
            yield f"{made} = {step.primitive.name}({read}){params} {self.specs[step.outputs[0]]!r}"
        yield f"return {', '.join(f'%{v}' for v in self.outputs)}"

    def hash(self) -> str:
        """BLAKE3, in hex, of the text of the graph and of the constants' digests: equal graphs compute equal results.

        Raises ValueError for a step whose params have no text of their own, such as a function.
        """
        from blake3 import blake3

        from tensor.tensor_digest import digest

        text = blake3("\n".join(self.lines()).encode())
        for v, tensor in self.constants.items():
            text.update(f"\n%{v} {digest(tensor)}".encode())
        return text.hexdigest()

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _text(params: Any) -> str:
    parts = []
    for key in sorted(params):
        value = params[key]
        if callable(value):
            raise ValueError(f"param {key} is a function: it has no text that says what it does")
        parts.append(f"{key}={value!r}")
    return " ".join(parts)
