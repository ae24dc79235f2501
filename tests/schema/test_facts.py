"""`facts`: their forms, and each mistake where it stands."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import SchemaError
from sfumato.schema import Schema

ATTRIBUTES = {
    "age": {"type": "integer", "lower": 0, "upper": 9, "width": 5},
    "sex": {"type": "category", "values": ["F", "M"], "missing": "keep"},
    "ill": {"type": "boolean"},
}


def stated(*facts: object, **further: object) -> Schema:
    return Schema(dataset="t", privacy_unit="row", attributes=ATTRIBUTES, facts=[*facts], **further)


def line(by: str, counts: object, source: object = "census") -> dict[str, object]:
    return {"by": by, "counts": counts, "source": source}


ALL = {"count": 7, "source": "census"}


def test_counts_stand_in_the_order_of_their_axis():
    schema = stated(ALL, line("sex", {"M": 4, "F": 2, None: 1}), line("ill", {True: 3, False: 4}))
    places, counts = zip(*((fact.places, fact.counts.tolist()) for fact in schema.known), strict=True)
    assert places == ((), (1,), (2,)) and counts == ([7.0], [2.0, 4.0, 1.0], [4.0, 3.0])
    assert Schema.from_dict(schema.to_dict()) == schema
    assert stated(line("age", {"0..4": 5, "5..9": 2})).known[0].counts.tolist() == [5.0, 2.0]


def test_tables_of_several_attributes_stand_in_the_order_of_their_axes():
    by_both = {True: {"F": 1, "M": 2, None: 0}, False: {None: 1, "M": 0, "F": 3}}
    schema = stated(
        ALL, {"by": ["ill", "sex"], "counts": by_both, "source": "x"}, line("sex", {"F": 4, "M": 2, None: 1})
    )
    table = schema.known[1]
    assert table.places == (1, 2)
    assert table.counts.tolist() == [3.0, 1.0, 0.0, 2.0, 1.0, 0.0]  # by sex (F, M, NULL), then ill (false, true)
    assert table.words(schema.domain) == "rows by sex and ill (x)"
    assert table.summed((1,), schema.domain).tolist() == schema.known[2].counts.tolist()
    assert Schema.from_dict(schema.to_dict()) == schema


def both(*rows: int, by: object = ("sex", "ill")) -> dict[str, object]:
    numbers = iter(rows)
    counts = {sex: {ill: next(numbers) for ill in ("true", "false")} for sex in ("F", "M", "NULL")}
    return {"by": list(by) if isinstance(by, tuple) else by, "counts": counts, "source": "x"}


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ([], "must list 1 to 32 public counts"),
        ([5], "no public count"),
        ([{"count": 7}], "no public count"),
        ([{"count": 7, "source": " "}], "where each count is published"),
        ([{"count": -1, "source": "x"}], "whole number of rows"),
        ([{"count": True, "source": "x"}], "whole number of rows"),
        ([{"count": 2**60, "source": "x"}], "whole number of rows"),
        ([line("age", {})], "a number for each value"),
        ([line("agee", {"0..4": 1})], "no attribute"),
        ([line("age", {"0..4": 1})], "leaves out"),
        ([line("age", {"0..9": 1})], "not one value"),
        ([line("age", {"0..4": 1, "0": 1, "5..9": 1})], "parts the cell"),
        ([line("sex", {"F": 1, "M": 2})], "leaves out 'NULL'"),
        ([line("sex", {"F": 1, "M": 2, "X": 3})], "not listed"),
        ([ALL, ALL], "counts what another line counts"),
        ([ALL, line("ill", {"true": 3, "false": 5})], "add up to 7 rows and to 8"),
        ([both(1, 1, 1, 1, 1, 1, by=("sex",))], "list of 2 to 4 different ones"),
        ([both(1, 1, 1, 1, 1, 1, by=("sex", "sex"))], "list of 2 to 4 different ones"),
        ([both(1, 1, 1, 1, 1, 1, by=("sex", 3))], "named as they are"),
        ([both(1, 1, 1, 1, 1, 1, by=("sex", "il"))], "'il', which is no attribute"),
        ([{"by": ["sex", "ill"], "counts": {"F": 1, "M": 2}, "source": "x"}], "within those of the ones before"),
        ([{"by": ["sex", "ill"], "counts": {"F": 1, "M": 2}, "source": "x"}], r"write {by: \[sex, ill\]"),
        ([{"by": ["sex", "ill"], "counts": {"F": 1, "M": 2}}], r"no public count; write {by: \[sex, ill\]"),
        ([{"by": ["sex", "ill"], "counts": {"F": {"true": 1}}, "source": "x"}], "F leaves out false"),
        ([both(1, 1, 1, 1, 1, 1), both(2, 0, 1, 1, 1, 1)], "counts what another line counts"),
        ([both(1, 1, 1, 1, 1, 1), line("ill", {"true": 4, "false": 2})], "count differently by ill"),
    ],
)
def test_mistakes_are_named_in_a_line(facts, words):
    with pytest.raises(SchemaError, match=words) as caught:
        stated(*facts)
    assert "\n" not in str(caught.value)


def test_facts_do_not_go_with_a_series_or_rules():
    with pytest.raises(SchemaError, match="facts do not go with series"):
        stated(ALL, series={"period": "month", "unit": "person in a month"})
    with pytest.raises(SchemaError, match="facts do not go with impossible"):
        stated(ALL, impossible=[{"age": "0..4", "ill": True}])


def test_a_contradiction_is_beyond_the_tails_of_laplace_noise():
    fact = stated(line("ill", {"true": 300, "false": 400})).known[0]
    off = np.array([0.0, 10.5])  # deviations; exp(-sqrt(2) t) = 1e-6 / 2 at t = 10.26
    assert fact.contradicts(fact.counts + 10.0 * off, np.full(2, 100.0))
    assert not fact.contradicts(fact.counts + 9.5 * off, np.full(2, 100.0))
