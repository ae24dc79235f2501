"""Rows that a public rule derives, read by the one statement."""

import pyarrow as pa
from sqlglot import exp

from sfumato.kernel.reading.engines import Column, Derived
from sfumato.kernel.reading.expressions import column, named
from sfumato.kernel.reading.table import Table, open_table
from sfumato.schema import Schema


def test_derived_rows_are_bounded_and_counted_like_rows_of_a_table():
    visits = pa.table({"patient": ["a", "a", "b", "c", None, "a"], "age": [3, 4, 5, 6, 7, 8]})
    engine = open_table(visits).engine
    patient = next(one for one in engine.columns if one.name == "patient")
    who = column(patient.reference)
    wanted = [named(who, "patient"), named(exp.Count(this=exp.Star()), "visits")]
    rows = exp.Select(expressions=wanted).from_(engine.table()).group_by(who.copy())
    given = [Column("patient", "VARCHAR", "patient"), Column("visits", "BIGINT", "visits")]
    schema = Schema(
        dataset="patients",
        privacy_unit={"column": "patient", "contributions": 1},
        attributes={"visits": {"type": "integer", "lower": 0, "upper": 2}},
    )
    table = Table(Derived(engine, rows, given, [patient]))
    table.check(schema)
    read = table.aggregate(schema, 5)
    assert dict(zip(read.cells.tolist(), read.counts.tolist(), strict=True)) == {
        1: 2,
        2: 1,
    }  # three visits clipped to two
