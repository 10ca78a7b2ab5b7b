"""What somebody else's planner returned, as columns: who takes which zone, in which place of its queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from coord.errors import RowsError
from coord.records import NO_ZONE, ROW_DTYPE, Records

U32 = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """Columns in the order of the rows as returned; `rows` where whole rows were returned, None for pairs."""

    agent: U32
    zone: U32  # NO_ZONE for an agent left without one
    queue_index: npt.NDArray[np.int64]
    rows: Records | None
    later: int  # how many zones after the first an agent may have


def claims_of(returned: object, later: int, agents: int) -> Claims:
    """Rows of ROW_DTYPE, a plan's rows, or (agent, zone) pairs: an agent named again queues the later zone.

    Everything is copied, but no more than one row above what `agents` agents may have: then one of them is unknown, or
    has too many, and the check names it. Raises RowsError for anything else.

    >>> claims_of([(7, 3), (9, 4), (7, 5)], 1, 2).queue_index.tolist()
    [0, 0, 1]
    """
    most = agents * (later + 1) + 1
    rows = getattr(returned, "rows", returned)
    if isinstance(rows, np.ma.MaskedArray):
        raise RowsError(None, "", None, "an array without a mask", type(rows).__name__)
    if isinstance(rows, np.ndarray):
        rows = np.asarray(rows)  # of a subclass, such as a matrix, whose indices mean other things
    if isinstance(rows, np.ndarray) and rows.dtype == ROW_DTYPE:
        if rows.ndim != 1:
            raise RowsError(None, "", None, "rows in one dimension", f"shape {rows.shape}")
        copy = rows[:most].copy()
        return Claims(copy["agent"], copy["zone"], copy["queue_index"].astype(np.int64), copy, later)
    pairs = _array_pairs(rows, most) if isinstance(rows, np.ndarray) else _listed_pairs(rows, most)
    agent, zone = pairs[:, 0].astype(np.uint32), pairs[:, 1].astype(np.uint32)
    order = np.argsort(agent, kind="stable")
    place = np.empty(len(agent), np.int64)
    first = np.searchsorted(agent[order], agent[order])
    place[order] = np.arange(len(agent)) - first
    return Claims(agent, zone, place, None, later)


def _array_pairs(pairs: npt.NDArray[Any], most: int) -> npt.NDArray[np.int64]:
    if pairs.dtype.kind not in "iu" or pairs.ndim != 2 or pairs.shape[1] != 2:
        raise RowsError(
            None, "", None, "integers in the shape (n, 2), or ROW_DTYPE", f"{pairs.dtype}{list(pairs.shape)}"
        )
    pairs = pairs[:most]
    out = pairs.astype(np.int64)
    outside = np.flatnonzero((pairs < 0).any(axis=1) | (pairs > NO_ZONE).any(axis=1))
    if len(outside):
        row = int(outside[0])
        raise RowsError(row, "", None, "two ids of 32 bits", str(tuple(pairs[row].tolist())))
    return out


def _listed_pairs(returned: object, most: int) -> npt.NDArray[np.int64]:
    if not isinstance(returned, Iterable):
        kind = type(returned).__name__
        raise RowsError(None, "", None, "(agent, zone) pairs, rows of ROW_DTYPE or a plan", f"{kind}")
    listed = list(islice(returned, most))
    out = np.zeros((len(listed), 2), np.int64)
    for i, pair in enumerate(listed):
        if not isinstance(pair, (tuple, list, np.ndarray)) or len(pair) != 2 or not all(map(_is_id, pair)):
            raise RowsError(i, "", None, "a pair of ids (agent, zone)", repr(pair)[:60])
        out[i] = [int(pair[0]), int(pair[1])]
    return out


def _is_id(value: object) -> bool:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and 0 <= int(value) <= NO_ZONE  # type: ignore[call-overload]
