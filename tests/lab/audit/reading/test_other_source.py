"""The reading audit would find what the words of a dialect prevent, even if no trial on constants did."""

from __future__ import annotations

from functools import partial

from sqlglot import exp

from sfumato.kernel.reading.engines.other.session import Other
from sfumato.lab.audit.reading.attack import attack_source
from sfumato.lab.audit.reading.database_sources import duckdb_connection, other_source

PAIRS = 60  # in which it must be caught


class Untried(Other):
    """Nothing is tried on constants."""

    def trial(self, schema, columns):
        pass


class OneCase(Untried):
    """NOT PRIVATE: people whose names differ by case are one."""

    def bytes_of(self, text):
        return exp.Lower(this=text)


def test_a_broken_adapter_is_caught():
    found = attack_source("x", partial(other_source, bring=duckdb_connection, engine=OneCase), PAIRS, patient=False)
    assert not found.sound
