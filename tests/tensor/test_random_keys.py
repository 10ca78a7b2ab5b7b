"""Keys inside transformations: captured functions, vmap, scan, loops, gradients; and streams, which advance."""

from __future__ import annotations

import pickle
import threading

import pytest

import tensor as tn
from tensor import random
from tensor.autograd import (
    checkpoint,
    cond,
    fori_loop,
    grad,
    jvp,
    scan,
    tree_leaves,
    tree_map,
    value_and_grad,
    vmap,
    while_loop,
)
from tensor.graph.files import load
from tensor.primitives.registry import row
from tensor.random import Key, Stream, fold_in, split

DRAWS = {
    "uniform": lambda key: key.uniform((2, 3), offset=5),
    "uniform float64": lambda key: key.uniform(3, dtype="float64"),
    "normal": lambda key: key.normal(7),
    "normal bfloat16": lambda key: key.normal(7, dtype="bfloat16"),
    "bits": lambda key: key.bits(4),
    "randint": lambda key: key.randint(-5, 2**62, (2, 2)),
    "randint uint8": lambda key: key.randint(0, 256, 9, dtype="uint8"),
    "permutation": lambda key: key.permutation(9),
    "bernoulli": lambda key: key.bernoulli(0.4, 12),
    "bernoulli of a tensor": lambda key: key.bernoulli(tn.asarray([0.1, 0.9]), (3, 2)),
    "split": lambda key: tn.stack([child.uniform(2) for child in key.split(3)]),
    "fold_in": lambda key: fold_in(split(key, 3), 2**40).uniform(3),
    "categorical": lambda key: random.categorical(key, tn.asarray([0.1, 2.0, -1.0]), 5),
    "exponential": lambda key: random.exponential(key, 5),
    "gumbel": lambda key: random.gumbel(key, 5),
    "truncated_normal": lambda key: random.truncated_normal(key, -1.0, 2.0, 5),
    "dropout": lambda key: random.dropout(key, tn.ones(9), 0.5),
}


def bits(x: tn.Tensor) -> str:
    return tn.digest(tn.bitcast(x, "uint16") if x.dtype == "bfloat16" else x)


# --- captured functions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAWS)
def test_a_key_among_the_arguments_of_a_captured_function_is_an_input(name) -> None:
    captured = tn.capture(DRAWS[name])
    for seed in (0, 1, 2**64 - 1):
        assert bits(captured(Key(seed))) == bits(DRAWS[name](Key(seed)))
    assert captured.plan().peak_bytes > 0  # there is one plan: new keys make no new one


@pytest.mark.parametrize("name", DRAWS)
def test_a_captured_function_on_a_batch_of_keys_equals_the_loop(name) -> None:
    keys = split(Key(3), tn.arange(4))
    captured = tn.capture(vmap(DRAWS[name]))
    assert bits(captured(keys)) == bits(tn.stack([DRAWS[name](split(Key(3), i)) for i in range(4)]))


def test_a_captured_function_gives_keys_back() -> None:
    step = tn.capture(lambda key: (split(key, 0), split(key, 1).uniform(2)))
    key = Key(4)
    following, drawn = step(key)
    assert following == split(key, 0)
    assert drawn.tolist() == split(key, 1).uniform(2).tolist()
    assert step(following)[0] == split(split(key, 0), 0)


def test_keys_in_trees_of_arguments_are_inputs_too() -> None:
    captured = tn.capture(lambda state: state["x"] + state["keys"][1].normal(3))
    for seed in (5, 6):
        state = {"x": tn.ones(3), "keys": Key(seed).split(2)}
        assert bits(captured(state)) == bits(tn.ones(3) + split(Key(seed), 1).normal(3))
    captured.plan()


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_from_a_key_that_a_captured_function_closes_over_is_refused(name) -> None:
    key = Key(7)

    def fixed(x: tn.Tensor) -> tn.Tensor:
        return x + DRAWS[name](key).sum()

    captured = tn.capture(fixed)
    with pytest.raises(tn.TraceError, match="the key is the same at each run of fixed") as caught:
        captured(tn.ones(()))
    assert str(caught.value).endswith(
        "so each would repeat these numbers (hint: pass the key as an argument, or draw from a tensor.random.Stream)"
    )


def test_a_batch_of_fixed_keys_under_vmap_inside_a_captured_function_is_refused() -> None:
    keys = split(Key(7), tn.arange(3))
    with pytest.raises(tn.TraceError, match="the key is the same at each run"):
        tn.capture(lambda x: x + vmap(lambda key: key.uniform(()))(keys))(tn.ones(3))


