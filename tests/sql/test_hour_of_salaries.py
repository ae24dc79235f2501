"""An hour of a newcomer on a table of salaries: bins, orders of keys and shares, where noise is next to none."""

from __future__ import annotations

import sys
from datetime import date

import pytest

import sfumato as sf
from sfumato.answers.results import Estimate, Result
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql import compile_statement

SALARIES = [12_500.0, 24_999.0, 25_000.0, 25_001.0, 49_999.5, 50_000.0, 74_000.0, 99_999.0]
DEPARTMENTS = ["sales", "R&D", "it"]  # as the schema lists them, not by the alphabet
SCHEMA = {
    "dataset": "staff",
    "privacy_unit": "row",
    "budget": {"epsilon": 10**6},
    "attributes": {
        "dept": {"type": "category", "values": DEPARTMENTS},
        "pay": {"type": "number", "lower": 0, "upper": 100_000, "width": 5000},
        "hired": {"type": "date", "lower": "2024-01-30", "upper": "2024-02-01", "by": "day"},
    },
}


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("staff")
    rows = [f'"{DEPARTMENTS[n % 3]}",{pay},2024-01-3{n % 2}' for n, pay in enumerate(SALARIES)]
    (folder / "t.csv").write_text("\n".join(["dept,pay,hired", *rows]) + "\n")
    return sf.release(folder / "t.csv", SCHEMA, 10**6, mechanism="cells", ledger=folder / "ledger.sqlite")


@pytest.mark.parametrize("width", ["pay / 25000", "pay * 0.00004", "(pay - 50) / 25000 + 0.002", "0.2 * pay / 5000"])
def test_expressions_that_change_at_the_edge_of_a_bin_cut_none(width, release):
    got = release.query(f"SELECT COUNT(*) AS n FROM staff WHERE FLOOR({width}) = 1", interval="guaranteed")
    assert not any("cuts" in note for note in got.notes)
    (row,) = got.records()
    assert row["n_low"] == row["n_high"] == row["n"] == 3


def test_an_edge_beside_a_bin_still_cuts_it(release):
    got = release.query("SELECT COUNT(*) AS n FROM staff WHERE FLOOR((pay - 1) / 25000) = 1")
    assert any("cuts the bins [25000, 30000), [50000, 55000)" in note for note in got.notes)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT dept, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY dept) AS s FROM staff GROUP BY dept ORDER BY 1",
        "SELECT dept, COUNT(*) AS n FROM staff GROUP BY 1 UNION ALL SELECT dept, 0 FROM staff GROUP BY 1 ORDER BY 1",
        "SELECT dept, SUM(COUNT(*)) OVER (PARTITION BY dept) AS s, RANK() OVER (ORDER BY dept) AS r FROM staff "
        "GROUP BY dept ORDER BY r",
    ],
)
def test_keys_sort_as_the_schema_lists_them_whatever_stands_beside_them(sql, release):
    assert list(dict.fromkeys(row["dept"] for row in release.query(sql).records())) == DEPARTMENTS


def test_bins_sort_by_their_edges_and_days_are_days_under_a_total_by_them(release):
    got = release.query("SELECT pay, SUM(COUNT(*)) OVER (PARTITION BY pay) AS n FROM staff GROUP BY pay ORDER BY pay")
    assert [row["pay"] for row in got.records()][:3] == ["[0, 5000)", "[5000, 10000)", "[10000, 15000)"]
    sql = "SELECT hired, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY hired) AS s FROM staff GROUP BY hired, dept"
    assert release.query(sql).to_arrow()["hired"][0].as_py() == date(2024, 1, 30)


@pytest.mark.parametrize(
    ("value", "printed"), [(0.2397, "0.239700"), (0.0, "0"), (3.0, "3"), (1250.5, "1,250.50"), (-2 / 3, "-0.666667")]
)
def test_a_number_without_an_error_is_printed_in_six_digits(value, printed):
    result = Result(("s",), ((Estimate(value, 0.0, value, value, 0.95, 0.0),),), 0.95)
    assert result.texts()[1][0][0] == printed


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT (SELECT (SELECT (SELECT COUNT(*) FROM staff))) AS n", 8),
        ("SELECT 1 + (SELECT 2 * (SELECT (SELECT COUNT(*) FROM staff WHERE dept = 'it'))) AS n", 5),
        ("SELECT (SELECT (SELECT (SELECT 1))) AS n", 1),
    ],
)
def test_subqueries_without_from_nest_as_deep_as_one_likes(sql, value, release):
    assert [row["n"] for row in release.query(sql).records()] == [value]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM staff WHERE " + "(" * 99 + "dept = 'it'" + ")" * 99,
        "SELECT COUNT(*) AS n FROM staff WHERE " + "CASE WHEN dept = 'it' THEN TRUE ELSE " * 90 + "FALSE" + " END" * 90,
        "SELECT COUNT(*) AS n FROM staff WHERE " + "NOT " * 190 + "dept = 'it'",
        "SELECT " + "ABS(" * 98 + "COUNT(*) FILTER (WHERE dept = 'it')" + ")" * 98 + " AS n FROM staff",
    ],
    ids=["parentheses", "CASE", "NOT", "ABS"],
)
def test_nesting_up_to_the_limits_is_answered_however_deep_the_caller_stands(sql, release):
    def called(depth):
        return release.query(sql) if depth == 0 else called(depth - 1)

    before = sys.getrecursionlimit()
    assert [row["n"] for row in called(200).records()] == [2]
    assert sys.getrecursionlimit() == before


def test_more_days_than_an_expression_may_tell_apart_are_asked_for_by_their_name():
    days = {"type": "date", "lower": "2005-01-01", "upper": "2024-12-31", "by": "day"}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"day": days}})
    with pytest.raises(QueryError, match="more than 5,000 kinds of rows; write day itself, or round it more"):
        compile_statement("SELECT CAST(day AS DATE) AS d, COUNT(*) FROM t GROUP BY d", schema)
    compile_statement("SELECT day AS d, COUNT(*) FROM t GROUP BY d", schema)


def test_columns_that_are_keywords_of_the_parser_alone_need_no_quotes():
    """Alter is German for age."""
    attributes = {name: {"type": "integer", "lower": 0, "upper": 9} for name in ("Alter", "lock", "when")}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})
    bare = "SELECT {0}, COUNT(*) AS n FROM t WHERE {1} > 3 AND 'alter' <> 'lock' GROUP BY {0}"
    for words in (("Alter", "lock"), ("ALTER", "alter"), ("lock", "Alter")):
        quoted = [f'"{word}"' for word in words]
        assert (
            compile_statement(bare.format(*words), schema).where
            == compile_statement(bare.format(*quoted), schema).where
        )
    with pytest.raises(QueryError, match='if the column is meant, write "when" in double quotes'):
        compile_statement(bare.format("when", "when"), schema)
