"""The awkward table that every engine must read into the same cells, and a schema for each of its columns."""

from __future__ import annotations

from sfumato.schema import Schema

BIG = 2**63 - 1
# Values as both engines write them, by the column's type on PostgreSQL and on DuckDB.
COLUMNS = {
    "txt": ("text", "VARCHAR", ["'a'", "'A'", "' a'", "''", "NULL", "'ä'", "'x\"y'", "'1_0'", "'1e400'"]),
    "pad": ("char(4)", "VARCHAR", ["'a'", "'A'", "'ab'", "''", "NULL", "'ä'", "'abcd'", "'1'", "'b'"]),
    "num": ("numeric(20, 3)", "DECIMAL(20,3)", ["1.5", "-2", "0", "99999", "NULL", "0.125", "-0.001", "3", "7"]),
    "int": ("bigint", "BIGINT", [f"{BIG}", f"{-BIG - 1}", "0", "-1", "NULL", "7", "9007199254740993", "3", "2"]),
    "dbl": (
        "double precision",
        "DOUBLE",
        ["'nan'", "'inf'", "'-inf'", "'-0.0'", "NULL", "5e-324", "0.3", "1e308", "0.75"],
    ),
    "flt": ("real", "FLOAT", ["'nan'", "'inf'", "0.5", "'-0.0'", "NULL", "1e-45", "0.1", "3e38", "2.5"]),
    "yes": ("boolean", "BOOLEAN", ["true", "false", "NULL", "true", "false", "true", "false", "true", "true"]),
    "day": (
        "date",
        "DATE",
        [
            "'2020-02-29'",
            "'2019-02-28'",
            "'infinity'",
            "'-infinity'",
            "NULL",
            "'0001-01-01'",
            "'9999-12-31'",
            "'2020-12-31'",
            "'2021-01-01'",
        ],
    ),
    "at": (
        "timestamptz",
        "TIMESTAMPTZ",
        [
            "'2020-02-29 23:59:59.999999+00'",
            "'2020-03-01 00:30:00+02'",
            "'infinity'",
            "'1969-12-31 23:59:59+00'",
            "NULL",
            "'2020-06-30 22:30:00-03:30'",
            "'2020-01-01 00:00:00+00'",
            "'2020-12-31 23:59:59+00'",
            "'2020-07-01 01:59:59+00'",
        ],
    ),
}
ATTRIBUTES = {
    "txt": {"type": "category", "values": ["a", "A", "ä", 'x"y'], "other": True, "missing": "keep"},
    "txt_folded": {
        "type": "category",
        "values": ["a", "ä"],
        "fold": ["case", "spaces"],
        "other": True,
        "column": "txt",
    },
    "txt_number": {"type": "category", "values": [1, 10], "other": True, "missing": "keep", "column": "txt"},
    "pad": {"type": "category", "values": ["a", "A", "ab", "ä", "abcd"], "other": True},
    "num": {"type": "number", "lower": -1, "upper": 10, "width": "0.5", "missing": "keep"},
    "num_text": {"type": "category", "values": ["1.500", "3.000"], "other": True, "column": "num"},
    "int": {"type": "integer", "lower": -5, "upper": 9, "bins": 4},
    "int_text": {"type": "category", "values": [str(BIG), "7"], "other": True, "column": "int"},
    "int_true": {"type": "boolean", "column": "int"},
    "dbl": {"type": "number", "lower": -1, "upper": 1, "width": "0.25"},
    "dbl_text": {"type": "category", "values": ["0", "inf", "0.3", "1e+308"], "other": True, "column": "dbl"},
    "flt": {"type": "number", "lower": 0, "upper": 3, "cuts": ["0.1", "0.5", "1.7"], "missing": "keep"},
    "yes": {"type": "boolean", "missing": "keep"},
    "day": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31", "by": "day"},
    "day_week": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31", "by": "week", "column": "day"},
    "day_weekday": {"type": "date", "by": "weekday", "column": "day"},
    "day_hour": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31", "by": "hour", "column": "day"},
    "at_hour": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31", "by": "hour", "column": "at"},
    "at_day": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31", "by": "day", "column": "at"},
    "at_quarter": {"type": "date", "lower": "2019-05-01", "upper": "2020-12-31", "by": "quarter", "column": "at"},
    "at_of_day": {"type": "date", "by": "hour_of_day", "column": "at"},
}


def schema_of(*names: str, unit: object = "row", measures: dict | None = None) -> Schema:
    attributes = {name: ATTRIBUTES[name] for name in names}
    facts = {"dataset": "t", "privacy_unit": unit, "attributes": attributes, "measures": measures or {}}
    return Schema.from_dict(facts | {"budget": {"epsilon": 3}})


# Periods, and columns that say them: by days and times, and by texts and numbers as they are written.
PERIODS = [
    ("year", "2020", "day"),
    ("week", "2020-W09", "day"),
    ("month", "2020-02", "at"),
    ("quarter", "2020-Q2", "at"),
    ("name", "a", "txt"),
    ("name", "7", "int"),
    ("name", "1.500", "num"),
    ("year", "2020", "txt"),
]


def part_of(opened, period: str, label: str, column: str, admit=None, most: int = 2) -> tuple[list[int], list[int]]:
    """Cells and counts of the rows of a period in the awkward table; with `admit`, of the people whom it admits."""
    facts = schema_of("yes", "pad", unit={"column": "who", "contributions": most}).to_dict()
    for part in facts["attributes"].values():
        part["missing"] = "keep"
    facts["series"] = {"period": period, "unit": f"person in at most 2 {period}s", "column": column}
    schema = Schema.from_dict(facts)
    with opened as table:
        table.check(schema, label, with_people=admit is not None)
        found = table.aggregate(schema, 5, period=label, admit=admit)
    return found.cells.tolist(), found.counts.tolist()


def odd_people(people: list[bytes]) -> list[bool]:
    """Admit every second person of the awkward table."""
    return [int(name) % 2 == 1 for name in people]
