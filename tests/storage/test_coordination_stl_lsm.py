"""The reference's proof: append decisions, look up, decode, merge a replay, flush, read back, also after reopening."""

import re

import pytest

from coord.frames.decisions import DecisionLedger
from coord.frames.frame import decode_frame_event, encode_frame_event
from coord.planning.plan import plan
from coord.records import AgentState, PlanConfig, WorkZone
from storage import (
    AppendStore,
    Catalog,
    Event,
    IntegrityError,
    Ledger,
    make_store_recovered,
    merge,
    rebuild_rank_sidecar,
)
from storage.layout import log_key

COUNT = 40


def decisions():
    """(frame, rows) of some ticks of a small fleet, chained."""
    agents = [AgentState(id=i, x=float(i), memory_ticks=1000) for i in (3, 5, 8)]
    zones = [WorkZone(id=i, x=float(2 * i), y=1.0, radius=1.0) for i in (1, 2, 4, 7)]
    before = bytes(16)
    for number in range(COUNT):
        made = plan(agents, zones, [], [], PlanConfig(), now_tick=20 * number)
        frame = made.frame(number, before)
        before = frame.digest()
        yield frame, made.rows


def record(frame, rows, producer="planner"):
    return Event(
        producer=producer, effect=encode_frame_event(frame, rows), kind="coord.frame", sequence=frame.frame_id,
        tick=frame.tick,
    )  # fmt: skip


def in_append_order(store):
    order = store.iter_in_append_order()
    while not store.iter_done(order):
        yield store.iter_next(order)
    assert store.iter_next(order) is None
    assert store.iter_err(order) is None


def check(store, made, ids):
    """Every decision by id and by rank, decoded to what was appended, and all of them in order."""
    for rank, ((frame, rows), event_id) in enumerate(zip(made, ids, strict=True)):
        for event in (store.get_by_id(event_id), store.get_by_insertion_rank(rank)):
            found, found_rows = decode_frame_event(event.effect)
            assert (found, found_rows.tobytes()) == (frame, rows.tobytes())
        assert store.kind_by_insertion_rank(rank) == "coord.frame"
    assert [(rank, event.id) for rank, event in in_append_order(store)] == list(enumerate(ids))


@pytest.mark.parametrize("sync", ["fsync", "os"])
def test_append_look_up_decode_merge_flush_and_read_back(run, sync):
    made = list(decisions())
    with make_store_recovered(run, sync=sync) as store:
        ids = [store.append(record(*one)).id for one in made[:25]]
        check(store, made[:25], ids)
        head = store.flush()
        assert (head.size, head.root) == (25, store.ledger.head().root)
        check(store, made[:25], ids)
        ids += [store.append(record(*one)).id for one in made[25:]]
        head = store.flush_with_manifest()
        assert head.size == COUNT
        check(store, made, ids)
        replayed = DecisionLedger.of(decode_frame_event(event.effect)[0] for _, event in in_append_order(store))
    assert replayed == DecisionLedger.of(frame for frame, _ in made)
    with make_store_recovered(run) as store:
        assert store.ledger.head() == head
        assert store.manifest_status == "HEALTHY"
        check(store, made, ids)
        assert store.append(record(*made[7])).rank == 7


def test_replays_of_shards_merge_to_the_whole(tmp_path):
    made = list(decisions())
    stores = [make_store_recovered(tmp_path / str(i), sync="os") for i in range(3)]
    for number, one in enumerate(made):
        stores[number % 3].append(record(*one))
        stores[(number * 7 + 1) % 3].append(record(*one))
    for order in (stores, stores[::-1]):
        merged = [decode_frame_event(found.event.effect)[0] for found in merge([store.ledger for store in order])]
        assert merged == [frame for frame, _ in made]
        assert DecisionLedger.of(merged) == DecisionLedger.of(frame for frame, _ in made)
    for store in stores:
        store.close()


def test_a_record_and_what_is_derived_from_it_come_together(run, tmp_path):
    def latest(events):
        for rank, _ in events:
            yield b"latest", b"%d" % rank

    with make_store_recovered(run, sync="os") as store, Catalog.open(tmp_path / "c", store.ledger, latest) as catalog:
        for rank, one in enumerate(decisions()):
            store.append_and_derive(record(*one), catalog)
            assert catalog.get(b"latest") == b"%d" % rank
        assert catalog.head == store.ledger.head()


def test_flush_with_manifest_makes_a_shorter_store_a_rollback(run):
    from storage import head as head_file

    with make_store_recovered(run, sync="os") as store:
        for one in list(decisions())[:5]:
            store.append(record(*one))
        assert head_file.read(run / "HEAD").size == 0
        assert store.flush().size == 5
        assert head_file.read(run / "HEAD").size == 0
        assert head_file.read(run / "HEAD") != store.flush_with_manifest() == head_file.read(run / "HEAD")


def test_the_map_of_ids_is_made_again_from_the_log(run, rewrite):
    made = list(decisions())
    with make_store_recovered(run, sync="os") as store:
        ids = [store.append(record(*one)).id for one in made]
    rewrite(run, [], [("ids", event_id) for event_id in ids[5:]])
    with AppendStore(Ledger.open(run, mode="r")) as store:
        assert store.manifest_status == "DEGRADED"
    assert rebuild_rank_sidecar(run) == COUNT - 5
    assert rebuild_rank_sidecar(run) == 0
    with make_store_recovered(run) as store:
        assert store.manifest_status == "HEALTHY"
        check(store, made, ids)


def test_an_iteration_ends_at_damage_and_says_so(run, rewrite):
    made = list(decisions())
    with make_store_recovered(run, sync="os") as store:
        for one in made:
            store.append(record(*one))
    rewrite(run, [("log", log_key(6), bytes(32) + record(*made[6]).encode())])
    with AppendStore(Ledger.open(run, mode="r")) as store:
        order = store.iter_in_append_order(2)
        assert store.iter_err(order) is None
        assert [store.iter_next(order)[0] for _ in range(4)] == [2, 3, 4, 5]
        assert store.iter_done(order)
        assert store.iter_next(order) is None
        error = store.iter_err(order)
        assert isinstance(error, IntegrityError)
        assert re.match(f"{run}: rank 6 ", str(error))
