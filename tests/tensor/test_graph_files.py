"""Saved graphs: the same hash and bits after a load, one file a graph, and every hostile text refused by name."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

import tensor as tn
from tensor.errors import BudgetExceeded, DtypeError, TensorFileError
from tensor.io import SafetensorsFile, write_safetensors

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "graph.md"
MEMBER = "droveway-graph/1"


def same(a: tn.Tensor, b: tn.Tensor) -> bool:
    pair = [bytes(memoryview(t.contiguous())) for t in (a, b)]
    return a.shape == b.shape and a.dtype == b.dtype and pair[0] == pair[1]


def drawn(rng: np.random.Generator, *shape: int) -> tn.Tensor:
    return tn.asarray(rng.normal(size=shape).astype(np.float32))


def test_the_worked_example_of_the_page_is_what_is_written(tmp_path) -> None:
    found = re.search(r"```json graph\n(.*)\n```", PAGE.read_text())
    assert found is not None
    tn.capture(lambda x: x * 2.0).save(tmp_path / "double.graph", tn.zeros(2))
    file = SafetensorsFile(tmp_path / "double.graph")
    assert file.metadata == {MEMBER: found.group(1)}
    assert file.tensor("c0").tolist() == 2.0


class Network:
    """A step of training with constants, trees, views, a norm, an index with a negative step."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.fixed = drawn(rng, 8)
        self.p = {"w": drawn(rng, 8, 16), "v": [drawn(rng, 16, 8), None]}
        self.x = drawn(rng, 4, 8)

    def loss(self, p, x, scale, flag):
        h = tn.gelu(tn.layer_norm(x, 8) @ p["w"])[:, ::-1]
        y = tn.softmax((h @ p["v"][0]) * scale + self.fixed)
        return tn.sum(tn.cumulative_sum(y, axis=1) if flag else y)

    def step(self, p, x, *, scale, flag):
        value, g = tn.value_and_grad(self.loss)(p, x, scale, flag)
        return {"loss": value, "gradient": g, "said": "done", "parts": (1, 2.5)}


@pytest.mark.parametrize("fusion", [True, False])
def test_a_loaded_graph_has_the_hash_and_the_bits_of_what_was_saved(tmp_path, fusion: bool) -> None:
    n = Network()
    f = tn.capture(n.step)
    path = tmp_path / "step.graph"
    f.save(path, n.p, n.x, scale=-0.5, flag=True)
    g = tn.graph.load(path, fusion=fusion)
    assert g.hash() == f.hash(n.p, n.x, scale=-0.5, flag=True)
    ours, theirs = (run(n.p, n.x, scale=-0.5, flag=True) for run in (g.run, f.run))
    assert (ours["said"], ours["parts"], ours["gradient"]["v"][1]) == ("done", (1, 2.5), None)
    for a, b in zip(*map(tn.autograd.tree_leaves, (ours, theirs)), strict=True):
        assert a == b if not isinstance(a, tn.Tensor) else same(a, b)
    g.save(tmp_path / "again.graph")
    assert (tmp_path / "again.graph").read_bytes() == path.read_bytes()
    assert g.plan().peak_bytes > 0


def test_equal_functions_give_equal_files_and_constants_are_saved_as_they_are_now(tmp_path) -> None:
    c = tn.ones(3)
    f = tn.capture(lambda x: x + c)
    x = tn.zeros(3)
    assert f(x).tolist() == [1, 1, 1]
    c += 1
    f.save(tmp_path / "a", x)
    two = tn.ones(3) * 2
    tn.capture(lambda x: x + two).save(tmp_path / "b", x)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert tn.graph.load(tmp_path / "a")(x).tolist() == [2, 2, 2]


def test_a_result_that_is_a_constant_is_a_copy_of_it(tmp_path) -> None:
    c = tn.ones(4)
    tn.capture(lambda x: (c, c.reshape((2, 2))[::-1], x)).save(tmp_path / "f", tn.zeros(2))
    f = tn.graph.load(tmp_path / "f")
    before = f.hash()
    x = tn.zeros(2)
    for result in f(x):
        result[...] = 7.0
    assert [r.tolist() for r in f(x)] == [[1.0] * 4, [[1.0] * 2] * 2, [7.0] * 2]
    assert f.hash() == before


