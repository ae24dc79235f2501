"""Two releases side by side: no difference is called real too often, and a real one is found."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of
from scipy.stats import binom

import sfumato as sf
from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy, TestingEntropy
from sfumato.models import find_mechanism
from sfumato.public.comparison import compare
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release

SCHEMA = {
    "dataset": "survey",
    "privacy_unit": "row",
    "attributes": {
        "sex": {"type": "category", "values": ["F", "M"]},
        "age": {"type": "integer", "lower": 0, "upper": 4},
    },
}
TABLE = np.array([[40, 60, 80, 30, 5], [50, 0, 70, 20, 9]])
PAIRS, CONFIDENCE = 40, 0.8


def made(counts, epsilon: str = "1", schema=SCHEMA, mechanism: str = "cells", entropy=None) -> Release:
    """A release of a table, with real noise unless a seed is given, and without a file or a ledger."""
    public = sf.Schema.from_dict(schema)
    budget = Budget.pure(epsilon)
    curator = curator_of(public, counts, epsilon=Fraction(epsilon), entropy=entropy or SystemEntropy())
    content = find_mechanism(mechanism).run(curator, public, budget, None)
    return Release(content, mechanism, describe_guarantee(budget, public), private=True)


def test_where_nothing_differs_something_is_called_real_no_more_often_than_was_agreed():
    """40 pairs of releases of one table, at two epsilons, 15 intervals each that hold together with 80 %.

    More than half of the pairs with a false alarm fail it, the 1e-6 quantile of the binomial distribution; without
    allowing for many, about three quarters have one. `benchmarks/compare.py` has more pairs and mechanisms.
    """
    wrong = 0
    for _ in range(PAIRS):
        found = compare(made(TABLE), made(TABLE, "2"), confidence=CONFIDENCE)
        assert found.together == 15 and found.apart
        wrong += bool(found.real)
    most = int(binom.isf(1e-6, PAIRS, 1 - CONFIDENCE))
    assert wrong <= most, (wrong, most)
    assert found.rows[0].difference.before.confidence == pytest.approx(1 - (1 - CONFIDENCE) / 15)


def test_what_really_differs_is_found_and_stands_first():
    """Two releases with the seeds fixed, so that it never fails by chance."""
    more = TABLE + np.array([[0, 0, 0, 0, 0], [0, 200, 0, 0, 0]])
    found = compare(*(made(one, "5", entropy=TestingEntropy(seed)) for seed, one in enumerate((TABLE, more))))
    assert {row.where for row in found.real} >= {"all rows", "sex = M", "age = 1"}
    first = found.rows[0]
    assert first.where in ("age = 1", "sex = M") and first.difference.value > 0
    clear = [row.difference.clearness for row in found.rows]
    assert clear == sorted(clear, reverse=True) and all(one > 1 for one in clear[: len(found.real)])
    assert f"{len(found.real)} of 15 differences are larger than noise explains" in found.statement


def test_one_table_of_several_attributes_and_guaranteed_ends():
    first, second = made(TABLE), made(TABLE)
    found = compare(first, second, by=["age", "sex"], interval="guaranteed")
    assert found.together == 21 and not found.apart
    assert {row.names for row in found.rows} == {(), ("age", "sex")}
    sure = compare(first, second, by=["age", "sex"], interval="guaranteed", confidence=1 - 1e-6)
    assert not sure.real and all(row.difference.low <= 0 <= row.difference.high for row in sure.rows)


def test_the_same_draw_is_known_again_and_nothing_in_it_is_real():
    receipt = {"ledger": "0" * 32, "entry": 1, "nonce": "f" * 32}
    once = replace(made(TABLE), receipt=receipt)
    again = replace(once, options={"packed": "again"})
    found = compare(once, again)
    assert not found.apart and not found.real and "the same release" in found.notes[0]


def test_what_cannot_be_aligned_is_refused_or_told():
    other = {**SCHEMA, "attributes": {"height": {"type": "integer", "lower": 0, "upper": 9}}}
    with pytest.raises(QueryError, match="share no attribute"):
        compare(made(TABLE), made(np.full(10, 9), schema=other))
    with pytest.raises(QueryError, match="not in both"):
        compare(made(TABLE), made(TABLE), by=["height"])
    with pytest.raises(QueryError, match="named twice"):
        compare(made(TABLE), made(TABLE), by=["sex", "sex"])
    wider = {
        "sex": {"type": "category", "values": ["M", "F", "X"]},
        "age": {"type": "integer", "lower": 0, "upper": 9, "bins": 2},
    }
    third = made(np.full((3, 2), 30), schema={**SCHEMA, "attributes": wider})
    with pytest.raises(QueryError, match="different ways"):
        compare(made(TABLE), third, by=["age"])
    found = compare(made(TABLE), third)
    assert {row.where for row in found.rows} == {"all rows", "sex = F", "sex = M"}
    assert any("age is cut in different ways" in note for note in found.notes)
    assert any("1 that only the second has" in note for note in found.notes)
    assert any("different rules" in note for note in found.notes)
