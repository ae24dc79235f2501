"""Groups that are worked out together have the same answers as groups that are worked out one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.answers import fitted_noise
from sfumato.answers.fitted_noise import merged_terms
from sfumato.kernel.sampling.entropy import TestingEntropy

SCHEMA = {
    "dataset": "t",
    "privacy_unit": "row",
    "budget": {"epsilon": 10},
    "attributes": {
        "age": {"type": "integer", "lower": 0, "upper": 14},
        "zone": {"type": "category", "values": list("abcdefg")},
        "band": {"type": "number", "lower": 0, "upper": 10, "bins": 5},
    },
    "measures": {"pay": {"lower": 0, "upper": 100, "step": "0.01"}},
}
QUESTIONS = (
    "SELECT COUNT(*) FROM t",
    "SELECT age, zone, COUNT(*) FROM t GROUP BY age, zone",
    "SELECT zone, COUNT(*) FROM t WHERE band < 3.3 AND age > 2 GROUP BY zone",
    "SELECT zone, COUNT(*) FROM t WHERE age < 9 OR band > 6 GROUP BY zone",
    "SELECT age, COUNT(*) FROM t WHERE age BETWEEN 3 AND 8 GROUP BY age",
    "SELECT zone, SUM(band) FROM t WHERE age IN (2, 5, 7) GROUP BY zone",
    "SELECT zone, AVG(pay) FROM t GROUP BY zone",
    "SELECT zone, COUNT(*) FROM t WHERE age > 20 GROUP BY zone",  # no cell at all
)


@pytest.fixture(scope="module")
def table():
    stream = np.random.default_rng(3)
    zones = np.array(list("abcdefg"))[stream.integers(0, 7, 500)]
    numbers = {"age": stream.integers(0, 15, 500), "band": stream.uniform(0, 10, 500)}
    return pa.table({**numbers, "zone": zones, "pay": stream.uniform(0, 100, 500)})


@pytest.mark.full
@pytest.mark.parametrize("delta", [None, "1e-6"])
@pytest.mark.parametrize("mechanism", ["hierarchical", "matrix", "wavelet"])
def test_answers_are_those_of_one_group_at_a_time(mechanism, delta, table, tmp_path, monkeypatch):
    """Values and standard errors to nine digits; ends of intervals are found with less care than that."""
    made = sf.release(
        table,
        sf.Schema.from_dict(SCHEMA),
        1,
        mechanism=mechanism,
        delta=delta,
        ledger=tmp_path / "l.sqlite",
        entropy=TestingEntropy(5),
    )
    done: list[bool] = []

    def watched(*given):
        found = merged_terms(*given)
        done.extend(index in found for index in range(len(given[-1])))
        return found

    for sql in QUESTIONS:
        monkeypatch.setattr(fitted_noise, "merged_terms", watched)
        together = made.query(sql)
        monkeypatch.setattr(fitted_noise, "merged_terms", lambda *given: {})
        apart = made.query(sql)
        assert together.notes == apart.notes and len(together.rows) == len(apart.rows)
        for one, other in zip(_estimates(together), _estimates(apart), strict=True):
            assert one[:3] == pytest.approx(other[:3], rel=1e-9, abs=1e-9, nan_ok=True), sql
            assert one[3:] == pytest.approx(other[3:], abs=1e-4 * max(other[1], 1e-9), nan_ok=True), sql
    assert sum(done) > 0.9 * len(done) > 100


def _estimates(result):
    shown = [each for row in result.rows for each in row if hasattr(each, "stderr")]
    return [(each.value, each.stderr, each.noise, each.low, each.high) for each in shown]


def test_many_alike_groups_are_quick_and_equal(table, tmp_path):
    """All values of an attribute that is measured cell by cell have the same standard error, to the last digit."""
    made = sf.release(
        table,
        sf.Schema.from_dict(SCHEMA),
        1,
        mechanism="hierarchical",
        ledger=tmp_path / "l",
        entropy=TestingEntropy(5),
    )
    errors = {row[1].stderr for row in made.query("SELECT zone, COUNT(*) FROM t GROUP BY zone").rows}
    assert len(errors) == 1
