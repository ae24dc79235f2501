"""Typical errors are those of a few questions, and of very few where each runs over ten million cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from statistics import median

import pytest

from sfumato.answers.results import Estimate, Result
from sfumato.domain import Domain
from sfumato.releases.contents.content import Content
from sfumato.releases.description import typical_errors
from sfumato.schema import Schema


@dataclass
class Counted:
    """A content that counts what it is asked, and answers with intervals of given half-widths, one after the other."""

    schema: Schema
    answers_linear: bool
    widths: tuple[float, ...] = (1.0,)
    asked: list[int] = field(default_factory=list)

    @property
    def domain(self) -> Domain:
        return self.schema.domain

    some_counts = Content.some_counts

    def select_as(self, select, confidence, manner):
        self.asked.append(len(select.columns))
        wide = [self.widths[place % len(self.widths)] for place in range(len(select.columns))]
        row = tuple(Estimate(0.0, 1.0, -width, width, confidence, 1.0) for width in wide)
        return Result(tuple(column.name for column in select.columns), (row,), confidence)


def schema_of(*sizes: int) -> Schema:
    attributes = {f"a{n}": {"type": "integer", "lower": 0, "upper": size - 1} for n, size in enumerate(sizes)}
    return Schema(dataset="t", privacy_unit="row", attributes=attributes)


@pytest.mark.parametrize(
    ("sizes", "laid_out", "questions"),
    [
        ((10, 10, 10), True, 1 + 3 * 3 + 3 * 3),
        ((100, 100, 10), True, 1 + 3 + 3),
        ((100, 100, 100, 10), True, 3),
        ((5,) * 100, False, 1 + 3 * 3 + 3 * 3),
        ((7,), True, 1 + 3),
    ],
)
def test_how_many_counts_are_asked_for(sizes, laid_out, questions):
    content = Counted(schema_of(*sizes), laid_out)
    found = typical_errors(content, 0.95)
    assert sum(content.asked) == questions and len(found) == min(len(sizes), 2) + 1


def test_the_middle_one_counts_and_what_has_no_end_is_unknown():
    some = typical_errors(Counted(schema_of(10, 10), True, (1.0, 5.0, 30.0)), 0.95)
    assert [error.half_width for error in some] == [1.0, median([1.0, 5.0, 30.0]), 5.0]
    assert [error.half_width for error in typical_errors(Counted(schema_of(9, 9), True, (inf,)), 0.95)] == [None] * 3
