"""Bindings of coord refuse what their kernels could not read, and twins and kernels share one self-test."""

from __future__ import annotations

import numpy as np
import pytest

from coord import _kernels, backend, selftest_ref
from coord.planning.situation import situation

pytestmark = pytest.mark.skipif(backend.REFERENCE, reason="DROVEWAY_ISA=ref has no kernels")


@pytest.fixture
def arguments(make_fleet):
    fleet = make_fleet(4, 20, 30, rich=False)
    problem = situation(fleet.agents, fleet.zones, [], [], fleet.config, now_tick=1000).problem
    return list(backend._arguments(problem))


def outputs(n=20, k=3):
    return np.zeros((n, k), np.int32), np.zeros((n, k), np.int32), np.zeros(n, np.uint32)


def replaced(arrays, i, value):
    return (*arrays[:i], value, *arrays[i + 1 :])


def test_the_twins_have_the_digests_of_the_self_test(golden):
    wanted = {name: value for name, value in golden["selftest"].items() if name.startswith("coord.")}
    assert selftest_ref.digests() == wanted
    assert _kernels.self_test(_kernels.isa()) == wanted


@pytest.mark.parametrize(
    ("table", "item", "value", "error", "message"),
    [
        (0, 1, np.zeros(19, np.float32), ValueError, "agents: item 1 must be as long as the first"),
        (0, 1, np.zeros(20), TypeError, "agents: item 1 has the wrong type or is not contiguous"),
        (0, 1, np.zeros(40, np.float32)[::2], TypeError, "agents: item 1 has the wrong type or is not contiguous"),
        (0, 7, np.full(20, 30, np.int32), ValueError, "agents: current must be -1 or the index of a zone"),
        (0, 7, np.full(20, -2, np.int32), ValueError, "agents: current must be -1 or the index of a zone"),
        (1, 8, np.zeros(31, np.uint8), ValueError, "zones: item 8 must be as long as the first"),
        (1, 0, [1.0, 2.0], TypeError, "zones: item 0 has the wrong type or is not contiguous"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(arguments, table, item, value, error, message):
    arguments[table] = replaced(arguments[table], item, value)
    with pytest.raises(error) as caught:
        _kernels.candidates(*arguments, *outputs())
    assert str(caught.value) == message


def test_outputs_of_another_shape_are_refused(arguments):
    zone, score, count = outputs()
    with pytest.raises(ValueError, match=r"^candidates: zone and score must be \[n, k\], count \[n\]$"):
        _kernels.candidates(*arguments, zone, score[:, :2].copy(), count)
    with pytest.raises(ValueError, match=r"^candidates: k must be at most 256$"):
        _kernels.candidates(*arguments, *outputs(k=257))
    read_only = np.zeros(20, np.int32)
    read_only.flags.writeable = False
    with pytest.raises(TypeError):
        _kernels.greedy(*arguments, None, read_only)


def test_indices_outside_their_tables_are_refused(arguments):
    zone, score, count = outputs()
    count[:] = 3
    zone[4, 2] = 30
    assigned = np.full(20, -1, np.int32)
    with pytest.raises(ValueError, match=r"^zone must hold indices of zones$"):
        _kernels.swap(*arguments, zone, score, count, 10, 0, assigned)
    zone[4, 2], count[9] = 0, 4
    with pytest.raises(ValueError, match=r"^count must be at most k$"):
        _kernels.greedy(*arguments, (zone, count), assigned)
    assigned[3] = 30
    with pytest.raises(ValueError, match=r"^assigned must be -1 or the index of a zone$"):
        _kernels.pair_values(*arguments, assigned, assigned.copy(), count, np.zeros(20, np.uint8))


def test_cells_of_a_field_must_stay_within_their_lists():
    one, index = np.zeros(1, np.float32), np.zeros(1, np.uint32)
    good = [one, one, np.zeros(1, np.int32), np.array([0, 1], np.uint32), index, one, one, one, one, one, one.copy()]
    _kernels.field_points(*good)
    for place, value, message in (
        (2, np.ones(1, np.int32), "field_points: cell must be -1 or a cell"),
        (3, np.array([0, 2], np.uint32), "field_points: start must stay within items"),
        (3, np.array([1, 0], np.uint32), "field_points: start must ascend"),
        (4, np.ones(1, np.uint32), "field_points: items must be numbers of kernels"),
        (5, np.zeros(2, np.float32), "field_points: kx, ky, reach, inv and weight must agree"),
    ):
        with pytest.raises(ValueError, match="^" + message + "$"):
            _kernels.field_points(*replaced(good, place, value))


def test_a_field_by_cells_takes_arrays_of_one_length_each():
    good = [np.zeros(2, np.float32) for _ in range(2)] + [np.ones(1, np.float32) for _ in range(5)]
    wrong, shared = np.ones(3, np.float32), np.zeros(4, np.float32)
    for name, width in (("field_by_cells", 1), ("gradient_by_cells", 2)):
        kernel = getattr(_kernels, name)
        kernel(*good, np.zeros(2 * width, np.float32))
        for place in range(8):
            which = "kx, ky, reach, inv and weight" if 2 <= place < 7 else "x, y and out"
            with pytest.raises(ValueError, match=f"^field_by_cells: {which} must agree$"):
                kernel(*replaced([*good, np.zeros(2 * width, np.float32)], place, wrong))
        with pytest.raises(ValueError, match=r"^an output must not share memory with an input$"):
            kernel(shared[:2], *good[1:], shared[: 2 * width])


def test_corners_of_a_polygon_must_lie_in_the_table():
    two = np.zeros(2, np.float32)
    f = np.zeros(1, np.float32)
    shapes = [
        np.ones(1, np.uint8),
        f,
        f,
        f,
        f,
        f,
        np.zeros(1, np.uint32),
        np.full(1, 3, np.uint32),
        np.zeros(6, np.float32),
    ]
    _kernels.blocked_points(two, two, tuple(shapes), np.zeros(2, np.uint8))
    for place, value in (
        (6, np.ones(1, np.uint32)),
        (7, np.full(1, 2, np.uint32)),
        (7, np.full(1, 2**32 - 1, np.uint32)),
    ):
        with pytest.raises(ValueError, match=r"^shapes: a polygon's corners must lie in the table$"):
            _kernels.blocked_points(two, two, replaced(shapes, place, value), np.zeros(2, np.uint8))
    with pytest.raises(ValueError, match=r"^shapes: kind must be 0, 1 or 2$"):
        _kernels.blocked_points(two, two, replaced(shapes, 0, np.full(1, 3, np.uint8)), np.zeros(2, np.uint8))


def test_an_unknown_build_has_no_self_test():
    with pytest.raises(ValueError, match=r"^self_test: isa must be a build that this CPU has, got 'v9'$"):
        _kernels.self_test("v9")


def test_an_output_that_shares_memory_with_an_input_is_refused(arguments):
    zone, score, count = outputs()
    message = r"^an output must not share memory with an input$"
    with pytest.raises(ValueError, match=message):
        _kernels.greedy(*arguments, (zone, count), zone.reshape(-1)[:20])
    with pytest.raises(ValueError, match=message):
        _kernels.swap(*arguments, zone, score, count, 10, 0, zone.reshape(-1)[5:25])
    current = arguments[0][7]
    with pytest.raises(ValueError, match=message):
        _kernels.candidates(*arguments, current.reshape(20, 1), np.zeros((20, 1), np.int32), count)
    with pytest.raises(ValueError, match=r"^outputs must not share memory$"):
        _kernels.candidates(*arguments, zone, zone, count)


def test_misaligned_arrays_are_refused():
    bytes_ = np.zeros(81, np.uint8)
    one_off = bytes_[1:].view(np.float32)
    with pytest.raises(TypeError):
        _kernels.gaussian_terms(one_off, 4.0, np.zeros(20, np.float32), np.zeros(20, np.float32))
    with pytest.raises(TypeError):
        _kernels.gaussian_terms(np.ones(20, np.float32), 4.0, one_off, np.zeros(20, np.float32))


def test_candidates_that_are_not_the_best_ones_end_in_a_whole_assignment(arguments):
    rng = np.random.default_rng(0)
    for _ in range(50):
        zone = rng.integers(0, 30, (20, 8)).astype(np.int32)
        count = rng.integers(0, 9, 20).astype(np.uint32)
        assigned = np.empty(20, np.int32)
        _kernels.greedy(*arguments, (zone, count), assigned)
        assert ((assigned >= -1) & (assigned < 30)).all()


class Lent:
    """Makes its memory for one request only, and spoils it when it is given back."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **_):
        return self.values.copy().__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def test_memory_that_an_exporter_makes_for_one_request_lives_until_the_kernel_is_done(arguments):
    wanted = outputs()
    _kernels.candidates(*arguments, *wanted)
    lent = [tuple(map(Lent, table)) for table in arguments[:2]]
    found = outputs()
    _kernels.candidates(*lent, *arguments[2:], *found)
    for a, b in zip(found, wanted, strict=True):
        assert a.tobytes() == b.tobytes()
