"""What TurboIndex and IdMapIndex share: settings, rows, locks, search, and the way to a file and back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor import memory
from tensor.float_mode import plain_mode
from vector import _kernels, checks, encoder, index_file, nibbles, rotation, rotation_ref, score
from vector.access import Access
from vector.codebook import LEVELS, check_bits, padded_dim
from vector.errors import VectorValueError
from vector.index_header import (
    CODES_HIGH,
    CODES_LOW,
    IDS,
    JVI,
    JVIM,
    NORMS2,
    ROWS_MAX,
    SCALES,
    SCALES_HIGH,
    IndexHeader,
)
from vector.row_store import RowStore, Snapshot

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]

PIECE_BLOCKS = 64  # blocks turned into a file's form at a time
_UNITS = {
    "v3": "x86-64-v3: AVX2, 16-bit products",
    "v4": "x86-64-v4: AVX-512, 16-bit products",
    "neon": "arm64: NEON, 16-bit products",
    "ref": "the Python twins",
}

# Bits of the allowed slots and their number, made under the lock from what the store holds at that moment.
Choose = Callable[[int], tuple[U32, int]]


class IndexCore:
    """Rows of one dimension under one rotation. `name` is the public class, for errors."""

    def __init__(self, name: str, dim: object, bits: object, metric: object, seed: object, *, with_ids: bool) -> None:
        self.name = name
        self.dim = checks.dim(dim, name)
        self.bits = check_bits(bits, name)
        self.metric = checks.metric(metric, name)
        self.seed = checks.seed(seed, name)
        self.turn = rotation.rotation_of(padded_dim(self.dim), self.seed)
        self.store = RowStore(self.turn.padded, l2=self.metric == "l2", with_ids=with_ids)
        self.access = Access()

    @property
    def rows(self) -> int:
        return self.store.rows

    def vectors(self, x: object, method: str) -> F32:
        """The checked argument x of a method that adds rows."""
        return checks.matrix(x, self.dim, f"{self.name}.{method}", "x")

    def prepare(self, x: F32, store: RowStore, method: str) -> None:
        """Encodes rows behind the last one of a store, where no snapshot sees them. Under `writing`, not `brief`."""
        rows = store.rows + len(x)
        if rows > ROWS_MAX:
            raise VectorValueError(
                f"{self.name}.{method}: an index holds at most {ROWS_MAX} rows, this would be {rows}"
            )
        with self.access.brief():
            store.grow(rows)
        encoder.encode(x, self.turn, self.metric, store, store.rows)

    def search(self, q: object, k: object, choose: Choose | None) -> tuple[F32, U64]:
        """The answer of `search`, among all rows or those that `choose` allows."""
        queries = checks.matrix(q, self.dim, f"{self.name}.search", "q")
        count = checks.neighbours(k, f"{self.name}.search")
        with self.access.brief():
            allowed, usable = (None, self.store.rows) if choose is None else choose(self.store.rows)
            snapshot = self.store.snapshot()
        try:
            return self._search(snapshot, queries, min(count, usable), allowed)
        finally:
            with self.access.brief():
                self.store.release()

    def _search(self, snapshot: Snapshot, q: F32, k: int, allowed: U32 | None) -> tuple[F32, U64]:
        padded = self.turn.padded
        if k == 0:
            return np.empty((len(q), 0), np.float32), np.empty((len(q), 0), np.uint64)
        return score.search(snapshot, padded, encoder.quantise(q, self.turn), self.metric, k, allowed)

    def reconstruct(self, slot: int) -> F32:
        """float32[d]: scale times level of each coordinate, rotated back: the vector that scores are products with."""
        lanes, scale = self.store.lanes(slot)
        levels = LEVELS[nibbles.codes_of_lanes(lanes[None])].astype(np.float32)
        with plain_mode():
            row = rotation_ref.unrotate(levels * scale, self.turn.order, self.turn.signs)
        return row[0, : self.dim].copy()

    def backend(self) -> str:
        return _UNITS[_kernels.isa()]

    # Files.

    def save(self, path: str | os.PathLike[str]) -> str:
        with self.access.writing():
            return index_file.write_index(path, self._header(), self._sections())

    def cid(self) -> str:
        with self.access.writing():
            return index_file.index_cid(self._header(), self._sections())

    def _header(self) -> IndexHeader:
        magic = JVIM if self.store.with_ids else JVI
        return IndexHeader(magic, self.dim, self.store.rows, self.bits, self.metric, self.seed)

    def _sections(self) -> dict[int, Iterable[Any]]:
        sections: dict[int, Iterable[Any]] = {
            CODES_HIGH: self._plane(CODES_HIGH),
            CODES_LOW: self._plane(CODES_LOW),
            SCALES: self._column("scales"),
            SCALES_HIGH: self._column("scales_high"),
        }
        if self.store.l2:
            sections[NORMS2] = self._column("norms2")
        if self.store.with_ids:
            sections[IDS] = self._column("ids")
        return sections

    def _plane(self, plane: int) -> Iterator[NDArray[np.uint8]]:
        for codes, rows in self.store.pieces(PIECE_BLOCKS):
            piece = nibbles.exchanged(codes)
            if rows % nibbles.BLOCK_ROWS:
                piece[-1, :, rows % nibbles.BLOCK_ROWS :] = 0
            yield from index_file.plane_pieces(piece, plane)

    def _column(self, name: str) -> Iterator[NDArray[Any]]:
        for segment in self.store.segments:
            yield getattr(segment, name)[: max(0, self.store.rows - segment.first)]

    def state(self) -> dict[str, Any]:
        """Everything, compact, for copies and pickles."""
        with self.access.writing():
            rows = self.store.rows
            columns = {
                name: np.concatenate([*self._column(name), getattr(self._nothing(), name)])
                for name in ("scales", "scales_high", "norms2", "ids")
            }
            shape = (-(-rows // 32), self.turn.padded // 64, 8, 32, 4)
            codes = memory.allocate(shape, np.uint8, "index copy")
            done = 0
            for piece, used in self.store.pieces(PIECE_BLOCKS):
                codes[done : done + len(piece)] = piece
                done += len(piece)
                if used % nibbles.BLOCK_ROWS:  # what lies past the last row is nobody's business
                    codes[done - 1, :, :, used % nibbles.BLOCK_ROWS :] = 0
        settings = {name: getattr(self, name) for name in ("dim", "bits", "metric", "seed")}
        return {"settings": settings, "rows": rows, "codes": codes, **columns}

    def restore(self, state: dict[str, Any]) -> None:
        """Fills an empty core with a state."""
        columns = (state[name] for name in ("codes", "scales", "scales_high", "norms2", "ids"))
        self.store.adopt(*columns, rows=state["rows"])

    @staticmethod
    def load(name: str, path: str | os.PathLike[str], magic: bytes) -> IndexCore:
        """The core of a file, all of it checked."""
        content = index_file.read_index(path, magic)
        header = content.header
        core = IndexCore(name, header.dim, header.bits, header.metric, header.seed, with_ids=magic == JVIM)
        none = core._nothing()
        core.store.adopt(
            nibbles.exchange_in_place(content.codes),
            content.scales,
            content.scales_high,
            none.norms2 if content.norms2 is None else content.norms2,
            none.ids if content.ids is None else content.ids,
            rows=header.rows,
        )
        return core

    def _nothing(self) -> Any:
        return RowStore(self.turn.padded, l2=False, with_ids=False)._segment(0, 0)


class IndexOfRows:
    """What every index says of itself, of whatever its rows are addressed by."""

    _core: IndexCore

    @property
    def dim(self) -> int:
        """The number of coordinates of a row."""
        return self._core.dim

    @property
    def bits(self) -> int:
        """Bits a coordinate."""
        return self._core.bits

    @property
    def metric(self) -> str:
        """ "ip", "cosine" or "l2"."""
        return self._core.metric

    @property
    def seed(self) -> int:
        """Of the rotation."""
        return self._core.seed

    @property
    def cid(self) -> str:
        """The root of the file that `save` would write, 64 hex digits: one name for settings, rows and their slots."""
        return self._core.cid()

    def __len__(self) -> int:
        return self._core.rows

    def __repr__(self) -> str:
        settings = f"dim={self.dim}, bits={self.bits}, metric={self.metric!r}, seed={self.seed}"
        return f"{self._core.name}({settings}) of {len(self)} rows"

    def backend(self) -> str:
        """What computes here: instruction set and kind of products."""
        return self._core.backend()

    def save(self, path: str | os.PathLike[str]) -> str:
        """Writes a file (docs/formats/jvi.md), replacing one at once; returns the cid. Raises IndexSaveError."""
        return self._core.save(path)

    def __getstate__(self) -> dict[str, Any]:
        return self._core.state()