def test_a_fixed_key_folded_with_an_argument_is_another_one_at_each_run() -> None:
    key = Key(8)
    captured = tn.capture(lambda step: fold_in(key, step).uniform(3))
    for step in (0, 1, 77):
        assert bits(captured(tn.asarray(step))) == bits(fold_in(key, step).uniform(3))


def test_the_seed_of_a_captured_key_is_not_known() -> None:
    with pytest.raises(tn.TraceError, match="item\\(\\) of a captured tensor is not known"):
        tn.capture(lambda key: tn.ones(2) * key.seed)(Key(1))


def test_draws_of_a_captured_function_count_in_its_plan() -> None:
    captured = tn.capture(lambda key: (key.uniform(1000) * 2.0).sum())
    assert captured.plan(Key(1)).arena_bytes >= 4000
    with tn.budget(max_bytes=2000), pytest.raises(tn.BudgetExceeded, match="random_uniform"):
        captured(Key(1))


@pytest.mark.parametrize("name", ["permutation", "dropout", "truncated_normal", "normal"])
def test_the_predicted_peak_of_draws_is_what_a_run_takes(name) -> None:
    draw = {
        "permutation": lambda key: key.permutation(5000),
        "dropout": lambda key: random.dropout(key, tn.ones(5000), 0.5).sum(),
        "truncated_normal": lambda key: random.truncated_normal(key, -1, 1, 5000),
        "normal": lambda key: key.normal((50, 60)) @ key.normal((60, 5)),
    }[name]
    captured, key = tn.capture(draw), Key(18)
    key.seeds.tolist()  # the key's own 8 bytes are there
    plan = captured.plan(key)
    with tn.budget(max_bytes=1 << 20) as b:
        captured(key)
        assert b.peak_bytes == (plan.peak_bytes if tn.build_info()["isa"] != "ref" else b.peak_bytes)


