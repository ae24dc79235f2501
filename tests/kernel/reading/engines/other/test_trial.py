"""A server that works out something else is refused before anything is reserved: tried on constants alone."""

from __future__ import annotations

import duckdb
import pytest
from sqlglot import exp

from sfumato.errors import SfumatoError, TableError
from sfumato.kernel.reading.engines.other.column_stores import DuckWords
from sfumato.kernel.reading.engines.other.session import Other, open_other
from sfumato.kernel.reading.expressions import cast
from sfumato.kernel.reading.table import Table
from sfumato.schema import Schema

FACTS = {
    "dataset": "t",
    "privacy_unit": {"column": "who", "contributions": 2},
    "attributes": {
        "c": {"type": "category", "values": ["x", "y"], "other": True},
        "number": {"type": "category", "values": [1, 2], "other": True, "missing": "keep", "column": "c"},
        "n": {"type": "integer", "lower": 0, "upper": 9},
        "x": {"type": "number", "lower": 0, "upper": 1, "width": "0.25", "missing": "keep"},
        "at": {"type": "date", "by": "hour_of_day"},
    },
}


class OneCase(DuckWords):
    """As a collation that takes small and capital letters for the same."""

    def bytes_of(self, text):
        return exp.Lower(this=text)


class BareCasts(DuckWords):
    """As where sqlglot writes TRY_CAST as CAST: a value stops the reading."""

    def safe_cast(self, value, source, to):
        return cast(value, to)


class MakesUpNumbers(DuckWords):
    """As MySQL does of a text that is no number."""

    def safe_cast(self, value, source, to):
        found = super().safe_cast(value, source, to)
        return exp.Coalesce(this=found, expressions=[cast(exp.Literal.number(0), to)]) if to == "double" else found


class LocalTime(DuckWords):
    """As where a session's clock decides about the hour."""

    def safe_cast(self, value, source, to):
        found = super().safe_cast(value, source, to)
        return found + exp.Interval(this=exp.Literal.string("1"), unit=exp.var("HOUR")) if to == "timestamp" else found


class NoCap(DuckWords):
    """As where a window counts the rows of every person anew."""

    def spelled(self, statement):
        return super().spelled(statement).replace('"place" <= 2', '"place" <= 3')


def check(words) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t (who VARCHAR, c VARCHAR, n BIGINT, x DOUBLE, at TIMESTAMP)".replace("at ", '"at" ')
        )
        opened = open_other(connection, "t", None)
        schema = Schema.from_dict(FACTS)
        Table(Other(words, opened.session, opened.source, opened.columns)).check(schema)


@pytest.mark.parametrize("words", [OneCase, BareCasts, MakesUpNumbers, LocalTime, NoCap])
def test_what_means_something_else_is_refused(words):
    with pytest.raises(SfumatoError):
        check(words())


def test_the_right_words_pass():
    check(DuckWords())


def test_it_says_that_no_row_was_read():
    with pytest.raises(TableError, match=r"tried on constants, no row was read\); write the table to Parquet"):
        check(OneCase())
