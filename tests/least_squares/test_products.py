"""Workloads taken apart into products, and their Gram matrices shared."""

from __future__ import annotations

import numpy as np

from sfumato.least_squares.gram import Gram, grams_of, products
from sfumato.queries import AllRanges, Identity, Kron, Prefix, Ranges, Scaled, Stack, Total

SOME = Ranges(3, [0, 1], [1, 2])


def test_products_add_up_to_the_gram_matrix():
    queries = Stack(Scaled(Kron(AllRanges(2), SOME), 3), Identity(6), Stack(Total(6), Kron(Prefix(2), Total(3))))
    wanted = products(queries, (2, 3))
    along = [grams_of(wanted, axis) for axis in range(2)]
    terms = [one.weight * np.kron(a.dense, b.dense) for one, a, b in zip(wanted, *along, strict=True)]
    assert np.array_equal(sum(terms), queries.gram())  # whole numbers


def test_what_is_no_product_is_said():
    assert products(Stack(Total(6), Ranges(6, [1], [4])), (2, 3)) is None
    assert products(Scaled(Identity(6), np.arange(6)), (2, 3)) is None


def test_usual_families_share_their_matrix_between_calls_and_others_only_within_one():
    wanted = products(Stack(Kron(Total(2), SOME), Kron(Total(2), SOME), Kron(Total(2), Total(3))), (2, 3))
    shared: dict[object, Gram] = {}
    first, again = (grams_of(wanted, 1, shared) for _ in range(2))
    assert first[0] is first[1] and first[0] is not again[0] and first[2] is again[2]