def test_a_plan_that_computes_again_draws_the_same_numbers_again() -> None:
    w, x = [Key(i).normal((64, 64)) * 0.1 for i in range(4)], Key(9).normal((128, 64))

    def loss(w, x, key):
        for k, m in zip(key.split(4), w, strict=True):
            x = random.dropout(k, tn.tanh(x @ m), 0.3)
        return (x * x).mean()

    free = tn.capture(value_and_grad(loss))
    peak = free.plan(w, x, Key(1)).peak_bytes
    small = tn.capture(value_and_grad(loss), max_bytes=peak * 9 // 10)
    for seed in (1, 2):
        expected = [bits(g) for g in value_and_grad(loss)(w, x, Key(seed))[1]]
        assert [bits(g) for g in free(w, x, Key(seed))[1]] == expected
        assert [bits(g) for g in small(w, x, Key(seed))[1]] == expected
    assert small.plan().peak_bytes < peak


@pytest.mark.parametrize("name", DRAWS)
def test_a_captured_function_of_keys_is_saved_and_loaded(name, tmp_path) -> None:
    captured = tn.capture(lambda key: (DRAWS[name](key), split(key, 5)))
    captured.save(tmp_path / "draw.graph", Key(0))
    loaded = load(tmp_path / "draw.graph")
    for seed in (3, 2**64 - 1):
        drawn, following = loaded(Key(seed))
        assert bits(drawn) == bits(DRAWS[name](Key(seed)))
        assert following == split(Key(seed), 5)
    with pytest.raises(TypeError, match="arguments must be a tree"):
        loaded(tn.asarray(3, dtype="uint64"))


@pytest.mark.parametrize(
    ("name", "changed", "text"),
    [
        ("random_uniform", {"offset": -1}, "random_uniform: offset must be an int from 0 to 2**64 - 1, got -1"),
        ("random_uniform", {"offset": True}, "random_uniform: offset must be an int from 0 to 2**64 - 1, got True"),
        ("random_uniform", {"dtype": "int8"}, "random_uniform: int8 is not drawn (hint: float16, bfloat16, float32, "),
        (
            "random_bernoulli",
            {"limit": 2**24 + 1},
            "random_bernoulli: limit must be an int from 0 to 2**24, got 1677721",
        ),
        ("random_randint", {"low": 9}, "random_randint: low and high must be a range of int8, got 9 and 9"),
        ("random_randint", {"high": 129}, "random_randint: low and high must be a range of int8, got 0 and 129"),
        ("random_randint", {"high": 2.5}, "random_randint: low and high must be a range of int8, got 0 and 2.5"),
        ("random_child", {"tag": 0}, "random_child: tag must be 1 or 2, got 0"),
    ],
)
def test_the_rows_refuse_params_that_a_hostile_file_may_hold(name, changed, text) -> None:
    good = {
        "random_uniform": {"shape": (2,), "offset": 0, "dtype": "float32"},
        "random_bernoulli": {"shape": (2,), "offset": 0, "dtype": "bool", "limit": 3},
        "random_randint": {"shape": (2,), "offset": 0, "dtype": "int8", "low": 0, "high": 9},
        "random_child": {"tag": 1},
    }[name]
    seeds = (Key(1).seeds,) * (2 if name == "random_child" else 1)
    row(name, "random").specs_of(seeds, good)
    with pytest.raises((ValueError, TypeError)) as caught:
        row(name, "random").specs_of(seeds, good | changed)
    assert str(caught.value).startswith(text)


# --- vmap, loops, gradients ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAWS)
def test_vmap_over_keys_equals_the_loop(name) -> None:
    keys = split(Key(9), tn.arange(5))
    expected = tn.stack([DRAWS[name](split(Key(9), i)) for i in range(5)])
    assert bits(vmap(DRAWS[name])(keys)) == bits(expected)


def test_vmap_of_vmap_over_a_grid_of_keys_equals_the_loops() -> None:
    keys = Key(tn.reshape(split(Key(9), tn.arange(6)).seeds, (2, 3)))
    expected = [[split(Key(9), 3 * i + j).normal(2).tolist() for j in range(3)] for i in range(2)]
    assert vmap(vmap(lambda key: key.normal(2)))(keys).tolist() == expected
    assert vmap(vmap(lambda key: key.normal(2)), in_axes=1, out_axes=1)(keys).tolist() == expected
    assert keys.normal(2).tolist() == expected


def test_vmap_over_numbers_of_one_key_gives_its_children() -> None:
    drawn = vmap(lambda i: fold_in(Key(10), i).randint(0, 99, 3))(tn.arange(4))
    assert drawn.tolist() == [fold_in(Key(10), i).randint(0, 99, 3).tolist() for i in range(4)]


@pytest.mark.parametrize("run", [lambda f: f, tn.capture], ids=["eager", "captured"])
def test_scan_carries_a_key_and_takes_keys_as_what_it_goes_over(run) -> None:
    def walk(key: Key, start: tn.Tensor) -> tuple[Key, tn.Tensor]:
        def step(state, _):
            key, x = state
            here, following = key.split(2)
            return (following, x + here.normal(2)), x

        return scan(step, (key, start), length=6)

    (last, end), path = run(walk)(Key(11), tn.zeros(2))
    key, x, expected = Key(11), tn.zeros(2), []
    for _ in range(6):
        expected.append(x.tolist())
        here, key = key.split(2)
        x = x + here.normal(2)
    assert last == key
    assert end.tolist() == x.tolist()
    assert path.tolist() == expected
    keys = split(Key(12), tn.arange(4))
    total, _ = run(lambda keys: scan(lambda c, key: (c + key.uniform(()), None), tn.zeros(()), keys))(keys)
    assert total.item() == sum((split(Key(12), i).uniform(()) for i in range(4)), tn.zeros(())).item()


@pytest.mark.parametrize("run", [lambda f: f, tn.capture], ids=["eager", "captured"])
def test_a_loop_folds_its_number_into_a_key(run) -> None:
    loop = run(lambda key: fori_loop(0, 5, lambda i, x: x + fold_in(key, i).normal(3), tn.zeros(3)))
    expected = tn.zeros(3)
    for i in range(5):
        expected = expected + fold_in(Key(13), i).normal(3)
    assert bits(loop(Key(13))) == bits(expected)


def test_while_loop_goes_on_until_a_draw_says_so() -> None:
    def first_below(key: Key) -> tuple[Key, tn.Tensor]:
        def again(state):
            return state[1].uniform(()) >= 0.1

        def following(state):
            return state[0] + 1, split(state[1], 0)

        return while_loop(again, following, (tn.zeros((), dtype=tn.int64), key))

    counts = []
    for i in range(6):
        key, count = split(Key(14), i), 0
        while key.uniform(()).item() >= 0.1:
            key, count = split(key, 0), count + 1
        counts.append(count)
        assert first_below(split(Key(14), i))[0].item() == count
    assert vmap(lambda key: first_below(key)[0])(split(Key(14), tn.arange(6))).tolist() == counts
    captured = tn.capture(first_below)
    assert [captured(split(Key(14), i))[0].item() for i in range(6)] == counts
    assert captured(Key(14))[1] == first_below(Key(14))[1]
    assert len(set(counts)) > 3


@pytest.mark.parametrize("run", [lambda f: f, tn.capture], ids=["eager", "captured"])
def test_cond_draws_on_the_branch_that_is_taken(run) -> None:
    choose = run(lambda flag, key: cond(flag, lambda key: key.uniform(2), lambda key: key.normal(2), key))
    for flag in (True, False):
        got = choose(tn.asarray(flag), Key(15))
        assert got.tolist() == (Key(15).uniform(2) if flag else Key(15).normal(2)).tolist()


def test_gradients_and_tangents_pass_beside_a_key() -> None:
    def noisy(x: tn.Tensor, key: Key) -> tn.Tensor:
        return (x * key.normal(3)).sum()

    x, key = tn.asarray([1.0, 2.0, 3.0]), Key(16)
    assert grad(noisy)(x, key).tolist() == key.normal(3).tolist()
    value, tangent = jvp(lambda x: noisy(x, key), (x,), (tn.ones(3),))
    assert tangent.item() == noisy(tn.ones(3), key).item()
    assert value.item() == noisy(x, key).item()
    each = vmap(grad(noisy), in_axes=(None, 0))(x, split(key, tn.arange(2)))
    assert each.tolist() == [split(key, i).normal(3).tolist() for i in range(2)]


def test_trees_with_keys_may_be_mapped_to_anything() -> None:
    tree = {"key": Key(17), "x": tn.ones(3)}
    assert tree_map(lambda x: x.shape, tree)["x"] == (3,)
    assert repr(tree_map(lambda x: x.shape, tree)["key"]) == "Key(())"
    assert tree_leaves(tree_map(lambda x: x.ndim, tree)) == [0, 1]
    assert tree_map(lambda x: x, tree)["key"] == Key(17)


# --- streams ---------------------------------------------------------------------------------------------------------


def test_a_stream_gives_the_children_of_its_key_in_turn() -> None:
    stream = Stream(20)
    assert [stream.key() for _ in range(4)] == Key(20).split(4)
    assert bits(stream.uniform(3)) == bits(split(Key(20), 4).uniform(3))
    assert bits(stream.normal((2, 2))) == bits(split(Key(20), 5).normal((2, 2)))
    assert bits(stream.randint(0, 9, 3)) == bits(split(Key(20), 6).randint(0, 9, 3))
    assert bits(stream.permutation(5)) == bits(split(Key(20), 7).permutation(5))
    assert bits(stream.bernoulli(0.5, 5)) == bits(split(Key(20), 8).bernoulli(0.5, 5))
    assert repr(stream) == "Stream(seed=20, position=9)"
    again = pickle.loads(pickle.dumps(stream))
    assert again.key() == stream.key() == Stream(20, 9).key()


def test_a_captured_function_advances_its_streams_at_each_run_as_itself() -> None:
    def step(streams, x):
        noise = streams[0].normal(3)
        other = streams[1].uniform(3)
        streams[0].key()  # not used, and taken all the same
        return x * noise + other + streams[0].normal(3)

    mine, theirs = (Stream(21), Stream(22)), (Stream(21), Stream(22))
    captured = tn.capture(lambda x: step(mine, x))
    captured.plan(tn.ones(3))  # capturing takes nothing
    assert [s.position for s in mine] == [0, 0]
    seen = [bits(captured(tn.ones(3))) for _ in range(5)]
    assert seen == [bits(step(theirs, tn.ones(3))) for _ in range(5)]
    assert len(set(seen)) == 5
    assert [s.position for s in mine] == [s.position for s in theirs] == [15, 5]
    captured.plan()
    assert bits(captured(tn.ones((2, 3)))) == bits(step(theirs, tn.ones((2, 3))))  # another graph, the same streams


def test_a_stream_that_a_captured_function_makes_itself_is_refused() -> None:
    with pytest.raises(
        tn.TraceError,
        match=r"^Stream: it is made anew at each run of <lambda>, so each would repeat its numbers "
        r"\(hint: make it outside\)$",
    ):
        tn.capture(lambda x: x + Stream(1).uniform(2))(tn.ones(2))
    kept = []
    tn.capture(lambda x: kept.append(Stream(2)) or x)(tn.ones(2))
    assert kept[0].key() == split(Key(2), 0)
    assert tn.capture(lambda: kept[0].uniform(2))().tolist() == split(Key(2), 1).uniform(2).tolist()


def test_a_stream_may_be_an_argument_of_a_captured_function() -> None:
    captured = tn.capture(lambda stream: stream.uniform(2))
    stream = Stream(23)
    assert [captured(stream).tolist() for _ in range(3)] == [key.uniform(2).tolist() for key in Key(23).split(3)]


def test_a_refused_run_of_a_captured_function_takes_nothing_from_its_stream() -> None:
    stream = Stream(24)
    captured = tn.capture(lambda x: (x + stream.uniform(1000)) * x)
    x = tn.ones(1000)
    captured(x)
    with tn.budget(max_bytes=1000), pytest.raises(tn.BudgetExceeded):
        captured(x)
    assert stream.position == 1


def test_a_captured_function_with_a_stream_is_not_called_inside_another() -> None:
    stream = Stream(25)
    inner = tn.capture(lambda: stream.uniform(2))
    with pytest.raises(
        tn.TraceError,
        match=r"^capture of <lambda>: a captured function that draws from a Stream is called inside it "
        r"\(hint: capture the outermost function\)$",
    ):
        tn.capture(lambda x: x + inner())(tn.ones(2))
    assert stream.position == 0


@pytest.mark.parametrize("run", [lambda f: f, tn.capture], ids=["eager", "captured"])
def test_a_checkpoint_gets_the_keys_of_its_first_run_again(run) -> None:
    w, x = Key(26).normal((4, 5)), Key(27).normal((3, 4))

    def losses(part):
        stream = Stream(28)

        def layer(w, x):
            return random.dropout(stream.key(), tn.tanh(x @ w), 0.5)

        def loss(w):
            h = part(layer)(w, x)
            return (h * h).sum() + stream.normal(()) * 0.0

        step = run(value_and_grad(loss))
        return [tuple(map(bits, step(w))) for _ in range(3)], stream.position

    plain = losses(lambda layer: layer)
    assert losses(checkpoint) == plain
    assert losses(lambda layer: checkpoint(checkpoint(layer))) == plain
    assert len(set(plain[0])) == 3
    assert plain[1] == 6


def test_a_scan_with_checkpoints_gets_the_keys_of_its_first_run_again() -> None:
    def gradient(every):
        stream = Stream(29)

        def walk(w):
            end, _ = scan(lambda x, _: (x * w + stream.normal(2), None), tn.ones(2), length=9, checkpoint_every=every)
            return end.sum()

        return bits(grad(walk)(tn.asarray([0.5, 0.25]))), stream.position

    assert gradient(3) == gradient(None) == gradient(0)
    assert gradient(0)[1] == 9


def test_a_captured_scan_takes_a_key_from_a_stream_at_each_turn() -> None:
    def walk(stream, x):
        return scan(lambda c, _: (c * 0.5 + stream.normal(2), c), x, length=4)

    mine, theirs = Stream(32), Stream(32)
    captured = tn.capture(lambda x: walk(mine, x))
    for _ in range(3):
        assert [bits(v) for v in captured(tn.ones(2))] == [bits(v) for v in walk(theirs, tn.ones(2))]
    assert mine.position == theirs.position == 12


def test_a_checkpoint_that_takes_more_keys_the_second_time_is_an_error() -> None:
    stream, runs = Stream(30), []

    @checkpoint
    def uneven(x):
        runs.append(1)
        return sum((x * stream.uniform(()) for _ in runs), x)

    with pytest.raises(tn.GradientError, match="its function took 1 keys from streams the first time, and more now"):
        grad(uneven)(tn.asarray(1.0))


def test_threads_that_share_a_stream_get_different_keys() -> None:
    stream, taken = Stream(31), []

    def draw() -> None:
        taken.extend(stream.key().seed for _ in range(200))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(taken)) == 800
    assert set(taken) == {key.seed for key in Key(31).split(800)}


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: Stream(-1), ValueError, "Stream: seed must be from 0 to 2**64 - 1, got -1"),
        (lambda: Stream(True), TypeError, "Stream: seed must be an int, got bool"),
        (
            lambda: Stream(1, 2**64),
            ValueError,
            "Stream: position must be from 0 to 2**64 - 1, got 18446744073709551616",
        ),
    ],
)
def test_a_wrong_argument_of_a_stream_is_named(call, error, text) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text
