"""What is made from the definition of SITE.toml: its JSON schema, and the tables of its page.

`python tests/regenerate_site_toml.py` writes both into docs/formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coord.sites.scenario_schema import (
    AGENT_PLACE,
    EVENT_KEYS,
    F32_MAX,
    OBSTACLE_KINDS,
    PATH_MAX,
    REQUIRED,
    SHAPE_KEYS,
    TABLES,
    Key,
    Table,
    bound_text,
)


def json_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of SITE.toml, generated from the same definition as the reader.

    >>> json_schema()["properties"]["plan"]["properties"]["planner"]["enum"]
    ['greedy', 'swap', 'auction', 'exact']
    """
    properties: dict[str, Any] = {}
    for table in TABLES.values():
        if table.name == "":
            continue
        body = _json_table(table)
        properties[table.name] = {"type": "array", "items": body} if table.rows else body
    top = _json_table(TABLES[""])
    top["properties"] = {**top["properties"], **properties}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "SITE.toml, version 1", **top}


def _json_table(table: Table) -> dict[str, Any]:
    required = [key.name for key in table.keys if key.default is REQUIRED]
    body: dict[str, Any] = {"type": "object", "description": table.text, "additionalProperties": False}
    body["properties"] = {key.name: _json_key(key) for key in table.keys}
    if required:
        body["required"] = required
    if table.name in _CONDITIONS:
        body["allOf"] = _CONDITIONS[table.name]()
    return body


def _where(word: str, value: str, needed: Sequence[str], refused: Sequence[str], **more: str) -> dict[str, Any]:
    """Where a word has a value, some keys must be there and others must not."""
    found = {name: {"const": text} for name, text in {word: value, **more}.items()}
    then: dict[str, Any] = {"required": list(needed)} if needed else {}
    if refused:
        then["properties"] = dict.fromkeys(refused, False)
    return {"if": {"properties": found, "required": list(found)}, "then": then}


def _obstacles() -> list[dict[str, Any]]:
    every = sorted({name for kind in OBSTACLE_KINDS for name in SHAPE_KEYS[kind]})
    return [
        _where("kind", kind, SHAPE_KEYS[kind], [name for name in every if name not in SHAPE_KEYS[kind]])
        for kind in OBSTACLE_KINDS
    ]


def _events() -> list[dict[str, Any]]:
    every = [key.name for key in TABLES["event"].keys[3:]]
    out = [
        _where("kind", kind, needed, [name for name in every if name not in allowed])
        for kind, (needed, allowed) in EVENT_KEYS.items()
    ]
    for shape, needed in SHAPE_KEYS.items():
        allowed = needed if shape == "cells" else (*needed, "margin")
        refused = [name for name in EVENT_KEYS["obstacle_added"][1][1:] if name not in allowed]
        out.append(_where("kind", "obstacle_added", needed, refused, shape=shape))
    place = {"anyOf": [{"required": [name]} for name in AGENT_PLACE]}
    out.append(
        {
            "if": {"properties": {"kind": {"const": "agent_back"}}, "required": ["kind"], **place},
            "then": {"required": ["x", "y"]},
        }
    )
    out.append(
        {
            "if": {"properties": {"kind": {"const": "delay"}}, "required": ["kind"]},
            "then": {"properties": {"ticks": {"minimum": 1}}},
        }
    )
    return out


_CONDITIONS = {"obstacle": _obstacles, "event": _events}


def _json_key(key: Key) -> dict[str, Any]:
    number = {"type": "number"}
    shapes: dict[str, dict[str, Any]] = {
        "int": {"type": "integer"},
        "float": number,
        "position": number,
        "str": {"type": "string"},
        "bool": {"type": "boolean"},
        "point3": {"type": "array", "items": number, "minItems": 3, "maxItems": 3},
        "box": {"type": "array", "items": number, "minItems": 4, "maxItems": 4},
        "points": {"type": "array", "minItems": 3,
                   "items": {"type": "array", "items": number, "minItems": 2, "maxItems": 2}},
        "span": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        "path": {"type": "array", "minItems": 1, "maxItems": PATH_MAX,
                 "items": {"type": "array", "items": number, "minItems": 3, "maxItems": 3}},
        "matrix": {"type": "array", "minItems": 4, "maxItems": 4,
                   "items": {"type": "array", "items": number, "minItems": 4, "maxItems": 4}},
    }  # fmt: skip
    body: dict[str, Any] = {**shapes[key.kind], "description": key.text}
    if key.choices:
        body["enum"] = list(key.choices)
    for word, bound in (("minimum", key.minimum), ("maximum", key.maximum)):
        if bound is not None:
            (body["items"] if key.kind == "span" else body)[word] = bound
    if key.default is not REQUIRED and key.default is not None:
        body["default"] = key.default
    return body


def markdown_tables() -> str:
    """The tables of `docs/formats/site-toml.md`, generated from the definition."""
    parts = []
    for table in TABLES.values():
        head = "the top" if table.name == "" else f"`[[{table.name}]]`" if table.rows else f"`[{table.name}]`"
        lines = [f"### {head}", "", f"{table.text}.", ""]
        if table.keys:
            lines += ["| key | type | default | range | meaning |", "|---|---|---|---|---|"]
            lines += [_markdown_row(key) for key in table.keys] + [""]
        parts.append("\n".join(lines))
    return "\n".join(parts)


def _markdown_row(key: Key) -> str:
    default = "required" if key.default is REQUIRED else "none" if key.default is None else f"`{key.default}`"
    if isinstance(key.default, bool):
        default = default.lower()
    bounds = ", ".join(key.choices)
    if key.minimum is not None:
        bounds = f"{bound_text(key.minimum)} to {bound_text(key.maximum)}" if abs(key.maximum or 0) < F32_MAX else (
            f"≥ {bound_text(key.minimum)}" if abs(key.minimum) < F32_MAX else "")  # fmt: skip
    return f"| `{key.name}` | {key.kind} | {default} | {bounds} | {key.text} |"
