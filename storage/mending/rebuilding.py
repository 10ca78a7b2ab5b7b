"""Putting a ledger's store in order: which leaf is right where event and tree disagree, and everything derived again.

Works on a store that can be read (a damaged database is copied into a new one before: storage/mending/salvage.py).
What the events say wins where it gives the roots that are known from elsewhere (HEAD, `meta/head`, checkpoints); what
the tiles say wins where only they do, and then the event is the damaged one. Derived are `ids`, the tiles, the cursors,
the head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from storage import hashing, layout, state, tree
from storage.engine.store import Entry, Store
from storage.errors import IntegrityError, StorageError
from storage.event import EVENT_BYTES_MAX, Event
from storage.mending.event_recovery import LENGTHS_AT_A_TIME, Source, fetched, healed, length_of
from storage.mending.retire import is_retired, ranges
from storage.state import EMPTY
from storage.tree import EMPTY_ROOT, HASH_BYTES, Head

BATCH_BYTES = 1 << 20
GAP_RANKS_MAX = 1 << 16  # above it a key in the log is a stray, not the end of a ledger
DISPUTED_MAX = 10  # leaves of a tile, or tiles, of which every combination is tried
SEARCHES_MAX = 16  # through all 16 Mi lengths, seconds each; after them only lengths up to 64 KiB
OWN_BYTES = "its own bytes, one bit mended"


@dataclass(slots=True)
class Mended:
    """What was found and done. Ranks ascending; `restored` by where the bytes came from."""

    head: Head = field(default_factory=lambda: Head(0, EMPTY_ROOT))
    lost: list[int] = field(default_factory=list)  # nothing is left but, perhaps, the leaf hash
    lost_tail: tuple[int, int] | None = None  # first and last rank that only HEAD names
    restored: dict[str, list[int]] = field(default_factory=dict)
    without_payload: list[int] = field(default_factory=list)  # now as retired ones
    rebuilt: dict[str, int] = field(default_factory=dict)  # family or record → entries put right
    bytes_dropped: int = 0
    problems: list[str] = field(default_factory=list)
    writes: int = 0

    def count(self, what: str, number: int = 1) -> None:
        """Count entries put right."""
        self.rebuilt[what] = self.rebuilt.get(what, 0) + number


def mend(
    store: Store,
    path: str,
    *,
    seen: Head | None,
    sources: Sequence[tuple[str, Source]] = (),
    accept_loss: bool = False,
    events: bool = True,
) -> Mended:
    """Put a store in order, in place.

    seen: what HEAD names.  sources: names and readers of the same history, asked for events that are damaged or
    missing.  accept_loss: go on without what can't be found: a leaf hash stands for an event, and where not even that
    is known the ledger ends before it.  events: False raises IntegrityError where `log` must change.
    """
    return _Mender(store, path, seen, sources, accept_loss, events).run()


Leaves = list[bytes | None]


class _Mender:
    def __init__(
        self,
        store: Store,
        path: str,
        seen: Head | None,
        sources: Sequence[tuple[str, Source]],
        accept_loss: bool,
        events: bool,
    ) -> None:
        self.store = store
        self.path = path
        self.seen = seen
        self.sources = sources
        self.accept_loss = accept_loss
        self.events = events
        self.done = Mended()
        self.size = 0
        self.disputed: dict[int, tuple[Leaves, Leaves]] = {}  # tile → leaves by the events, leaves by the tree
        self.chosen: dict[int, list[bytes]] = {}
        self.marked: dict[int, bytes] = {}  # rank → leaf hash that an earlier repair put for a lost event
        self.roots = bytearray()  # of the full tiles
        self.rest: list[bytes] = []  # leaves of the last, unfinished tile
        self.searches = 0  # of all lengths that an event may have
        self.entries: list[Entry] = []
        self.held = 0

    def run(self) -> Mended:
        self.head = self._stored_head()
        self.size = self._log_end()
        self._fetch_tail()
        self._survey()
        if not self._without_holes():
            self._tell_lost_tail()
            return self.done
        if not self._decide():
            return self.done
        self._mend_events()
        self._drop_strays()
        self._flush()
        self._rebuild_tree()
        self._rebuild_ids_and_cursors()
        self._rebuild_meta()
        self._flush()
        self._tell_lost_tail()
        return self.done

    def _tell_lost_tail(self) -> None:
        if self.seen is not None and self.seen.size > self.size:
            self.done.lost_tail = (self.size, self.seen.size - 1)

    # what there is

    def _stored_head(self) -> Head | None:
        value = self.store.get("meta", layout.HEAD_KEY)
        return layout.unpack_head(value) if value is not None and len(value) == 40 else None

    def _trusted(self) -> list[Head]:
        """Heads that the events must lead to, as far as they reach: HEAD, the stored head, kept checkpoints."""
        found = [head for head in (self.seen, self.head) if head is not None and head.size]
        for key, value in self.store.scan("meta", b"checkpoint/", b"checkpoint0"):
            lines = value.split(b"\n", 3)
            if len(key) == 19 and len(lines) == 4 and len(lines[2]) == 44:
                found.append(Head(int.from_bytes(key[11:], "big"), _base64(lines[2])))
        return [head for head in found if len(head.root) == HASH_BYTES]

    def _log_end(self) -> int:
        """Events that log, tree and stored head speak of together."""
        end = 0
        last, head = self.store.last_key("log"), self.head
        if head is not None and head.size and last == layout.log_key(head.size - 1):
            end = head.size
        else:
            for key, _ in self.store.scan("log"):
                rank = int.from_bytes(key, "big")
                if len(key) == 8 and end <= rank <= end + GAP_RANKS_MAX:
                    end = rank + 1
        tiles = 0
        for key, value in self.store.scan("tree", b"\0", b"\1"):
            index = int.from_bytes(key[1:], "big")
            if len(key) == 9 and index * layout.TILE_HASHES <= max(end, tiles) + GAP_RANKS_MAX:
                tiles = index * layout.TILE_HASHES + min(len(value) // HASH_BYTES, layout.TILE_HASHES)
        if head is not None and head.size <= max(end, tiles):
            # Events beyond the head are strays, unless the tree has their leaves (an older head was all that was left).
            return max(head.size, min(end, tiles))
        return max(end, tiles)

    def _fetch_tail(self) -> None:
        """Ranks that HEAD names and the store has not, from the sources."""
        if self.seen is None or not self.sources:
            return
        while self.size < self.seen.size:
            value = self._from_sources(self.size, None)
            if value is None:
                return
            self._put("log", layout.log_key(self.size), value)
            self.size += 1
        self._flush()

    def _survey(self) -> None:
        for first in range(0, self.size, layout.TILE_HASHES):
            stop = min(first + layout.TILE_HASHES, self.size)
            index = first // layout.TILE_HASHES
            by_events = self._leaves(first, stop)
            tile = self.store.get("tree", layout.tile_key(0, index)) or b""
            by_tree: Leaves = [tile[at : at + HASH_BYTES] for at in range(0, HASH_BYTES * (stop - first), HASH_BYTES)]
            by_tree = [leaf if leaf is not None and len(leaf) == HASH_BYTES else None for leaf in by_tree]
            if by_events != by_tree:
                self.disputed[index] = (by_events, by_tree)
            joined = b"".join(
                leaf or other or bytes(HASH_BYTES) for leaf, other in zip(by_events, by_tree, strict=True)
            )
            if stop - first == layout.TILE_HASHES:
                self.roots += tree.root_of_leaves(joined)
            else:
                self.rest = [joined[at : at + HASH_BYTES] for at in range(0, len(joined), HASH_BYTES)]

    def _values(self, start: int, stop: int) -> Iterator[list[tuple[int, bytes, bytes]]]:
        """Batches of rank, value, and the id that its event bytes have (empty for a leaf and for no event)."""
        batch: list[tuple[int, bytes]] = []
        held = 0
        for key, value in self.store.scan("log", layout.log_key(start), layout.log_key(stop)):
            if len(key) == 8:
                batch.append((int.from_bytes(key, "big"), value))
                held += len(value)
            if held >= BATCH_BYTES:
                yield _with_ids(batch)
                batch, held = [], 0
        if batch:
            yield _with_ids(batch)

    def _leaves(self, start: int, stop: int) -> Leaves:
        """The leaf hashes that the values in `log` lead to; None for what is missing or contradicts itself."""
        out: Leaves = [None] * (stop - start)
        for batch in self._values(start, stop):
            for rank, value, hashed in batch:
                out[rank - start] = state.leaf_of(value, hashed)
                if len(value) == HASH_BYTES:
                    self.marked[rank] = value
        return out

    def _without_holes(self) -> bool:
        """Ask the sources where neither event nor leaf is known; without an answer the ledger can only end before."""
        holes = []
        for index, (by_events, by_tree) in self.disputed.items():
            for i, (leaf, other) in enumerate(zip(by_events, by_tree, strict=True)):
                if leaf is None and other is None:
                    rank = index * layout.TILE_HASHES + i
                    value = self._from_sources(rank, None)
                    if value is None:
                        holes.append(rank)
                    else:
                        self._put("log", layout.log_key(rank), value)
                        by_events[i] = state.leaf_of(value, hashing.event_id(value[32:]))
        self._flush()
        if not holes:
            return True
        if not self.accept_loss:
            self.done.lost = holes
            self.done.problems.append(
                f"{self.path}: neither event nor leaf of ranks {_shown(holes)} is left: the ledger can only end before "
                f"rank {holes[0]}"
            )
            return False
        self.done.lost = list(range(holes[0], self.size))
        self.size = holes[0]
        if self.head is not None and self.head.size > self.size:
            self.head = None
        self.disputed = {}
        self.roots, self.rest = bytearray(), []
        self._survey()
        return True

    # which leaf is right

    def _decide(self) -> bool:
        """Choose the leaves of each disputed tile. False, and a problem, where no choice leads to a known root."""
        options = {index: self._options(index) for index in self.disputed}
        open_tiles = [index for index, choices in options.items() if len(choices) > 1]
        trusted = [head for head in self._trusted() if head.size <= self.size]
        best, best_score = {index: choices[0] for index, choices in options.items()}, -1
        for choice in self._choices(options, open_tiles):
            score = self._score(choice, trusted)
            if score > best_score:
                best, best_score = choice, score
            if score == len(trusted):
                break
        self.chosen = best
        forked = (
            self.seen is not None and self.seen in trusted and self._root_at(self.seen.size, best) != self.seen.root
        )
        if (trusted and best_score == 0 and self.disputed) or (forked and not self.accept_loss):
            sizes = ", ".join(str(size) for size in sorted({head.size for head in trusted}))
            self.done.problems.append(
                f"{self.path}: no choice between events and tiles gives the root that is known for {sizes} events "
                f"(in dispute: tiles {_shown(sorted(self.disputed))})"
            )
            return False
        return True

    def _options(self, index: int) -> list[list[bytes]]:
        """The leaves that a disputed tile may have; one only, where the tile above tells."""
        by_events, by_tree = self.disputed[index]
        pairs = [
            (leaf,) if leaf == other or other is None else (other,) if leaf is None else (leaf, other)
            for leaf, other in zip(by_events, by_tree, strict=True)
        ]
        both = sum(len(pair) == 2 for pair in pairs)
        if both <= DISPUTED_MAX:
            choices = [list(choice) for choice in product(*pairs)]
        else:
            choices = [[pair[0] for pair in pairs], [pair[-1] for pair in pairs]]
        known: list[list[bytes]] = [[leaf for leaf in choice if leaf is not None] for choice in choices]
        above = self.store.get("tree", layout.tile_key(1, index // layout.TILE_HASHES)) or b""
        at = index % layout.TILE_HASHES * HASH_BYTES
        parent = above[at : at + HASH_BYTES]
        if len(by_events) == layout.TILE_HASHES and len(parent) == HASH_BYTES:
            for choice in known:
                if tree.root_of_leaves(b"".join(choice)) == parent:
                    return [choice]
        return known

    def _choices(
        self, options: dict[int, list[list[bytes]]], open_tiles: list[int]
    ) -> Iterator[dict[int, list[bytes]]]:
        fixed = {index: choices[0] for index, choices in options.items()}
        if len(open_tiles) <= 1:
            for index in open_tiles:
                for choice in options[index]:
                    yield {**fixed, index: choice}
            if not open_tiles:
                yield fixed
            return
        yield fixed
        yield {index: choices[-1] for index, choices in options.items()}
        if len(open_tiles) <= DISPUTED_MAX:
            ends = [(options[index][0], options[index][-1]) for index in open_tiles]
            for picked in product(*ends):
                yield {**fixed, **dict(zip(open_tiles, picked, strict=True))}

    def _score(self, choice: dict[int, list[bytes]], trusted: list[Head]) -> int:
        return sum(self._root_at(head.size, choice) == head.root for head in trusted)

    def _root_at(self, size: int, choice: dict[int, list[bytes]]) -> bytes:
        full, width = divmod(size, layout.TILE_HASHES)
        roots = bytearray(self.roots[: full * HASH_BYTES])
        for index, leaves in choice.items():
            if index < full:
                roots[index * HASH_BYTES : (index + 1) * HASH_BYTES] = tree.root_of_leaves(b"".join(leaves))
        frontier = tree.frontier_extend(0, b"", bytes(roots))
        if width:
            leaves = self._leaves_of_tile(full, choice)[:width]
            frontier += tree.frontier_extend(0, b"", b"".join(leaves))
        return tree.frontier_root(frontier)

    def _leaves_of_tile(self, index: int, choice: dict[int, list[bytes]]) -> list[bytes]:
        if index in choice:
            return choice[index]
        first = index * layout.TILE_HASHES
        if first + len(self.rest) == self.size and self.rest:
            return self.rest
        tile = self.store.get("tree", layout.tile_key(0, index)) or b""
        return [tile[at : at + HASH_BYTES] for at in range(0, len(tile), HASH_BYTES)]

    # events

    def _mend_events(self) -> None:
        wrong = {}
        for index, leaves in self.chosen.items():
            for i, (leaf, by_events) in enumerate(zip(leaves, self.disputed[index][0], strict=True)):
                if leaf != by_events:
                    wrong[index * layout.TILE_HASHES + i] = leaf
        if wrong and not self.events:
            ranks = sorted(wrong)
            raise IntegrityError(f"{self.path}: the events of ranks {_shown(ranks)} are damaged", ranks, "log")
        for rank, leaf in self.marked.items():
            if (
                rank < self.size
                and self._leaves_of_tile(rank // layout.TILE_HASHES, self.chosen)[rank % layout.TILE_HASHES] == leaf
            ):
                wrong[rank] = leaf
        names = self._ids_of(wrong)
        for rank, leaf in sorted(wrong.items()):
            self._mend_event(rank, leaf, names.get(rank, []))

    def _ids_of(self, wrong: dict[int, bytes]) -> dict[int, list[bytes]]:
        """The ids that `ids` has for ranks: a search through all of it."""
        found: dict[int, list[bytes]] = {}
        if wrong:
            for key, value in self.store.scan("ids"):
                rank = int.from_bytes(value, "big")
                if len(value) == 8 and len(key) == 32 and rank in wrong:
                    found.setdefault(rank, []).append(key)
        return found

    def _mend_event(self, rank: int, leaf: bytes, names: list[bytes]) -> None:
        key = layout.log_key(rank)
        value = self.store.get("log", key) or b""
        own = healed(value, leaf)
        if own is not None:
            self._put("log", key, own)
            self.done.restored.setdefault(OWN_BYTES, []).append(rank)
            return
        fetched = self._from_sources(rank, leaf)
        if fetched is not None:
            self._put("log", key, fetched)
            return
        if len(value) > HASH_BYTES:
            names = [*names, state.stored_id(value)]
        for event_id in dict.fromkeys(names):
            longest = EVENT_BYTES_MAX if self.searches < SEARCHES_MAX else LENGTHS_AT_A_TIME
            length = length_of(event_id, leaf, len(value) - 32, longest)
            self.searches += length is None or length > LENGTHS_AT_A_TIME
            if length is not None:
                self._put("log", key, tree.leaf(event_id, length))
                self.done.without_payload.append(rank)
                self.done.bytes_dropped += len(value)
                return
        self.done.lost.append(rank)
        if self.accept_loss and value != leaf:
            self._put("log", key, leaf)
            self.done.bytes_dropped += len(value)

    def _from_sources(self, rank: int, leaf: bytes | None) -> bytes | None:
        """A value of `log` from the first source whose event has the leaf hash; any event where that isn't known."""
        for name, source in self.sources:
            value = fetched(source, rank)
            if value is None:
                continue
            if leaf is None or state.leaf_of(value, hashing.event_id(value[32:])) == leaf:
                self.done.restored.setdefault(name, []).append(rank)
                return value
        return None

    def _drop_strays(self) -> None:
        for key, value in self.store.scan("log"):
            if len(key) != 8 or int.from_bytes(key, "big") >= self.size:
                if not self.events:
                    raise IntegrityError(f"{self.path}: log/{key.hex()} is no event of the ledger", (), "log")
                self._put("log", key, None)
                self.done.count("log")
                self.done.bytes_dropped += len(value)

    # what is derived

    def _rebuild_tree(self) -> None:
        built = EMPTY
        above: dict[bytes, bytes] = {}
        for first in range(0, self.size, layout.TILE_HASHES):
            index = first // layout.TILE_HASHES
            built, tiles = built.extended(b"".join(self._leaves_of_tile(index, self.chosen)))
            for _, key, tile in tiles:
                assert tile is not None
                if key[0] == 0:
                    self._put_unless_there("tree", key, tile)
                else:
                    above[key] = tile
                    if len(tile) == layout.TILE_BYTES:
                        self._put_unless_there("tree", key, above.pop(key))
        for key, tile in above.items():
            self._put_unless_there("tree", key, tile)
        counts, size = [], self.size
        while size:
            counts.append(-(-size // layout.TILE_HASHES))
            size //= layout.TILE_HASHES
        for key, _ in self.store.scan("tree"):
            if len(key) != 9 or key[0] >= len(counts) or int.from_bytes(key[1:], "big") >= counts[key[0]]:
                self._put("tree", key, None)
                self.done.count("tree")
        self.done.head = built.head()

    def _rebuild_ids_and_cursors(self) -> None:
        cursors: dict[str, tuple[int, bytes, int]] = {}
        known = 0
        for batch in self._values(0, self.size):
            stored = self.store.get_many("ids", [state.stored_id(value) for _, value, _ in batch])
            for (rank, value, hashed), found in zip(batch, stored, strict=True):
                if not is_retired(value) and value[:32] != hashed:
                    continue  # lost
                known += 1
                if found != layout.log_key(rank):
                    self._put("ids", state.stored_id(value), layout.log_key(rank))
                    self.done.count("ids")
                if not is_retired(value):
                    with_producer = _producer(value)
                    if with_producer is not None:
                        cursors[with_producer[0]] = (with_producer[1], value[:32], rank)
            self._flush()
        self._drop_other_ids(known)
        self._rebuild_cursors(cursors)

    def _drop_other_ids(self, known: int) -> None:
        if sum(1 for _ in self.store.scan("ids")) == known:
            return
        for key, value in self.store.scan("ids"):
            rank = int.from_bytes(value, "big")
            stored = self.store.get("log", value) if len(value) == 8 and rank < self.size else None
            lost = stored is not None and len(stored) <= 32
            if (stored is None or state.stored_id(stored) != key) and not lost:
                self._put("ids", key, None)
                self.done.count("ids")

    def _rebuild_cursors(self, cursors: dict[str, tuple[int, bytes, int]]) -> None:
        expected = {layout.cursor_key(name): cursor for name, cursor in cursors.items()}
        for key, value in self.store.scan("meta", layout.CURSOR_PREFIX, b"cursor0"):
            cursor = expected.pop(key, None)
            if cursor is not None and value == layout.pack_cursor(*cursor[:2]):
                continue
            if self._left_by_a_payload(value, cursor):
                continue
            self._put("meta", key, None if cursor is None else layout.pack_cursor(*cursor[:2]))
            self.done.count("cursors")
        for key, cursor in expected.items():
            self._put("meta", key, layout.pack_cursor(*cursor[:2]))
            self.done.count("cursors")

    def _left_by_a_payload(self, value: bytes, cursor: tuple[int, bytes, int] | None) -> bool:
        """Whether a cursor is that of an event whose payload is retired or lost, later than all that is known."""
        if len(value) != 40:
            return False
        key = self.store.get("ids", value[8:]) or b""
        stored = self.store.get("log", key) if len(key) == 8 else None
        if stored is None or (not is_retired(stored) and len(stored) > 32):
            return False
        later = cursor is None or (
            int.from_bytes(value[:8], "big") > cursor[0] and int.from_bytes(key, "big") > cursor[2]
        )
        return later and (not is_retired(stored) or stored[1:33] == value[8:])

    def _rebuild_meta(self) -> None:
        if self.store.get("meta", layout.FORMAT_KEY) != layout.FORMAT:
            self._put("meta", layout.FORMAT_KEY, layout.FORMAT)
            self.done.count("format")
        head = layout.pack_head(self.done.head)
        if self.store.get("meta", layout.HEAD_KEY) != head:
            self._put("meta", layout.HEAD_KEY, head)
            self.done.count("head")
        for key, value in self.store.scan("meta"):
            known = key in (layout.FORMAT_KEY, layout.HEAD_KEY)
            is_checkpoint = key.startswith(b"checkpoint/") and len(key) == 19
            if self.accept_loss and is_checkpoint and int.from_bytes(key[11:], "big") > self.size:
                self._put("meta", key, None)  # it can't be met any more, and nothing may be signed against it
                self._put("meta", b"lost-" + key, value)
                self.done.count("checkpoints")
                continue
            if not known and not key.startswith((layout.CURSOR_PREFIX, b"checkpoint/", b"lost-checkpoint/")):
                self._put("meta", key, None)
                self.done.count("meta")
                self.done.bytes_dropped += len(value)

    # writing

    def _put_unless_there(self, family: str, key: bytes, value: bytes) -> None:
        if self.store.get(family, key) != value:
            self._put(family, key, value)
            self.done.count(family)

    def _put(self, family: str, key: bytes, value: bytes | None) -> None:
        self.entries.append((family, key, value))
        self.held += len(value or b"")
        self.done.writes += 1
        if self.held >= BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self.entries:
            self.store.write(self.entries, sync=False)
            self.entries, self.held = [], 0


def _base64(text: bytes) -> bytes:
    import base64
    import binascii

    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""


def _with_ids(batch: list[tuple[int, bytes]]) -> list[tuple[int, bytes, bytes]]:
    data = [value[32:] if state.may_be_event(value) else b"" for _, value in batch]
    hashed = [event_id if part else b"" for event_id, part in zip(hashing.event_ids(data), data, strict=True)]
    return [(rank, value, event_id) for (rank, value), event_id in zip(batch, hashed, strict=True)]


def _producer(value: bytes) -> tuple[str, int] | None:
    try:
        event = Event.decode(value[32:])
    except StorageError:
        return None
    return event.producer, event.sequence


def _shown(numbers: Sequence[int]) -> str:
    """Numbers as ranges: 3..5, 9."""
    parts = [f"{first}..{last}" if last > first else f"{first}" for first, last in ranges(numbers)]
    return ", ".join(parts[:10]) + (f" and {len(parts) - 10} more" if len(parts) > 10 else "")
