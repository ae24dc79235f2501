"""Workloads from SQL, against masks worked out cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.queries import Kron, Workload, trusted
from sfumato.schema import Schema
from sfumato.sql import compile_select
from sfumato.sql.workload import workload_of

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "x": {"type": "integer", "lower": 0, "upper": 5},
            "g": {"type": "category", "values": ["a", "b", "c"]},
            "v": {"type": "number", "lower": 0, "upper": 10, "bins": 5},
        },
        "measures": {"m": {"lower": 0, "upper": 100}},
    }
)
X, G, V = np.meshgrid(np.arange(6), np.arange(3), np.arange(5), indexing="ij")
ALL = np.ones_like(X, dtype=bool)


def made(*texts: str, schema: Schema = SCHEMA) -> Workload:
    return workload_of([(text, compile_select(text, schema)) for text in texts], schema)


def rows(*masks: np.ndarray) -> np.ndarray:
    return np.array([mask.reshape(-1) for mask in masks], dtype=np.int64)


CASES = {
    "SELECT COUNT(*) FROM t": rows(ALL),
    "SELECT COUNT(*) FROM t WHERE x BETWEEN 2 AND 4": rows((X >= 2) & (X <= 4)),
    "SELECT COUNT(*) FROM t WHERE x IN (0, 2, 5) AND g = 'b'": rows(np.isin(X, [0, 2, 5]) & (G == 1)),
    "SELECT g, COUNT(*) FROM t GROUP BY g": rows(*(g == G for g in range(3))),
    "SELECT x, COUNT(*) FROM t WHERE x > 2 AND g <> 'a' GROUP BY x": rows(*((x == X) & (G > 0) for x in (3, 4, 5))),
    "SELECT v, g, COUNT(*) FROM t WHERE x = 1 GROUP BY v, g": rows(
        *((X == 1) & (g == G) & (v == V) for g in range(3) for v in range(5))
    ),
    "SELECT COUNT(*) FROM t WHERE g = 'a' OR x > 4": rows((G == 0) | (X > 4)),
    "SELECT x, COUNT(*) FROM t WHERE g = 'a' OR x > 4 GROUP BY x": rows(
        *(((G == 0) | (X > 4)) & (x == X) for x in range(6))
    ),
    "SELECT COUNT(*) FROM t WHERE (x = 1 AND v < 2) OR (x = 2 AND v >= 8)": rows(
        ((X == 1) & (V == 0)) | ((X == 2) & (V == 4))
    ),
    "SELECT x, g, COUNT(*) FROM t WHERE x = 0 AND g = 'a' OR x = 3 AND g = 'c' GROUP BY x, g": rows(
        (X == 0) & (G == 0), (X == 3) & (G == 2)
    ),
    "SELECT SUM(m) FROM t WHERE g = 'c'": rows(G == 2),
    "SELECT AVG(m), COUNT(*) FROM t WHERE g = 'c'": rows(G == 2),
    "SELECT COUNT(*) FILTER (WHERE x < 2) / COUNT(*) FROM t WHERE g = 'a'": rows((X < 2) & (G == 0), G == 0),
    "SELECT g, COUNT(*) / SUM(COUNT(*)) OVER () FROM t GROUP BY g": rows(*(g == G for g in range(3)), ALL),
    "SELECT g, COUNT(*) FROM t GROUP BY g ORDER BY SUM(x) FILTER (WHERE x = 1)": rows(
        *(g == G for g in range(3)), *((g == G) & (X == 1) for g in range(3))
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_statements_count_the_cells_of_their_regions_by_group(text):
    workload = made(text)
    assert workload.names == (text,)
    found, expected = workload.queries.dense(), CASES[text]
    assert sorted(map(tuple, found)) == sorted(map(tuple, expected))
    assert trusted(workload.queries) and workload.queries.integral


@pytest.mark.parametrize(
    ("condition", "bins"), [("v < 3", 2), ("v < 2.99", 1), ("v < 3.5", 2), ("v <= 0.5 OR v >= 9.5 OR v < 1.2", 1)]
)
def test_a_cut_bin_counts_where_half_of_it_lies_inside(condition, bins):
    assert np.array_equal(made(f"SELECT COUNT(*) FROM t WHERE {condition}").queries.dense(), rows(bins > V))


def test_halves_of_a_bin_in_two_alternatives_make_one_count():
    found = made("SELECT COUNT(*) FROM t WHERE (v < 1 AND g = 'a') OR (v BETWEEN 1 AND 2 AND g <> 'c')").queries.dense()
    assert np.array_equal(found, rows((V == 0) & (G < 2)))


def test_statements_without_a_cell_are_left_out_and_an_empty_workload_is_refused():
    empty, full = "SELECT COUNT(*) FROM t WHERE x > 50", "SELECT COUNT(*) FROM t WHERE x > 3"
    assert made(empty, full).names == (full,)
    for nothing in ((), (empty,), ("SELECT COUNT(*) FROM t WHERE x = 1 AND x = 2",)):
        with pytest.raises(QueryError, match="the workload is empty"):
            made(*nothing)


def test_an_unknown_column_is_named():
    with pytest.raises(QueryError, match="salary"):
        made("SELECT COUNT(*) FROM t WHERE salary > 3")


LARGE = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            name: {"type": "integer", "lower": 0, "upper": size - 1}
            for name, size in (("a", 1000), ("b", 5000), ("c", 2000), ("d", 3))
        },
    }
)


def test_boxes_over_huge_domains_are_never_laid_out():
    workload = made("SELECT a, COUNT(*) FROM t WHERE b < 7 AND c IN (1, 5, 9) GROUP BY a", schema=LARGE)
    (block,) = workload.blocks
    assert isinstance(block, Kron) and block.shape == (1000, 3 * 10**10) and block.l1 == 1


def test_alternatives_are_laid_out_over_the_axes_they_name_only():
    (block,) = made("SELECT COUNT(*) FROM t WHERE c < 100 OR d = 1", schema=LARGE).blocks
    assert [factor.columns for factor in block.factors] == [5_000_000, 6000]
    assert block.factors[1] @ np.ones(6000, dtype=np.int64) == 100 * 3 + 1900
    with pytest.raises(QueryError, match="one statement for each alternative"):
        made("SELECT COUNT(*) FROM t WHERE a < 100 OR d = 1", schema=LARGE)


def test_too_many_counts_are_refused():
    with pytest.raises(QueryError, match="5,000,000 counts"):
        made("SELECT a, b, COUNT(*) FROM t GROUP BY a, b", schema=LARGE)
