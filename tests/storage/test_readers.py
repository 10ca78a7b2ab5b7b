"""Whatever reads a history, a ledger of either engine or a published one: the same merge, the same cursors."""

import pytest

from storage import Cursor, Ledger, Signer, common_prefix, merge, open_published
from storage.replay.cursor import cursor_at, require_before

N = 700


@pytest.fixture
def readers(tmp_path, make_event):
    """The same events through RocksDB, LMDB and a published folder."""
    signer = Signer.generate("pumps.example")
    events = [make_event(i, producer=f"p{i % 3}") for i in range(N)]
    opened = []
    for engine in ("rocksdb", "lmdb"):
        with Ledger.open(tmp_path / engine, sync="os", engine=engine) as ledger:
            ledger.append_many(events)
            ledger.publish(str(tmp_path / "site"), signer)
        opened.append(Ledger.open(tmp_path / engine, mode="r"))
    opened.append(open_published(str(tmp_path / "site"), signer.verifier))
    yield opened
    for reader in opened:
        reader.close()


def test_cursors_are_the_same_for_all_readers(readers):
    for rank in (0, 1, 255, 256, 300, 512, 699, N):
        cursors = {cursor_at(reader, rank) for reader in readers}
        (cursor,) = cursors
        assert isinstance(cursor, Cursor)
        for reader in readers:
            require_before(reader, cursor)
    for one in readers:
        for two in readers:
            assert common_prefix(one, two).rank == N


def test_a_merge_of_all_readers_is_each_of_them(readers):
    whole = [found.event for found in merge(readers)]
    for reader in readers:
        assert [found.event for found in merge([reader])] == whole
    assert len(whole) == N