def test_a_loaded_graph_says_which_argument_does_not_fit(tmp_path) -> None:
    tn.capture(lambda x, k: x * k).save(tmp_path / "f", tn.ones(3), 2.0)
    f = tn.graph.load(tmp_path / "f")
    assert f(tn.ones(3), 2.0).tolist() == [2, 2, 2]
    with pytest.raises(TypeError, match=re.escape("leaf 0 of the arguments must be float32[3], got float32[2]")):
        f(tn.ones(2), 2.0)
    with pytest.raises(TypeError, match=re.escape("leaf 1 of the arguments belongs to the graph: 2.0, got 3.0")):
        f(tn.ones(3), 3.0)
    with pytest.raises(TypeError, match="arguments must be a tree"):
        f(tn.ones(3))
    with pytest.raises(BudgetExceeded):
        tn.graph.load(tmp_path / "f", max_bytes=2)


def test_what_has_no_text_cannot_be_saved(tmp_path) -> None:
    x = tn.ones(2)
    twice = tn.autograd.custom_primitive(
        "twice", shape=lambda specs, params: specs[0], forward=lambda arrays, params: arrays[0] * 2
    )
    with pytest.raises(ValueError, match="step twice is no row of the registry, and cannot be saved"):
        tn.capture(twice).save(tmp_path / "f", x)
    with pytest.raises(ValueError, match="a dict with keys that are no text cannot be saved"):
        tn.capture(lambda x: {1: x}).save(tmp_path / "f", x)
    with pytest.raises(ValueError, match="a value on device ref cannot be saved"):
        tn.capture(lambda x: x * x).save(tmp_path / "f", tn.ones(2, device="ref"))
    c = tn.ones(2, dtype=tn.complex128)
    with pytest.raises(DtypeError, match="complex128"):
        tn.capture(lambda x: x + c).save(tmp_path / "f", c)


def text_of(tmp_path) -> str:
    w = tn.ones((3, 4))
    tn.capture(lambda x: tn.sum(x @ w + 1.5, axis=1)).save(tmp_path / "f", tn.ones((2, 3)))
    return SafetensorsFile(tmp_path / "f").metadata[MEMBER]


def refusal(tmp_path, text: str, tensors=None, metadata=None) -> str:
    if tensors is None:
        tensors = {"c0": np.ones((3, 4), np.float32), "c1": np.array(1.5, np.float32)}
    write_safetensors(tmp_path / "g", tensors, metadata or {MEMBER: text})
    with pytest.raises(TensorFileError) as caught:
        tn.graph.load(tmp_path / "g")
    return str(caught.value).removeprefix(f"{tmp_path / 'g'}: byte 8, ")


def changed(text: str, path: list, value: object) -> str:
    tree = json.loads(text)
    node = tree
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return json.dumps(tree, separators=(",", ":"))


HOSTILE = [
    (["name"], 3, "name: expected a string, got 3"),
    (["inputs"], {}, "inputs: expected a list, got {}"),
    (["inputs", 0], ["float99", [2]], "input 0: expected [dtype, [size, …]], got ['float99', [2]]"),
    (["inputs", 0, 1], [2, -3], "input 0: expected at most 16 sizes, none negative, got [2, -3]"),
    (["inputs", 0, 1], [1] * 17, "input 0: expected at most 16 sizes, none negative"),
    (["inputs", 0, 1], [2**40, 2**40], "input 0: expected less than 2^58 elements"),
    (
        ["inputs", 0, 1],
        [5, 5],
        "step 0, 'matmul': expected inputs and params that the row takes, got ShapeError: matmul",
    ),
    (["constants", 0, 1], [3, 5], "step 0, 'matmul': expected results"),
    (["constants", 1, 0], "float64", "step 1, 'add': expected inputs and params that the row takes, got DtypeError"),
    (["steps", 0, 0], "system", "step 0, 'system': expected a row of the registry that does not overwrite its inputs"),
    (["steps", 0, 0], "fused", "step 0, 'fused': expected a row of the registry that does not overwrite its inputs"),
    (["steps", 0, 0], "adamw_step", "step 0, 'adamw_step': expected a row of the registry that does not overwrite"),
    (["steps", 0, 1], [0, 7], "step 0, 'matmul': expected values below 3, got 7"),
    (["steps", 0, 1], [0, -1], "step 0, 'matmul': expected values below 3, got -1"),
    (["steps", 0, 1], [0, True], "step 0, 'matmul': expected values below 3, got True"),
    (["steps", 0, 3], [], "step 0, 'matmul': expected at least one result, got []"),
    (["steps", 0, 3], [["float32", [9, 9]]], "step 0, 'matmul': expected results"),
    (["steps", 0], ["matmul", [0, 1]], "step 0: expected [row, [value, …], params, [spec, …]]"),
    (["steps", 2, 2], {"axis": ["tuple", [7]], "keepdims": False}, "step 2, 'sum': expected inputs and params that"),
    (["steps", 2, 2], {}, "step 2, 'sum': expected inputs and params that the row takes"),
    (["steps", 2, 2], {"keepdims": False, "axis": 1}, "step 2, 'sum': expected params in the order of their names"),
    (["steps", 2, 2], {"axis": ["file", "/etc"]}, "step 2, 'sum': expected a value, got ['file', '/etc']"),
    (["steps", 2, 2], {"axis": ["float", "1.50"]}, "step 2, 'sum': expected a float as Python writes it, got '1.50'"),
    (["steps", 2, 2], 5, "step 2, 'sum': expected params that are an object or null, got 5"),
    (["outputs"], [99], "outputs: expected values below 6, got 99"),
    (["arguments"], ["tensor", 0, 0], "arguments: expected a node of a tree, got ['tensor', 0, 0]"),
    (["arguments"], ["tuple", []], "arguments: expected 1 tensors, got 0"),
    (["arguments"], ["tensor", 1], "arguments: expected tensor 0, got 1"),
    (["arguments"], ["set", []], "arguments: expected a node of a tree, got ['set', []]"),
    (["result"], ["dict", [["b", ["none"]], ["a", ["tensor", 0]]]], "result: expected ascending keys, got ['b', 'a']"),
    (["result"], ["value", ["tuple", []]], "result: expected a leaf"),
]


