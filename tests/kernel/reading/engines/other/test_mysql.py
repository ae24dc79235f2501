"""What MySQL and MariaDB are told; on a real server where SFUMATO_AUDIT_MARIADB names one (tests/audit)."""

from __future__ import annotations

import pytest

from sfumato.errors import TableError
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.engines.other.mysql import MySQLWords, quoted_table
from sfumato.kernel.reading.engines.other.session import Other
from sfumato.kernel.reading.statement import aggregate_statement
from sfumato.schema import Schema

COLUMNS = {"who": "TEXT", "c": "TEXT", "x": "DOUBLE", "at": "DATETIME", "d": "DATE", "n": "BIGINT UNSIGNED"}


def spelled(**attributes: dict) -> str:
    facts = {"dataset": "t", "privacy_unit": {"column": "who", "contributions": 2}, "attributes": attributes}
    columns = {name: Column(name, kind, name) for name, kind in COLUMNS.items()}
    engine = Other(MySQLWords(), None, quoted_table("t", "d"), tuple(columns.values()))
    return MySQLWords().spelled(aggregate_statement(Schema.from_dict(facts), engine, columns, 5))


def test_people_are_told_apart_by_all_of_their_bytes():
    text = spelled(n={"type": "integer", "lower": 0, "upper": 9})
    assert "UNHEX(SHA2(CAST(CAST(`who` AS CHAR CHARACTER SET utf8mb4) AS BINARY), 256)) AS `unit`" in text


def test_listed_texts_are_bytes():
    text = spelled(c={"type": "category", "values": ["ä"], "fold": ["case", "spaces"]})
    assert "x'c3a4'" in text and "REPLACE" in text and "TRANSLATE" not in text.upper()


def test_no_double_is_nan_and_times_have_microseconds():
    text = spelled(
        x={"type": "number", "lower": 0, "upper": 1, "width": "0.25"},
        at={"type": "date", "by": "hour", "lower": "2020-01-01", "upper": "2020-12-31"},
        d={"type": "date", "by": "weekday"},
    )
    assert "nan" not in text.lower() and "DATETIME(6)" in text and "DATETIME)" not in text
    assert "TIMESTAMPDIFF(HOUR," in text and "WEEKDAY(" in text and "ISODOW" not in text
    assert "DAYOFMONTH(`d`) > 0" in text  # a day can have no number there


class Says:
    def __init__(self, version: str) -> None:
        self.version = version

    def rows(self, text: str) -> list[tuple[object, ...]]:
        return [(self.version,)]


def test_servers_without_what_is_needed_are_refused():
    with pytest.raises(TableError, match="cannot run what a release asks; use version"):
        MySQLWords().must_serve(Says("10.3.39-MariaDB"))
    for version in ("5.7.44", "8.4.2"):
        with pytest.raises(TableError, match="MySQL was never tried here"):
            MySQLWords().must_serve(Says(version))
    MySQLWords().must_serve(Says("10.11.19-MariaDB-0+deb12u1"))
