"""Recall: set overlap, in two forms, and what it refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest

from vector import VectorTypeError, VectorValueError, recall_at_k, recall_at_k_milli


def test_recall_is_one_for_the_truth_in_any_order_and_zero_for_strangers():
    truth = np.random.default_rng(0).permuted(np.tile(np.arange(50), (7, 1)), axis=1)[:, :10].astype(np.uint64)
    assert recall_at_k(truth[:, ::-1], truth, 10) == 1.0
    assert recall_at_k_milli(truth, truth, 10) == 1000
    assert recall_at_k(truth + np.uint64(100), truth, 10) == 0.0


def test_only_the_first_k_count_and_an_id_counts_once():
    found, truth = np.array([[1, 2, 3], [4, 4, 4]]), np.array([[1, 9, 2], [4, 5, 6]])
    assert recall_at_k(found, truth, 1) == 1.0
    assert recall_at_k(found, truth, 2) == 0.5
    assert recall_at_k(found, truth, 3) == 0.5
    assert recall_at_k_milli(found, truth, 3) == 500


def test_ids_above_2_to_the_63_are_told_apart():
    found, truth = np.array([[2**64 - 1]], np.uint64), np.array([[2**64 - 2]], np.uint64)
    assert recall_at_k(found, truth, 1) == 0.0
    assert recall_at_k(found, found, 1) == 1.0


def test_ids_of_two_integer_types_are_compared_as_integers():
    found = np.array([[2**53 + 1, 2**64 - 1, 7]], np.uint64)
    truth = np.array([[2**53, -1, 7]], np.int64)
    assert recall_at_k_milli(found, truth, 3) == 333
    assert recall_at_k_milli(truth, found, 3) == 333
    assert recall_at_k(found[:, ::-1], np.array([[7]], np.int8), 1) == 1.0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([[1]], np.zeros((1, 1), int), 1), VectorTypeError,
         "recall_at_k: found must be an array (buffer or DLPack), got list "
         "(hint: numpy.asarray(found, dtype=numpy.uint64))"),
        ((np.zeros((1, 2)), np.zeros((1, 2), int), 1), VectorTypeError,
         "recall_at_k: found must be integer ids [nq, k], got float64[1, 2]"),
        ((np.zeros((1, 2), int), np.zeros(2, int), 1), VectorTypeError,
         "recall_at_k: truth must be integer ids [nq, k], got int64[2]"),
        ((np.zeros((1, 2), int), np.zeros((2, 2), int), 1), VectorValueError,
         "recall_at_k: found and truth must have one row a query, got found = int64[1, 2] and truth = int64[2, 2]"),
        ((np.zeros((0, 2), int), np.zeros((0, 2), int), 1), VectorValueError,
         "recall_at_k: found and truth must have one row a query, got found = int64[0, 2] and truth = int64[0, 2]"),
        ((np.zeros((1, 2), int), np.zeros((1, 3), int), 3), VectorValueError,
         "recall_at_k: k must be from 1 to the number of columns, "
         "got 3, found = int64[1, 2] and truth = int64[1, 3]"),
        ((np.zeros((1, 2), int), np.zeros((1, 3), int), 0), VectorValueError,
         "recall_at_k: k must be from 1 to the number of columns, "
         "got 0, found = int64[1, 2] and truth = int64[1, 3]"),
        ((np.zeros((1, 2), int), np.zeros((1, 3), int), 1.0), VectorTypeError,
         "recall_at_k: k must be an int, got float"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match="^" + re.escape(message) + "$"):
        recall_at_k(*arguments)


def test_the_host_s_float_mode_does_not_matter(hostile_mode):
    wanted = recall_at_k(np.array([[1, 2, 3]]), np.array([[3, 1, 9]]), k=3)
    with hostile_mode():
        found = recall_at_k(np.array([[1, 2, 3]]), np.array([[3, 1, 9]]), k=3)
    assert found == wanted
