"""The `series` key of a schema: periods, and whose presence is hidden over them."""

from datetime import date

import pytest

from sfumato.errors import SchemaError
from sfumato.schema import Schema
from sfumato.schema.series import Series


def _schema(series: object, unit: object = "row", **attributes: object) -> Schema:
    columns = attributes or {"ill": {"type": "boolean"}}
    return Schema(dataset="visits", privacy_unit=unit, attributes=columns, series=series)


@pytest.mark.parametrize(
    ("length", "written", "label", "first", "last"),
    [
        ("day", "2026-2-3", "2026-02-03", date(2026, 2, 3), date(2026, 2, 3)),
        ("week", "2026-W53", "2026-W53", date(2026, 12, 28), date(2027, 1, 3)),
        ("month", "2024-2", "2024-02", date(2024, 2, 1), date(2024, 2, 29)),
        ("quarter", "2026-Q4", "2026-Q4", date(2026, 10, 1), date(2026, 12, 31)),
        ("year", " 2026 ", "2026", date(2026, 1, 1), date(2026, 12, 31)),
    ],
)
def test_periods_are_written_one_way(length: str, written: str, label: str, first: date, last: date) -> None:
    series = Series(period=length, unit="person in a period")  # type: ignore[arg-type]
    assert series.label(written) == label
    assert (series.first_day(label), series.last_day(label)) == (first, last)
    assert series.year(label) == 2026 if length != "month" else 2024


@pytest.mark.parametrize(
    ("length", "written"),
    [("month", "2026-13"), ("week", "2025-W53"), ("quarter", "2026-Q5"), ("day", "2026-02-30"), ("year", "26")],
)
def test_what_is_no_period_is_refused(length: str, written: str) -> None:
    with pytest.raises(SchemaError, match=f"is no {length}; write it like"):
        Series(period=length, unit="person in a period").label(written)  # type: ignore[arg-type]


def test_names_are_kept_as_they_are() -> None:
    series = Series(period="name", unit="person in a name")
    assert series.label("wave 2") == "wave 2"
    assert series.first_day("wave 2") is None
    with pytest.raises(SchemaError, match="must not be empty"):
        series.label("  ")


def test_the_promise_follows_from_the_unit() -> None:
    by_month = {"period": "month"}
    assert _schema({**by_month, "unit": "person in a month"}).series.promise.alone
    unit = {"column": "who", "contributions": 1}
    bounded = _schema({**by_month, "unit": "person in at most 6 months"}, unit).series.promise
    assert (bounded.most, bounded.alone) == (6, False)
    assert _schema({**by_month, "unit": "person for ever", "periods": 60}).series.promise.most is None


@pytest.mark.parametrize(
    ("series", "words"),
    [
        ({"period": "month", "unit": "person"}, "write whose presence is hidden"),
        ({"period": "month", "unit": "person in a week"}, "write the same word in both"),
        ({"period": "month", "unit": "person for ever"}, "add periods"),
        ({"period": "month", "unit": "person in at most 3 months"}, "whose row it is"),
        ({"period": "hour", "unit": "person in a month"}, "series.period"),
        ({"unit": "person in a month"}, "series"),
        ({"period": "day", "unit": "person for ever", "periods": 5000}, "4,096 is the most"),
    ],
)
def test_mistakes_are_named(series: object, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        _schema(series)


def test_the_column_period_is_the_series_own() -> None:
    with pytest.raises(SchemaError, match="column called 'period' of its own"):
        _schema({"period": "month", "unit": "person in a month"}, period={"type": "boolean"})


def test_a_schema_with_a_series_is_read_back() -> None:
    schema = _schema({"period": "month", "unit": "person in a month", "column": "day", "periods": 60, "running": True})
    assert Schema.from_dict(schema.to_dict()) == schema


def test_a_row_in_a_month_is_the_promise_of_a_person_in_a_month_with_one_row() -> None:
    by_row, by_person = (_schema({"period": "month", "unit": f"{who} in a month"}) for who in ("row", "person"))
    assert by_row.series is not None and by_person.series is not None
    assert by_row.series.promise == by_person.series.promise and by_row.together == 1
    assert Schema.from_dict(by_row.to_dict()) == by_row
    for unit in ("row for ever", "row in at most 3 months"):
        with pytest.raises(SchemaError, match="row in a month, where privacy_unit is row"):
            _schema({"period": "month", "unit": unit, "periods": 9})
