"""Events as messages of an MCAP file. Written in docs/formats/events-mcap.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from storage.errors import EventError, LimitError, MissingExtraError
from storage.mending.retire import Retired

if TYPE_CHECKING:
    from storage.reader import Reader

RETIRED_TOPIC = "/retired"
METADATA = "droveway.ledger"
CHANNELS_MAX = 65_535  # their numbers are u16, from 1
_U64 = 1 << 64

Progress = Callable[[int, int], None]


def write_mcap(
    reader: Reader, stream: IO[bytes], tick_ns: int = 1, progress: Progress | None = None
) -> tuple[int, int]:
    """Write every event of a ledger; how many there were, and how many of them retired.

    tick_ns: nanoseconds of a tick, 1 or more.

    Raises MissingExtraError without the package mcap, EventError for a tick beyond the times of MCAP, LimitError for
    more kinds than MCAP has channels, else as scanning does.
    """
    if type(tick_ns) is not int or not 0 < tick_ns < _U64:
        raise ValueError(f"export: tick_ns must be in [1, 2**64), got {tick_ns!r}")
    writer_of = _writer()
    head = reader.head()
    writer = writer_of(stream)
    writer.start(profile="", library="droveway")
    channels: dict[str, int] = {}

    def channel(topic: str, encoding: str) -> int:
        if topic not in channels:
            if len(channels) == CHANNELS_MAX:
                raise LimitError(f"rank {rank}: MCAP holds at most {CHANNELS_MAX} channels, one a kind, got more")
            channels[topic] = writer.register_channel(topic, encoding, schema_id=0)
        return channels[topic]

    retired = time_ns = 0
    for rank, event in reader.scan(0, head.size, retired=True):
        published_ns = None
        if isinstance(event, Retired):
            retired += 1
            topic, encoding = RETIRED_TOPIC, "json"
            fields = {"id": event.id.hex(), "length": event.length, "rank": rank}
            data = json.dumps(fields, separators=(",", ":")).encode()
        else:
            topic, encoding, data = event.kind, "msgpack", event.encode()
            time_ns = event.tick * tick_ns
            if time_ns >= _U64:
                raise EventError(f"rank {rank}: tick {event.tick} × {tick_ns} ns is beyond the times of MCAP, 2^64 ns")
            if event.wall_ns is not None and event.wall_ns >= 0:
                published_ns = event.wall_ns
        writer.add_message(
            channel_id=channel(topic, encoding),
            log_time=time_ns,
            data=data,
            publish_time=time_ns if published_ns is None else published_ns,
            sequence=rank & 0xFFFFFFFF,
        )
        if progress is not None and (rank & 0xFF == 0xFF or rank + 1 == head.size):
            progress(rank + 1, head.size)
    writer.add_metadata(METADATA, {"size": str(head.size), "root": head.root.hex(), "tick_ns": str(tick_ns)})
    writer.finish()
    return head.size, retired


def _writer() -> Any:
    try:
        from mcap.writer import Writer
    except ImportError:
        raise MissingExtraError("MCAP needs the package mcap", "pip install 'droveway[robotics]'") from None
    return Writer
