"""Trees in files: what goes in comes out, and a text that is no tree of the file's tensors is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor import TensorFileError
from tensor.io.tree import assemble, flatten

trees = st.recursive(
    st.none() | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def is_int(value: object) -> bool:
    return isinstance(value, int)


@given(trees)
def test_a_tree_comes_back_from_its_text_and_its_leaves(tree):
    leaves, text = flatten(tree, is_int)
    assert assemble("f", text, leaves) == tree
    assert repr(flatten(assemble("f", text, leaves), is_int)[0]) == repr(leaves)


def test_the_order_of_a_dict_leaves_no_trace():
    assert flatten({"b": [1], "a": {"d": 2, "c": 3}}, is_int) == flatten({"a": {"c": 3, "d": 2}, "b": [1]}, is_int)


def test_names_join_keys_and_indices_by_dots():
    leaves, text = flatten({"layers": [{"w": 1}, {"w": 2}], "none": None}, is_int)
    assert leaves == {"layers.0.w": 1, "layers.1.w": 2}
    assert text == '{"dict":{"layers":{"list":[{"dict":{"w":"layers.0.w"}},{"dict":{"w":"layers.1.w"}}]},"none":null}}'
    assert flatten(7, is_int) == ({"tensor": 7}, '"tensor"')


def loop() -> list[object]:
    inner: list[object] = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize(
    ("tree", "error", "text"),
    [
        ({"a": {"b": 1}, "a.b": 2}, ValueError, "save: two tensors of the tree have the name 'a.b'"),
        ({"__metadata__": 1}, ValueError, "save: '__metadata__' is no name for a tensor"),
        ([{3: 1}], TypeError, "save: keys must be text, got 3 at '0'"),
        ({"a": "x"}, TypeError, "save: a tree has dicts, lists, tuples, None and arrays, got str at 'a'"),
        (
            [1.5],
            TypeError,
            "save: a tree has dicts, lists, tuples, None and arrays, got float at '0' (hint: an array of it)",
        ),
        (loop(), ValueError, "save: the tree is more than 100 deep at '0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.'…"),
    ],
)
def test_what_is_no_tree_is_named(tree, error, text):
    with pytest.raises(error) as caught:
        flatten(tree, is_int)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "byte 0, KEY: expected a string, got the end of the header"),
        ('"b"', "byte 0, KEY: expected each tensor once, got 'b', which is not there, or was named before"),
        (
            '{"list":["a","a"]}',
            "byte 13, KEY: expected each tensor once, got 'a', which is not there, or was named before",
        ),
        ("null", "byte 4, KEY: expected each tensor once, got no 'a'"),
        ('"a" 1', "byte 4, KEY: expected the end of the tree, got '1'"),
        ('{"set":["a"]}', "byte 0, KEY: expected dict, list or tuple, got 'set'"),
        ('{"dict":{"x":null,"x":"a"}}', "byte 0, KEY: expected each key once, got 'x' twice"),
        ('{"list":["a"],"list":[]}', "byte 13, KEY: expected '}', got ',\"list\":[]}'"),
        ('{"list":[' * 5000, 'byte 909, KEY: expected a tree at most 100 deep, got \'{"list":[{"list":[{"list\''),
    ],
)
def test_a_text_that_is_no_tree_of_the_tensors_is_refused(text, message):
    with pytest.raises(TensorFileError) as caught:
        assemble("f", text, {"a": 1})
    assert str(caught.value) == "f: " + message.replace("KEY", "__metadata__ 'droveway-tree/1'")