@pytest.mark.parametrize(("path", "value", "expected"), HOSTILE)
def test_a_hostile_member_is_refused_by_name(tmp_path, path: list, value: object, expected: str) -> None:
    assert refusal(tmp_path, changed(text_of(tmp_path), path, value)).startswith(expected)


def test_texts_that_are_not_canonical_are_refused(tmp_path) -> None:
    text = text_of(tmp_path)
    canonical = "graph: expected the canonical text, without spaces, duplicates and fractions, got 'another'"
    assert refusal(tmp_path, text.replace(",", ", ")) == canonical
    assert refusal(tmp_path, text.replace("[2,3]", "[2.0,3]")) == canonical
    assert refusal(tmp_path, text.replace('"name":', '"name":"x","name":')) == canonical
    assert refusal(tmp_path, "[" * 100_000) == "graph: expected nesting of at most 64, got 'more'"
    assert refusal(tmp_path, "{").startswith("graph: expected a JSON text, got ")
    assert refusal(tmp_path, "[]").startswith("graph: expected an object with the members name, inputs")
    assert refusal(tmp_path, text.replace("[2,3]", f"[{'9' * 5000},3]")).startswith(
        "graph: expected numbers of at most"
    )
    members = json.loads(text)
    turned = json.dumps(dict(reversed(members.items())), separators=(",", ":"))
    assert refusal(tmp_path, turned).startswith("graph: expected an object with the members")


def test_constants_must_be_those_of_the_text(tmp_path) -> None:
    text = text_of(tmp_path)
    one, other = np.ones((3, 4), np.float32), np.array(1.5, np.float32)
    assert refusal(tmp_path, text, {"c0": one}) == "tensors: expected 2 constants, c0 upwards, got ['c0']"
    assert refusal(tmp_path, text, {"c0": one, "c1": other, "c2": other}).startswith("tensors: expected 2 constants")
    assert refusal(tmp_path, text, {"c0": one, "c1": one}) == "c1: expected float32[], got float32[3, 4]"
    assert refusal(tmp_path, text, {"c0": one, "c1": np.array(1.5)}) == "c1: expected float32[], got float64[]"
    metadata = {MEMBER: text, "more": ""}
    assert refusal(tmp_path, text, None, metadata).startswith(f"__metadata__: expected {MEMBER!r} alone")


def test_cut_and_bent_files_are_refused_or_give_a_graph(tmp_path) -> None:
    text_of(tmp_path)
    whole = (tmp_path / "f").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(150):
        data = bytearray(whole)
        if rng.random() < 0.3:
            del data[int(rng.integers(len(data))) :]
        for _ in range(int(rng.integers(3))):
            if data:
                data[int(rng.integers(len(data)))] = int(rng.integers(256))
        (tmp_path / "g").write_bytes(data)
        with contextlib.suppress(TensorFileError, TypeError):
            tn.graph.load(tmp_path / "g")(tn.ones((2, 3)))
