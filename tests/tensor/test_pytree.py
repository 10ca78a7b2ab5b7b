"""Trees: what goes in comes out."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor.autograd import tree_flatten, tree_leaves, tree_map, tree_reduce, tree_transpose, tree_unflatten
from tensor.autograd.pytree import register_pytree_node


class Point(NamedTuple):
    x: Any
    y: Any


TREES = st.recursive(
    st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.builds(Point, inner, inner)
    ),
    max_leaves=12,
)


@given(TREES)
def test_a_tree_of_its_leaves_is_the_tree(tree: Any):
    leaves, treedef = tree_flatten(tree)
    assert tree_unflatten(treedef, leaves) == tree
    assert type(tree_unflatten(treedef, leaves)) is type(tree)
    assert treedef.num_leaves == len(leaves)


@given(TREES)
def test_map_keeps_the_shape(tree: Any):
    assert tree_flatten(tree_map(lambda x: (x, x), tree))[0] == [x for x in tree_leaves(tree) for _ in range(2)]
    assert tree_flatten(tree_map(lambda x: x + 1, tree))[1] == tree_flatten(tree)[1]


def test_dicts_go_by_sorted_keys():
    assert tree_leaves({"b": 2, "a": 1}) == [1, 2]
    assert tree_flatten({"b": 2, "a": 1})[1] == tree_flatten({"a": 0, "b": 0})[1]


def test_keys_that_do_not_sort_are_refused():
    with pytest.raises(TypeError, match=r"^tree: the keys of a dict must sort, got \[1, 'a'\]$"):
        tree_flatten({1: 0, "a": 0})


def test_trees_of_different_shape_do_not_map():
    with pytest.raises(ValueError, match=r"^tree_map: the trees differ: \(\*, \*\) and \[\*, \*\]$"):
        tree_map(lambda a, b: a, (1, 2), [1, 2])


def test_the_number_of_leaves_must_fit():
    with pytest.raises(ValueError, match=r"^tree_unflatten: \(\*,\) has 1 leaves, got 2$"):
        tree_unflatten(tree_flatten((1,))[1], [1, 2])


def test_a_registered_type_is_a_container_and_only_once():
    class Box:
        def __init__(self, inside: Any, label: str) -> None:
            self.inside, self.label = inside, label

    register_pytree_node(Box, lambda b: ((b.inside,), b.label), lambda label, children: Box(children[0], label))
    found = tree_map(lambda x: x * 2, {"box": Box((1, 2), "left")})["box"]
    assert (found.inside, found.label) == ((2, 4), "left")
    assert tree_flatten(Box(1, "a"))[1] != tree_flatten(Box(1, "b"))[1]
    assert repr(tree_flatten(Box(1, "a"))[1]) == "Box(*)"
    with pytest.raises(ValueError, match=r"^register_pytree_node: Box is a container already$"):
        register_pytree_node(Box, lambda b: ((), None), lambda keys, children: Box(None, ""))


def test_reduce_goes_from_left_to_right():
    assert tree_reduce(lambda a, b: f"({a}{b})", {"b": "y", "a": "x"}, "0") == "((0x)y)"


def test_transposing_twice_is_the_tree():
    outer, inner = tree_flatten({"a": 0, "b": 0})[1], tree_flatten((0, [0]))[1]
    tree = {"a": (1, [2]), "b": (3, [4])}
    turned = tree_transpose(outer, inner, tree)
    assert turned == ({"a": 1, "b": 3}, [{"a": 2, "b": 4}])
    assert tree_transpose(inner, outer, turned) == tree
    with pytest.raises(ValueError, match=r"^tree_transpose: "):
        tree_transpose(outer, inner, {"a": 1})
