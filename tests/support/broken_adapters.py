"""NOT PRIVATE: adapters of PostgreSQL and Spark with one safeguard removed; the reading audit must catch each.

An adapter builds no statement. It can break the meaning of a text, the cast of a value that does not fit, the identity
of a person, and the statement on its way to the engine.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from sqlglot import exp

from sfumato.kernel.reading.engines.postgres.engine import Postgres
from sfumato.kernel.reading.engines.spark.engine import Spark
from sfumato.kernel.reading.expressions import cast, double
from sfumato.lab.audit.reading.attack import attack_source
from sfumato.lab.audit.reading.server_sources import dealt_postgres_source, spark_file
from sfumato.lab.audit.reading.sources import dealt_source

PAIRS = 30  # in which each of these must be caught; most are at the first reading


def _called(name: str, *parts: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=list(parts))


class CasesOneText:
    """NOT PRIVATE: texts are compared in small letters, so that p and P are one person and a and A one value."""

    def bytes_of(self, text: Any) -> Any:
        return super().bytes_of(_called("lower", text))  # type: ignore[misc]


class BlanksOff:
    """NOT PRIVATE: blanks at the end of a text are taken off, as if every column were of fixed width."""

    def bytes_of(self, text: Any) -> Any:
        return super().bytes_of(_called("rtrim", text))  # type: ignore[misc]


class OneNaN:
    """NOT PRIVATE: all who have no number for an identifier are one person."""

    def without_nan(self, value: Any, source: Any) -> Any:
        return value


class ZeroesApart:
    """NOT PRIVATE: a person is the text of a number, so that who is 0.0 and -0.0 counts twice."""

    def without_nan(self, value: Any, source: Any) -> Any:
        return cast(super().without_nan(value, source), "text")  # type: ignore[misc]


class ShortNumbers:
    """NOT PRIVATE: whole numbers of 64 bits are read as ones of 32, into which the large ones do not go."""

    def safe_cast(self, value: Any, source: Any, to: str) -> Any:
        if to != "bigint":
            return super().safe_cast(value, source, to)  # type: ignore[misc]
        size = _called("abs", cast(value.copy(), "decimal(38, 0)"))
        beyond = exp.GTE(this=size, expression=exp.Literal.number(2**31))
        return exp.Case(ifs=[exp.If(this=exp.Not(this=beyond), true=value)])


class InfinityMissing:
    """NOT PRIVATE: what is infinite has no value, where it counts at the bound."""

    def safe_cast(self, value: Any, source: Any, to: str) -> Any:
        found = super().safe_cast(value, source, to)  # type: ignore[misc]
        return exp.Nullif(this=found, expression=double(math.inf)) if to == "double" else found


class Uncapped:
    """NOT PRIVATE: the rows of a person are numbered, and all of them are used."""

    def _spelled(self, statement: Any) -> str:
        return str(super()._spelled(statement.copy().transform(_without_cap)))  # type: ignore[misc]


def _without_cap(node: Any) -> Any:
    capping = isinstance(node, exp.LTE) and isinstance(node.this, exp.Column) and node.this.name == "place"
    return exp.true() if capping else node


class BareCasts:
    """NOT PRIVATE: casts that stop at a value which does not fit."""

    def safe_cast(self, value: Any, source: Any, to: str) -> Any:
        return cast(value, to)

    def _spelled(self, statement: Any) -> str:
        text = str(super()._spelled(statement))  # type: ignore[misc]
        return text.replace("TRY_CAST(", "CAST(")


class ComposedPostgres(Postgres):
    """NOT PRIVATE: texts are normalised, so that é and e with an accent are one person."""

    def bytes_of(self, text: Any) -> Any:
        return super().bytes_of(text if isinstance(text, exp.Literal) else _called("normalize", text))


class CollatedSpark(Spark):
    """NOT PRIVATE: texts are compared as a collation has it, to which é and e with an accent are one person."""

    def bytes_of(self, text: Any) -> Any:
        return exp.Collate(this=text, expression=exp.var("UNICODE"))


class UnsettledSpark(Spark):
    """NOT PRIVATE: the hour of a time is that of the program's time zone."""

    def _asked(self, statement: Any, used: Any, outcome: Any) -> Any:
        with self._mounted(used):
            return outcome(self.session.sql(self._spelled(statement)))


FAULTS = {
    "two cases for one text": CasesOneText,
    "blanks taken off": BlanksOff,
    "somebody called NaN": OneNaN,
    "two zeroes": ZeroesApart,
    "numbers of 32 bits": ShortNumbers,
    "infinity missing": InfinityMissing,
    "no cap": Uncapped,
    "bare casts": BareCasts,
}
OWN: dict[str, dict[str, type[Any]]] = {
    "PostgreSQL": {"texts normalised": ComposedPostgres},
    "Spark": {"texts by collation": CollatedSpark, "the program's time zone": UnsettledSpark},
}
ENGINES: dict[str, type[Any]] = {"PostgreSQL": Postgres, "Spark": Spark}


def broken(engine: str) -> dict[str, type[Any]]:
    """Every broken adapter of an engine."""
    kind = ENGINES[engine]
    made = {name: type(fault.__name__, (fault, kind), {"__doc__": fault.__doc__}) for name, fault in FAULTS.items()}
    return made | OWN[engine]


def first_complaint(engine: str, kind: type[Any]) -> str | None:
    """First complaint of the reading audit about an adapter; None if it finds nothing in PAIRS pairs."""
    postgres = engine == "PostgreSQL"
    texts, numbers, *more = dealt_postgres_source(kind) if postgres else dealt_source(partial(spark_file, kind=kind))
    if issubclass(kind, OneNaN | ZeroesApart):  # of people who are numbers: those first
        texts, numbers = numbers, texts
    found = attack_source(engine, texts, PAIRS, patient=False, first=(texts, numbers, *more))
    return None if found.sound else found.complaints[0]
