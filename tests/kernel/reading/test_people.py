"""One row a person out of many: what an engine makes of a rule, value by value."""

import datetime as dt
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import TableError
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema

WHOLE = {"type": "integer", "lower": 0, "upper": 99}


def read(path_or_table, sql, **attributes):
    """Cells of the derived rows: for each, its values along the attributes."""
    parts = {name: part for name, part in attributes.items() if not name.startswith("_")}
    schema = Schema.from_dict({
        "dataset": "t", "privacy_unit": {"column": "who"}, "per_person": sql, "attributes": parts,
        **attributes.get("_more", {}),
    })  # fmt: skip
    with open_table(path_or_table, name=attributes.get("_table"), schema=schema) as table:
        table.check(schema)
        found = table.aggregate(schema, 1)
    labels = [axis.labels() for axis in schema.domain.axes]
    rows = []
    for cell, count in zip(found.cells.tolist(), found.counts.tolist(), strict=True):
        places = np.unravel_index(cell, schema.domain.shape)
        rows += [tuple(one[place] for one, place in zip(labels, places, strict=True))] * count
    return sorted(rows, key=str), found


@pytest.fixture
def visits(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text(
        "who,age,ward,day,charge,urgent\n"
        "Jürgen,30,Chirurgie,2024-01-05,100.10,true\n"
        "Jürgen,31,Innere,2024-03-05,50.20,false\n"
        "Ann,70,Innere,2024-02-01,,false\n"
        "Ann,69,Chirurgie,2023-02-01,10,false\n"
        "Ann,x,Chirurgie,2024-02-01,20,\n"
        ",55,Innere,2024-01-01,5,true\n"
        "Öz,20,,2024-06-01,7,maybe\n",
        encoding="utf-8",
    )
    return path


def test_rows_of_a_person_become_one_and_rows_of_nobody_none(visits):
    sql = "SELECT who, COUNT(*) AS n, COUNT(charge) AS paid, COUNT(DISTINCT ward) AS wards FROM visits GROUP BY who"
    rows, _ = read(visits, sql, n=WHOLE, paid=WHOLE, wards=WHOLE)
    assert rows == [(1, 1, 0), (2, 2, 2), (3, 2, 2)]


def test_a_persons_row_has_the_weight_that_its_rows_amount_to(visits):
    """Ann's 30 is clipped to 20, Öz has 7; what the rule makes for the weight alone is worked out too."""
    sql = "SELECT who, COUNT(*) AS n, SUM(charge) AS w FROM visits GROUP BY who"
    weight = {"weight": {"column": "w", "upper": 20, "step": 1, "unweighted_share": 0}}
    _, found = read(visits, sql, n=WHOLE, _more=weight)
    assert (found.cells.tolist(), found.counts.tolist()) == ([1, 2, 3], [7, 20, 20])


def test_least_greatest_sum_and_mean_skip_what_cannot_be_read(visits):
    sql = (
        "SELECT who, MIN(age) AS young, MAX(age) AS old, SUM(charge) AS charge, AVG(age) AS mean "
        "FROM visits GROUP BY who"
    )
    half = {"type": "number", "lower": 0, "upper": 200, "width": "0.5"}
    rows, _ = read(visits, sql, young=WHOLE, old=WHOLE, charge=half, mean=half)
    assert [(young, old) for young, old, _, _ in rows] == [(20, 20), (30, 31), (69, 70)]
    assert [row[2:] for row in rows] == [
        ("[7, 7.5)", "[20, 20.5)"),
        ("[150, 150.5)", "[30.5, 31)"),
        ("[30, 30.5)", "[69.5, 70)"),
    ]


WARD = {"type": "category", "values": ["Chirurgie", "Innere"], "missing": "keep"}


def test_first_and_last_go_by_the_order_and_then_by_the_value(visits):
    sql = (
        "SELECT who, FIRST(ward ORDER BY day) AS first, LAST(ward ORDER BY day) AS last, "
        "FIRST(age ORDER BY day DESC) AS age FROM visits GROUP BY who"
    )
    rows, _ = read(visits, sql, first=WARD, last=WARD, age={**WHOLE, "missing": "keep"})
    assert rows == [("Chirurgie", "Innere", 31), ("Chirurgie", "Innere", 70), (None, None, 20)]


def test_any_and_all_are_missing_where_nothing_can_be_read(visits):
    flag = {"type": "boolean", "missing": "keep"}
    sql = "SELECT who, BOOL_OR(urgent) AS some, EVERY(urgent) AS each, MAX(day) AS day FROM visits GROUP BY who"
    rows, _ = read(visits, sql, some=flag, each=flag)
    assert rows == [(False, False), (None, None), (True, False)]


def test_sums_are_the_same_in_every_order_of_rows_and_cannot_overflow():
    values = [1e300, -1e300, 0.1, 0.2, 0.3, float("nan"), float("inf"), 1e-200, None]
    sql = "SELECT who, SUM(x) AS x FROM t GROUP BY who"
    fine = {"type": "number", "lower": 0, "upper": 10**13, "cuts": ["0.5999999", "0.6000001", 10**12]}
    for turn in range(len(values)):
        column = pa.array([*values[turn:], *values[:turn], -1e300], pa.float64())
        rows, _ = read(pa.table({"who": ["a"] * len(column), "x": column}), sql, x=fine)
        assert rows == [("[0.5999999, 0.6000001)",)]


def test_a_person_without_a_value_has_no_sum_and_no_mean(visits):
    sql = "SELECT who, SUM(ward) AS sum, AVG(ward) AS mean, MAX(ward) AS most FROM visits GROUP BY who"
    kept = {**WHOLE, "missing": "keep"}
    rows, found = read(visits, sql, sum=kept, mean=kept, most=kept)
    assert rows == [(None, None, None)] * 3 and found.counts.sum() == 3


def test_another_engine_is_told_what_to_do():
    from sfumato.kernel.reading.people import per_person
    from sfumato.schema.per_person import person_rule

    class Other:
        dialect = "mysql"

    rule = person_rule("SELECT who, COUNT(*) AS n FROM t GROUP BY who")
    with pytest.raises(TableError, match="make a table with one row a person"):
        per_person(Other(), rule, {}, None)


ALIKE = {
    **{"n": WHOLE, "paid": {**WHOLE, "missing": "keep"}, "mean": {**WHOLE, "missing": "keep"}},
    "ward": {"type": "category", "values": ["A", "a", "ä", "b"], "missing": "keep"},
    "last": {"type": "category", "values": ["A", "a", "ä", "b"], "missing": "keep"},
    "urgent": {"type": "boolean", "missing": "keep"},
    "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31", "by": "month", "missing": "keep"},
    "span": {"type": "integer", "lower": 0, "upper": 400, "cuts": [1, 31, 100], "missing": "keep"},
}
EVERYTHING = (
    "SELECT who, COUNT(*) FILTER (WHERE x > 0) AS n, SUM(x) AS paid, AVG(x) AS mean, MIN(ward) AS ward, "
    "LAST(ward ORDER BY day) AS last, BOOL_AND(urgent) AS urgent, MAX(day) AS day, "
    "DATE_DIFF('day', MIN(day), MAX(day)) AS span FROM t WHERE x IS NULL OR x < 1e9 GROUP BY who"
)
ROWS = {
    "who": ["p", "p", "P", "P", "q", "q", "q", None, "é", "r"],
    "x": [1.5, None, 2.25, -3.0, 0.1, 0.2, 1e12, 5.0, None, 7.0],
    "ward": ["b", "A", "a", "ä", "", None, "b", "a", "A", "B"],
    "urgent": [True, None, False, True, True, True, False, True, None, None],
    "day": [*(dt.date(2024, month, 3) for month in (1, 2, 3, 3, 5, 6, 7, 8, 9)), None],
}


