"""Rows dealt out to pieces: neighbours stay neighbours, nothing is lost, and lines spend what they were given."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import CENSUS, curator_of

from sfumato.errors import PrivacyError, QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.verbs.dealing import deal
from sfumato.kernel.verbs.scores import Rank
from sfumato.queries import Identity
from sfumato.schema import Schema


@pytest.mark.parametrize("pieces", [1, 2, 8])
def test_one_more_row_is_one_more_in_one_piece(pieces):
    for rows in range(40):
        before, after = (deal(np.array([3, rows + more]), pieces) for more in (0, 1))
        assert before.sum() == 3 + rows
        assert sorted((after - before).tolist()) == [0] * (2 * pieces - 1) + [1]
        assert before[pieces:].max() - before[pieces:].min() <= 1  # evenly


def lines(budget: Budget, pieces: int = 4):
    schema = Schema.from_dict({**CENSUS, "measures": {}})
    counts = np.arange(200).reshape(100, 2)
    curator = curator_of(schema, counts)
    return curator, curator.lines(["sex", "age"], budget, pieces=pieces)


def test_lines_put_the_last_attribute_innermost_and_charge_the_whole_at_once():
    curator, made = lines(Budget.pure(Fraction(1, 2)))
    assert curator.charge.fullest == Fraction(1, 2) and made.domain.size == 800
    counted = made.measure(Identity(800), scales=Fraction(2))
    # 800 Laplace noises of scale 2: a sum of 40 beyond 2000 has a chance far below 1e-6.
    assert abs(counted.answers[:400].sum() - np.arange(0, 200, 2).sum()) < 2000
    assert curator.charge.fullest == Fraction(1, 2) and made.charge.fullest == Fraction(1, 2)
    with pytest.raises(PrivacyError):
        made.select(Rank(Fraction(1, 2)), Budget.pure(Fraction(1, 100)))


@pytest.mark.parametrize(("names", "pieces", "words"), [(["age", "sex"], 1, "order"), (["age"], 3, "1, 2, 4")])
def test_lines_that_cannot_be_are_refused_before_they_are_paid(names, pieces, words):
    curator, _ = lines(Budget.pure(Fraction(1, 2)))
    with pytest.raises(QueryError, match=words):
        curator.lines(names, Budget.pure(Fraction(1, 4)), pieces=pieces)
    assert curator.charge.fullest == Fraction(1, 2)
