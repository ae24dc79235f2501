"""Rows dealt out to pieces: neighbours stay neighbours, nothing is lost, and lines that cannot be are refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import CENSUS, curator_of

from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.verbs.partitioning import FINEST, dealt_before
from sfumato.lab.audit.attacks.reference import dealt_out
from sfumato.schema import Schema


@pytest.mark.parametrize("pieces", [1, 2, 8, 64])
def test_one_more_row_is_one_more_in_one_piece(pieces):
    """And each piece holds what it does when rows are dealt out one after the other."""
    for rows in range(3 * pieces + 2):
        before, after = (
            np.diff(np.append(dealt_before(np.full(pieces, count), pieces, np.arange(pieces)), count))
            for count in (rows, rows + 1)
        )
        assert before.tolist() == dealt_out([rows], pieces)
        assert sorted((after - before).tolist()) == [0] * (pieces - 1) + [1]
        assert before.max() - before.min() <= 1  # evenly


@pytest.mark.parametrize(
    ("names", "pieces", "words"),
    [(["age", "sex"], 1, "order"), (["age"], 3, "1, 2, 4"), (["age"], 2 * FINEST, "at most")],
)
def test_lines_that_cannot_be_are_refused_before_they_are_paid(names, pieces, words):
    curator = curator_of(Schema.from_dict({**CENSUS, "measures": {}}), np.ones((100, 2)))
    with pytest.raises(QueryError, match=words):
        curator.lines(names, Budget.pure(Fraction(1, 4)), pieces=pieces)
    assert curator.charge.fullest == 0
