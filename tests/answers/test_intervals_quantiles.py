"""Guaranteed intervals of quantiles on tables made against each mechanism."""

from __future__ import annotations

import numpy as np
import pytest
from sure_coverage import TABLES, content_of, most_misses

from sfumato.answers import guaranteed_columns as quantiles
from sfumato.answers.question import Manner
from sfumato.errors import QueryError
from sfumato.sql import compile_statement

RELEASES = 12
SURE = Manner("guaranteed")
QUESTIONS = {
    "MEDIAN(y)": (slice(None), 0.5),
    "QUANTILE(x, 0.9) FILTER (WHERE y = 4)": ((slice(None), 4), 0.9),
    "MIN(x)": (slice(None), 0.0),
    "MAX(y) FILTER (WHERE x < 8)": (slice(0, 8), 1.0),
}
CASES = [
    ("sfumato", "spike"),
    ("dawa", "checkerboard"),
    ("kdtree", "small spikes"),
    ("margins", "small spikes"),
    ("sparse-cells", "spike"),
]


def truth(question: str, counts: np.ndarray) -> float:
    where, share = QUESTIONS[question]
    part = counts[where]
    along = part if part.ndim == 1 else part.sum(axis=1 if "(x" in question.split(" FILTER", maxsplit=1)[0] else 0)
    return float(np.quantile(np.repeat(np.arange(len(along)), along), share))


@pytest.mark.full
@pytest.mark.parametrize(("mechanism", "table"), CASES)
@pytest.mark.parametrize("most_tested", [quantiles.MOST_TESTED, 1])
def test_quantiles_hold_on_tables_made_against_them(mechanism, table, most_tested, monkeypatch):
    """12 releases of each of 5 cases, cell by cell and by halves, 4 questions; 1 in 1e6 runs of all fails by chance.

    Seven of 12 must miss for that.
    """
    monkeypatch.setattr(quantiles, "MOST_TESTED", most_tested)
    schema, counts, _ = TABLES[table]
    columns = ", ".join(f"{question} AS q{place}" for place, question in enumerate(QUESTIONS))
    plan = compile_statement(f"SELECT {columns} FROM t", schema)
    missed = np.zeros(len(QUESTIONS))
    for _ in range(RELEASES):
        (row,) = content_of(mechanism, table).select_as(plan, 0.95, SURE).rows
        ends = [(one.low, truth(question, counts()), one.high) for one, question in zip(row, QUESTIONS, strict=True)]
        missed += [not low <= true <= high for low, true, high in ends]
    assert missed.max() <= most_misses(RELEASES, 1e-6 / 40), missed


def test_much_budget_tells_a_quantile_to_the_cell_by_either_search(monkeypatch):
    """With epsilon 100 hardly any noise is left: 500 rows at y = 4, and nothing around them."""
    schema, _, _ = TABLES["spike"]
    plan = compile_statement("SELECT MEDIAN(y) AS m, 2 * MAX(y) AS g FROM t WHERE x > 3", schema)
    content = content_of("sfumato", "spike", 100)
    found = []
    for most_tested in (quantiles.MOST_TESTED, 1):
        monkeypatch.setattr(quantiles, "MOST_TESTED", most_tested)
        ((median, greatest),) = content.select_as(plan, 0.95, SURE).rows
        found.append((median.low, median.high))
        assert greatest.low == 8.0 <= greatest.high
    assert found == [(4.0, 4.0)] * 2


def test_each_group_has_its_own_and_all_rows_have_one():
    schema, _, _ = TABLES["checkerboard"]
    content = content_of("dawa", "checkerboard", 20)
    plan = compile_statement("SELECT x, MEDIAN(y) AS m FROM t GROUP BY x", schema)
    rows = content.select_as(plan, 0.95, SURE).rows
    assert len(rows) == 12 and all(0.0 <= one.low <= one.value <= one.high <= 11.0 for _, one in rows)
    assert rows[0][1].high < 11.0


def test_variances_are_refused_in_a_line():
    schema, _, _ = TABLES["spike"]
    with pytest.raises(QueryError, match="no guaranteed interval"):
        content_of("sfumato", "spike").select_as(compile_statement("SELECT STDDEV(x) FROM t", schema), 0.95, SURE)
