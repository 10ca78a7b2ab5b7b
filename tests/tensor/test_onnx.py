"""ONNX models: what the engine says without the package onnx, and of models that are damaged."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tensor as tn
from tensor.errors import OnnxError
from tensor.onnx.model import Graph, Input, Model
from tensor.onnx.node import OPERATORS, Node, load_operators
from tensor.onnx.values import tensor_of


class Message(SimpleNamespace):
    """Stands for a message of protobuf: what was given is there."""

    def HasField(self, name: str) -> bool:  # noqa: N802 (protobuf's name)
        return hasattr(self, name)


def tensor_message(**fields: Any) -> Message:
    return Message(**{"data_location": 0, "dims": [2], "data_type": 1, "name": "w", **fields})


def node_message(op_type: str, inputs: list[str], outputs: list[str], **fields: Any) -> Message:
    return Message(
        **{"op_type": op_type, "domain": "", "name": "n", "attribute": [], **fields}, input=inputs, output=outputs
    )


def graph_message(nodes: list[Message], constants: list[Message] | None = None) -> Message:
    free = Message(WhichOneof=lambda _: "tensor_type", tensor_type=Message(elem_type=1))
    return Message(
        initializer=constants or [],
        sparse_initializer=[],
        input=[Message(name="x", type=free)],
        output=[Message(name="y")],
        node=nodes,
    )


def graph(nodes: list[Message], constants: list[Message] | None = None) -> Graph:
    load_operators()
    return Graph(graph_message(nodes, constants), {"": 21}, "m.onnx")


def test_without_the_package_onnx_one_sentence_names_the_extra(
    python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    code = "import sys; sys.modules['onnx'] = None; import tensor; tensor.onnx.load('m.onnx')"
    done = python(code)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: tensor.onnx reads models with the package onnx: pip install 'droveway[onnx]'"
    )


def test_nodes_run_in_their_order() -> None:
    y = graph([node_message("Exp", ["x"], ["a"]), node_message("Log", ["a"], ["y"])]).run([tn.asarray([1.0])], {})
    assert y[0].tolist() == pytest.approx([1.0])


def test_an_unknown_operator_is_named_with_its_node() -> None:
    with pytest.raises(OnnxError) as raised:
        graph([node_message("Frobnicate", ["x"], ["y"])])
    assert str(raised.value) == "m.onnx: node 0 (n): the engine has no operator Frobnicate"


def test_an_operator_of_a_domain_without_a_version_is_refused() -> None:
    with pytest.raises(OnnxError) as raised:
        graph([node_message("Binarizer", ["x"], ["y"], domain="ai.onnx.ml")])
    assert str(raised.value) == "m.onnx: node 0 (n): the model imports no operator set of ai.onnx.ml"


def test_an_input_that_nothing_gives_is_named() -> None:
    with pytest.raises(OnnxError) as raised:
        graph([node_message("Exp", ["lost"], ["y"])]).run([tn.ones(1)], {})
    assert str(raised.value) == "node 0 (n), Exp: nothing gives its input lost"


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(OnnxError) as raised:
        graph([node_message("Exp", [b"\xff"], ["y"])])  # type: ignore[list-item]  # as protobuf gives it
    assert str(raised.value) == "m.onnx: expected names in UTF-8, got b'\\xff'"


def test_a_name_is_given_once() -> None:
    twice = [node_message("Exp", ["x"], ["y"]), node_message("Neg", ["x"], ["y"])]
    with pytest.raises(OnnxError, match=r"^m.onnx: node 1 \(n\): its output y is given before$"):
        graph(twice)
    with pytest.raises(OnnxError, match=r"^m.onnx: node 0 \(n\): its output x is given before$"):
        graph([node_message("Exp", ["x"], ["x"])])


@pytest.mark.parametrize("version", [0, -5, 29])
def test_an_operator_set_that_nobody_has_written_is_refused(version: int) -> None:
    message = Message(graph=graph_message([]), opset_import=[Message(domain="ai.onnx", version=version)])
    with pytest.raises(OnnxError) as raised:
        Model(message, "m.onnx")
    assert str(raised.value) == f"m.onnx: expected an operator set of ai.onnx from 1 to 28, got {version}"


def test_a_wrong_number_of_inputs_is_named() -> None:
    with pytest.raises(OnnxError, match=r"^node 0 \(n\), Add: the operator does not take 1 inputs$"):
        graph([node_message("Add", ["x"], ["y"])]).run([tn.ones(1)], {})


def test_what_no_later_node_reads_is_given_back() -> None:
    x = tn.ones(100_000)
    with tn.budget(max_bytes=2_000_000) as bounded:
        chain = [node_message("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(20)]
        graph([node_message("Exp", ["x"], ["v0"]), *chain, node_message("Neg", ["v20"], ["y"])]).run([x], {})
    assert bounded.peak_bytes <= 800_000 + 4096


def test_an_error_of_the_engine_names_the_node() -> None:
    with pytest.raises(OnnxError, match=r"^node 0 \(n\), MatMul: "):
        graph([node_message("MatMul", ["x", "w"], ["y"])], [tensor_message(dims=[3, 1], raw_data=bytes(12))]).run(
            [tn.ones((1, 2))], {}
        )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"raw_data": bytes(7)}, "w: expected 8 bytes for shape (2,), got 7"),
        ({"dims": [2**62], "raw_data": bytes(8)}, f"w: expected {2**64} bytes for shape ({2**62},), got 8"),
        ({"dims": [-2], "raw_data": b""}, "w: expected up to 16 dimensions from 0 up, got (-2,)"),
        ({"dims": [1] * 17, "raw_data": bytes(4)}, f"w: expected up to 16 dimensions from 0 up, got {(1,) * 17}"),
        ({"float_data": [1.0]}, "w: expected 2 numbers for shape (2,), got 1"),
        ({"data_type": 8, "raw_data": b""}, "w: the engine has no element type for ONNX's data type 8"),
        ({"data_location": 1}, "w: its data lies in another file, which is not read"),
    ],
)
def test_a_damaged_tensor_is_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(OnnxError) as raised:
        tensor_of(tensor_message(**fields), "w")
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("number", "fields", "values"),
    [
        (1, {"float_data": [1.5, -2.0]}, [1.5, -2.0]),
        (1, {"raw_data": bytes.fromhex("0000c03f000000c0")}, [1.5, -2.0]),
        (9, {"raw_data": b"\1\0"}, [True, False]),
        (9, {"int32_data": [1, 0]}, [True, False]),
        (10, {"int32_data": [0x3C00, 0xC000]}, [1.0, -2.0]),
        (13, {"uint64_data": [2**64 - 1, 0]}, [2**64 - 1, 0]),
        (14, {"float_data": [1.0, 2.0, 3.0, 4.0]}, [1 + 2j, 3 + 4j]),
        (16, {"raw_data": bytes.fromhex("803f00c0")}, [1.0, -2.0]),
    ],
)
def test_every_way_to_store_elements_is_read(number: int, fields: dict[str, Any], values: list[Any]) -> None:
    assert tensor_of(tensor_message(data_type=number, **fields), "w").tolist() == values


def run(operator: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
    load_operators()
    names = tuple("abc"[:outputs])
    return OPERATORS["", operator](Node(operator, "", 21, "", (), names, attributes), *inputs)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: run("Resize", tn.ones((2, 3)), None, None, tn.asarray([2**40, 3])),
            "a table of 1099511627776 by 2 places is above 16777216",
        ),
        (
            lambda: run("AffineGrid", tn.ones((1, 2, 3)), tn.asarray([1, 1, 2**31, 2**31])),
            "a table of 2147483648 places is above 16777216",
        ),
        (
            lambda: run(
                "MelWeightMatrix", *map(tn.asarray, (2**20, 2**30, 16_000)), tn.asarray(0.0), tn.asarray(8000.0)
            ),
            "a table of 1048578 by 536870913 places is above 16777216",
        ),
        (
            lambda: run("RoiAlign", tn.ones((1, 1, 4, 4)), tn.asarray([[0.0, 0.0, 1e9, 1e9]]), tn.asarray([0])),
            "a table of 1 by 1000000000 by 4 places is above 16777216",
        ),
        (
            lambda: run("Split", tn.ones((2, 3)), num_outputs=2**40),
            "2 elements cannot be split into 1099511627776 parts",
        ),
    ],
)
def test_a_size_that_a_model_claims_makes_no_list_of_that_length(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        call()


def test_whole_numbers_divide_towards_zero() -> None:
    x, y = tn.asarray([7, -7, 7, -7]), tn.asarray([2, 2, -2, -2])
    assert run("Div", x, y).tolist() == [3, -3, -3, 3]


def test_remainders_have_the_sign_that_fmod_asks_for() -> None:
    x, y = tn.asarray([-4, 7, 5, 4, -7, 8]), tn.asarray([2, -3, 8, -2, 3, 5])
    assert run("Mod", x, y).tolist() == [0, -2, 5, 0, 2, 3]
    assert run("Mod", x, y, fmod=1).tolist() == [0, 1, 5, 0, -1, 3]
    assert run("Mod", tn.asarray([-4.5]), tn.asarray([2.0]), fmod=1).tolist() == [-0.5]


def test_an_index_out_of_range_is_refused() -> None:
    with pytest.raises(IndexError, match=r"^an index is not from -2 to 1$"):
        run("Gather", tn.ones(2), tn.asarray([2]))


def test_a_convolution_over_three_dimensions_equals_the_sum_over_its_planes() -> None:
    x = tn.reshape(tn.arange(2 * 4 * 5 * 6, dtype=tn.float32), (1, 2, 4, 5, 6))
    w = tn.reshape(tn.arange(3 * 2 * 2 * 3 * 3, dtype=tn.float32), (3, 2, 2, 3, 3))
    y = run("Conv", x, w, strides=[1, 2, 1], pads=[0, 1, 1, 0, 1, 1])
    planes = [
        tn.conv2d(x[:, :, d], w[:, :, 0], stride=(2, 1), padding=1)
        + tn.conv2d(x[:, :, d + 1], w[:, :, 1], stride=(2, 1), padding=1)
        for d in range(3)
    ]
    assert y.tolist() == tn.stack(planes, axis=2).tolist()


def test_an_attention_without_any_key_gives_zero() -> None:
    q = tn.ones((1, 1, 2, 4))
    y = run("Attention", q, q, q, tn.asarray([[False, False], [True, True]]))[0]
    assert y.tolist() == [[[[0.0] * 4, [1.0] * 4]]]


def test_a_window_of_hann_is_zero_at_its_edge() -> None:
    window = run("HannWindow", tn.asarray(4)).tolist()
    assert window == pytest.approx([math.sin(math.pi * i / 4) ** 2 for i in range(4)], abs=1e-7)


def test_values_that_are_no_arrays_are_refused_by_the_input_they_are_for() -> None:
    wanted = Input("x", tn.float32, (None, 2))
    with pytest.raises(OnnxError, match=r"^input x: expected a tensor or an array, got list \(hint: tensor.asarray\)$"):
        wanted.check([[1.0, 2.0]])
    with pytest.raises(OnnxError, match=r"^input x: expected shape \(any, 2\), got \(1, 3\)$"):
        wanted.check(tn.ones((1, 3)))
    wanted.check(tn.ones((5, 2)))


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from tensor.onnx import load

    monkeypatch.setitem(sys.modules, "onnx", SimpleNamespace())  # type: ignore[arg-type]
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(OnnxError) as raised:
        load(path)
    assert str(raised.value) == f"{path}: expected at most {2**31 - 1} bytes, got {2**31}"
