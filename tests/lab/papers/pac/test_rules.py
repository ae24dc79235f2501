"""Rules hold in the cells that their own text names, and there are as many as was counted beforehand."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.lab.papers.pac.content import (
    condition_of,
    conjunctions,
    given,
    holds_in_cells,
    how_many,
    literals_of,
    written_rules,
)
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 9, "bins": 5},
            "x": {"type": "number", "lower": 0, "upper": 1, "bins": 4, "missing": "keep"},
            "order": {"type": "category", "values": ["a'b", "b", "c"], "missing": "keep"},
            "ill": {"type": "boolean"},
            "month": {"type": "date", "lower": "2020-01-01", "upper": "2020-03-31", "by": "month"},
            "hour": {"type": "date", "lower": "2020-01-01", "upper": "2020-01-02", "by": "hour"},
        },
    }
)


@pytest.mark.parametrize("name", SCHEMA.domain.names)
def test_every_literal_says_in_sql_what_it_means(name):
    found = literals_of(SCHEMA.domain[name])
    assert found
    for _, text, mask in found:
        assert np.array_equal(holds_in_cells(condition_of(text, SCHEMA), SCHEMA.domain.along([name])), mask), text


@pytest.mark.parametrize("literals", [1, 2, 3])
def test_conjunctions_are_counted_before_they_are_laid_out(literals):
    domain, names = SCHEMA.domain.along(["age", "order", "ill"]), ("age", "order", "ill")
    found = conjunctions(domain, names, literals)
    assert len(found.texts) == len(set(found.texts)) == len(found.holds) == how_many(domain, names, literals)
    for place in range(0, len(found.texts), 7):
        told = holds_in_cells(condition_of(found.texts[place], SCHEMA), domain)
        assert np.array_equal(told, found.holds[place])


def test_rules_of_ones_own():
    text = "-- of the young\nage < 4;ill = true\n\nage < 4\n"
    assert written_rules(text) == ("age < 4", "ill = true")
    domain = SCHEMA.domain.along(["age", "ill"])
    assert given(("age < 4",), SCHEMA, domain, "ill").holds.tolist() == [[True] * 4 + [False] * 6]
    with pytest.raises(QueryError, match="looks at ill, which is the label"):
        given(("ill = true",), SCHEMA, domain, "ill")