def cells(table, **how):
    found = read(table, EVERYTHING, **ALIKE, **how)[1]
    return found.cells.tolist(), found.counts.tolist()


def test_values_of_every_kind_in_a_typed_source():
    # Of r the ward is not listed, so that its row falls out.
    rows, _ = read(pa.table(ROWS), EVERYTHING, **ALIKE)
    assert sorted(rows, key=str) == sorted(
        [
            (1, 1, 1, "A", "A", True, "2024-02", "31 to 99"),
            (1, 0, 0, "a", "ä", False, "2024-03", 0),
            (2, 0, 0, None, None, True, "2024-06", "31 to 99"),
            (0, None, None, "A", "A", None, "2024-09", 0),
        ],
        key=str,
    )


def test_sqlite_and_csv_make_the_same(tmp_path):
    import csv
    import sqlite3

    wanted, names = cells(pa.table(ROWS)), [*ROWS]
    lines = list(zip(*ROWS.values(), strict=True))
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as file, file:
        file.execute(f"CREATE TABLE t ({', '.join(names)})")
        texts = [[one.isoformat() if isinstance(one, dt.date) else one for one in line] for line in lines]
        file.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", texts)
    assert cells(f"sqlite:///{tmp_path / 't.sqlite'}", _table="t") == wanted
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([names, *lines])
    assert cells(tmp_path / "t.csv") == wanted


def test_postgresql_makes_the_same():
    from postgres import own_schema

    with own_schema() as (connection, url, schema):
        connection.execute("CREATE TABLE t (who text, x double precision, ward text, urgent boolean, day date)")
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO t VALUES (%s, %s, %s, %s, %s)", list(zip(*ROWS.values(), strict=True)))
        assert cells(url, _table=f"{schema}.t") == cells(pa.table(ROWS))


def test_spark_makes_the_same(tmp_path):
    pytest.importorskip("pyspark")
    import pyarrow.parquet as pq

    from sfumato.lab.audit.reading.server_sources import small_session

    pq.write_table(pa.table(ROWS), tmp_path / "t.parquet")
    assert cells(small_session(), _table=str(tmp_path / "t.parquet")) == cells(pa.table(ROWS))
