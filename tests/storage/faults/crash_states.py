"""The states in which a crash can leave files, from a record of what a process asked of the system.

The record is io_shim.c's. The model is the weakest that a file system may be: a file's bytes are sure after a sync of
the file, its name after a sync of its folder; until then each is there, or not, or in part. Folders alone are kept in
order: of the changes of names since a folder's last sync any first part survives.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

OPEN, WRITE, TRUNCATE, ALLOCATE, SYNC, RENAME, LINK, UNLINK, MKDIR, RMDIR, CLOSE, ACK = range(1, 13)
SECTOR_BYTES, PAGE_BYTES = 512, 4096
_HEAD = struct.Struct("<IBBHiqq")

KINDS = ("synced", "issued", "torn", "pages", "sectors")


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded call."""

    kind: int
    descriptor: int
    offset: int  # flags for OPEN
    length: int
    name: str
    data: bytes


def read_record(path: Path) -> list[Call]:
    """The calls of a record in order."""
    data, at, calls = path.read_bytes(), 0, []
    while at < len(data):
        size, kind, _, name, descriptor, offset, length = _HEAD.unpack_from(data, at)
        start = at + _HEAD.size
        calls.append(
            Call(kind, descriptor, offset, length, data[start : start + name].decode(), data[start + name : at + size])
        )
        at += size
    return calls


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset + len(data):
        content.extend(bytes(offset + len(data) - len(content)))
    content[offset : offset + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


@dataclass(eq=False, slots=True)
class File:
    """A file: what a sync made sure, and the changes since."""

    durable: bytes = b""
    content: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # (offset, bytes) or (new size, None)

    def change(self, offset: int, data: bytes | None) -> None:
        self._apply(self.content, offset, data)
        self.pending.append((offset, data))

    def write_through(self, offset: int, data: bytes) -> None:
        """A write that is on the disk when it returns, and no other of the file with it."""
        self._apply(self.content, offset, data)
        durable = bytearray(self.durable)
        self._apply(durable, offset, data)
        self.durable = bytes(durable)

    @staticmethod
    def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
        if data is None:
            _resize(content, offset)
        else:
            _put(content, offset, data)

    def sync(self) -> None:
        self.durable = bytes(self.content)
        self.pending.clear()

    def torn(self, randomly: random.Random) -> bytes:
        """The changes up to some moment, the last of them cut at a sector."""
        content = bytearray(self.durable)
        kept = randomly.randint(0, len(self.pending))
        for i, (offset, data) in enumerate(self.pending[:kept]):
            part = data
            if data is not None and i == kept - 1:
                end = (offset // SECTOR_BYTES + randomly.randint(1, -(-len(data) // SECTOR_BYTES))) * SECTOR_BYTES
                part = data[: end - offset]
            self._apply(content, offset, part)
        return bytes(content)

    def with_holes(self, randomly: random.Random, unit: int) -> bytes:
        """Some size that the file had, each changed block kept or not: what was there before, or zeros."""
        before, after, sizes = bytearray(self.durable), bytearray(self.durable), [len(self.durable)]
        touched: set[int] = set()
        for offset, data in self.pending:
            self._apply(after, offset, data)
            sizes.append(len(after))
            if data is not None:
                touched.update(range(offset // unit, -(-(offset + len(data)) // unit)))
        size = randomly.choice((sizes[-1], sizes[-1], randomly.choice(sizes)))
        _resize(before, max(size, len(before)))
        _resize(after, max(size, len(after)))
        share = randomly.choice((0.1, 0.5, 0.9))
        for block in sorted(touched):
            if randomly.random() < share:
                part = slice(block * unit, (block + 1) * unit)
                _put(before, block * unit, after[part])
        return bytes(before[:size])


@dataclass(eq=False, slots=True)
class Folder:
    """A folder: its names as of its last sync, and the changes since."""

    durable: dict[str, File | Folder] = field(default_factory=dict)
    names: dict[str, File | Folder] = field(default_factory=dict)
    pending: list[tuple[str | None, str, File | Folder | None]] = field(default_factory=list)

    def change(self, gone: str | None, name: str, node: File | Folder | None) -> None:
        """At once: `gone` goes, and `name` becomes `node`, or goes too where that is None."""
        self._apply(self.names, gone, name, node)
        self.pending.append((gone, name, node))

    @staticmethod
    def _apply(names: dict[str, File | Folder], gone: str | None, name: str, node: File | Folder | None) -> None:
        if gone is not None:
            names.pop(gone, None)
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.pending.clear()

    def first_part(self, randomly: random.Random) -> dict[str, File | Folder]:
        names = dict(self.durable)
        for change in self.pending[: randomly.randint(0, len(self.pending))]:
            self._apply(names, *change)
        return names


class Disk:
    """The files below a folder while a record is replayed."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.top = Folder()
        self._descriptors: dict[int, File | Folder] = {}
        self._through: set[int] = set()  # descriptors whose writes are on the disk when they return

    def _folder(self, path: str) -> tuple[Folder, str]:
        *parents, name = os.path.relpath(path, self._root).split("/")
        folder = self.top
        for parent in parents:
            folder = folder.names[parent]  # type: ignore[assignment]
        return folder, name

    def apply(self, call: Call) -> None:
        """One call of the record."""
        if call.kind == OPEN:
            self._open(call)
        elif call.kind == CLOSE:
            self._descriptors.pop(call.descriptor, None)
        elif call.kind in (RENAME, LINK):
            folder, name = self._folder(call.name)
            other, new = self._folder(call.data.decode())
            assert folder is other, "a name that moves between folders is not modelled"
            folder.change(name if call.kind == RENAME else None, new, folder.names[name])
        elif call.kind in (UNLINK, RMDIR):
            folder, name = self._folder(call.name)
            folder.change(None, name, None)
        elif call.kind == MKDIR:
            if call.name != self._root:
                folder, name = self._folder(call.name)
                folder.change(None, name, Folder())
        elif call.kind != ACK:
            self._change(self._descriptors[call.descriptor], call, call.descriptor in self._through)

    def _open(self, call: Call) -> None:
        self._through.discard(call.descriptor)
        if call.offset & os.O_DSYNC:
            self._through.add(call.descriptor)
        if call.name == self._root:
            self._descriptors[call.descriptor] = self.top
            return
        folder, name = self._folder(call.name)
        if name not in folder.names:
            folder.change(None, name, File())
        node = folder.names[name]
        if call.offset & os.O_TRUNC and isinstance(node, File) and node.content:
            node.change(0, None)
        self._descriptors[call.descriptor] = node

    @staticmethod
    def _change(node: File | Folder, call: Call, through: bool) -> None:
        if call.kind == SYNC:
            node.sync()
            return
        assert isinstance(node, File)
        if call.kind == WRITE and through:
            node.write_through(call.offset, call.data)
        elif call.kind == WRITE:
            node.change(call.offset, call.data)
        elif call.kind == TRUNCATE:
            node.change(call.length, None)
        elif call.offset + call.length > len(node.content):
            node.change(call.offset + call.length, None)

    def state(self, kind: str, randomly: random.Random) -> Iterator[tuple[str, bytes | None]]:
        """The files (path, bytes) and folders (path, None) of one state that a crash now may leave."""
        yield from self._walk(self.top, "", kind, randomly)

    def _walk(self, folder: Folder, at: str, kind: str, randomly: random.Random) -> Iterator[tuple[str, bytes | None]]:
        names = {"synced": folder.durable, "issued": folder.names}.get(kind)
        names = folder.first_part(randomly) if names is None else names
        for name, node in names.items():
            if isinstance(node, Folder):
                yield at + name, None
                yield from self._walk(node, f"{at}{name}/", kind, randomly)
            elif kind == "synced":
                yield at + name, node.durable
            elif kind == "issued":
                yield at + name, bytes(node.content)
            elif kind == "torn":
                yield at + name, node.torn(randomly)
            else:
                yield at + name, node.with_holes(randomly, PAGE_BYTES if kind == "pages" else SECTOR_BYTES)


def write_state(state: Iterator[tuple[str, bytes | None]], folder: Path) -> None:
    """Makes the files of a state in an empty folder."""
    for name, content in state:
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)
