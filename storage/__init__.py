"""An append-only ledger of events that can't lose or change a confirmed event without being noticed.

Importing this package loads no engine and no msgpack; using a name does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from storage._source_folder import load_kernels

if TYPE_CHECKING:
    from storage.append_store import AppendStore, make_store_recovered, rebuild_rank_sidecar
    from storage.catalog import Catalog
    from storage.errors import (
        CanonicalError,
        ClosedError,
        EquivocationError,
        EventError,
        EventTooLargeError,
        ForkError,
        IntegrityError,
        KeyFileError,
        LimitError,
        LockedError,
        MissingExtraError,
        NotALedgerError,
        NoteError,
        ObjectStoreError,
        PublishConflict,
        ReadOnlyError,
        RetiredError,
        RollbackError,
        SignatureError,
        StorageError,
        StorageFullError,
        SyncError,
        WitnessError,
    )
    from storage.event import Event
    from storage.ledger import Ledger
    from storage.ledger_check import LedgerReport, Problem, verify_ledger
    from storage.mending.repair import RepairReport
    from storage.mending.repair_ledger import repair_ledger, salvage_ledger
    from storage.mending.retire import Retired
    from storage.notes.checkpoint import Checkpoint
    from storage.notes.keys import Signer, VerifierKey, read_key, write_key
    from storage.notes.tlog_proof import TlogProof
    from storage.publication.publish import PublishReport
    from storage.publication.published import PublishedLedger, open_published
    from storage.publication.published_check import verify_published
    from storage.reader import Reader
    from storage.receipt import Receipt
    from storage.replay.cursor import ConsumerCursor, Cursor, common_prefix
    from storage.replay.export_jsonl import read_jsonl
    from storage.replay.exporting import ExportReport
    from storage.replay.following import follow
    from storage.replay.merging import MergedEvent, merge
    from storage.tree import Head
    from storage.witness import Witness
    from storage.witnessing import cosign

_kernels = load_kernels()

_HOMES = {
    "AppendStore": "append_store",
    "CanonicalError": "errors",
    "Catalog": "catalog",
    "Checkpoint": "notes.checkpoint",
    "ClosedError": "errors",
    "ConsumerCursor": "replay.cursor",
    "Cursor": "replay.cursor",
    "EquivocationError": "errors",
    "Event": "event",
    "EventError": "errors",
    "EventTooLargeError": "errors",
    "ExportReport": "replay.exporting",
    "ForkError": "errors",
    "Head": "tree",
    "IntegrityError": "errors",
    "KeyFileError": "errors",
    "Ledger": "ledger",
    "LedgerReport": "ledger_check",
    "LimitError": "errors",
    "LockedError": "errors",
    "MergedEvent": "replay.merging",
    "MissingExtraError": "errors",
    "NotALedgerError": "errors",
    "NoteError": "errors",
    "ObjectStoreError": "errors",
    "Problem": "ledger_check",
    "PublishConflict": "errors",
    "PublishReport": "publication.publish",
    "PublishedLedger": "publication.published",
    "ReadOnlyError": "errors",
    "Reader": "reader",
    "Receipt": "receipt",
    "RepairReport": "mending.repair",
    "Retired": "mending.retire",
    "RetiredError": "errors",
    "RollbackError": "errors",
    "SignatureError": "errors",
    "Signer": "notes.keys",
    "StorageError": "errors",
    "StorageFullError": "errors",
    "SyncError": "errors",
    "TlogProof": "notes.tlog_proof",
    "VerifierKey": "notes.keys",
    "Witness": "witness",
    "WitnessError": "errors",
    "common_prefix": "replay.cursor",
    "cosign": "witnessing",
    "follow": "replay.following",
    "make_store_recovered": "append_store",
    "merge": "replay.merging",
    "open_published": "publication.published",
    "read_jsonl": "replay.export_jsonl",
    "read_key": "notes.keys",
    "rebuild_rank_sidecar": "append_store",
    "repair_ledger": "mending.repair_ledger",
    "salvage_ledger": "mending.repair_ledger",
    "verify_ledger": "ledger_check",
    "verify_published": "publication.published_check",
    "write_key": "notes.keys",
}

__all__ = [
    "AppendStore",
    "CanonicalError",
    "Catalog",
    "Checkpoint",
    "ClosedError",
    "ConsumerCursor",
    "Cursor",
    "EquivocationError",
    "Event",
    "EventError",
    "EventTooLargeError",
    "ExportReport",
    "ForkError",
    "Head",
    "IntegrityError",
    "KeyFileError",
    "Ledger",
    "LedgerReport",
    "LimitError",
    "LockedError",
    "MergedEvent",
    "MissingExtraError",
    "NotALedgerError",
    "NoteError",
    "ObjectStoreError",
    "Problem",
    "PublishConflict",
    "PublishReport",
    "PublishedLedger",
    "ReadOnlyError",
    "Reader",
    "Receipt",
    "RepairReport",
    "Retired",
    "RetiredError",
    "RollbackError",
    "SignatureError",
    "Signer",
    "StorageError",
    "StorageFullError",
    "SyncError",
    "TlogProof",
    "VerifierKey",
    "Witness",
    "WitnessError",
    "build_info",
    "common_prefix",
    "cosign",
    "follow",
    "make_store_recovered",
    "merge",
    "open_published",
    "read_jsonl",
    "read_key",
    "rebuild_rank_sidecar",
    "repair_ledger",
    "salvage_ledger",
    "verify_ledger",
    "verify_published",
    "write_key",
]


def build_info() -> dict[str, object]:
    """How this build computes: instruction set, whether SHA-256 uses the processor's own instructions, compiler.

    >>> sorted(build_info())
    ['compiler', 'isa', 'rocksdict', 'sha_instructions']
    """
    from importlib.metadata import version

    return {
        "isa": _kernels.isa(),
        "sha_instructions": _kernels.sha_instructions(),
        "compiler": _kernels.compiler(),
        "rocksdict": version("rocksdict"),
    }


def __getattr__(name: str) -> object:
    if name in _HOMES:
        value = getattr(import_module(f"storage.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'storage' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
