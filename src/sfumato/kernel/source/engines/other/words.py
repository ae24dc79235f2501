"""What a dialect must bring for the kernel's statement to mean there what it means everywhere.

A column has a declared type, so most casts cannot fail; those that can, from text, are each dialect's own. Whatever a
dialect does not bring is refused, and what it brings is tried on constants before anything is reserved (`trial.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from sfumato.kernel.source.engines import Column
from sfumato.kernel.source.expressions import SQL, cast, choose, double, whole
from sfumato.kernel.source.types import TEXTS, type_of

TRUE, FALSE = ("true", "t", "1", "yes", "y"), ("false", "f", "0", "no", "n")
_TYPES = exp.DataType.Type


class Session(Protocol):
    """What a dialect asks a connection."""

    def rows(self, text: str) -> list[tuple[object, ...]]:
        """All rows of a small result."""


class Words(ABC):
    """A dialect. A class for each, because words differ and nothing of a connection is kept in them.

    dialect: as sqlglot names it. subqueries: as an engine has it. shown: what a message calls it. not_finite: whether
    its doubles can be NaN or infinite. settings: what is said to a connection first, each with how it was before.
    who, end: asks for the number of a connection, and ends what it does from another one, where that can be done.
    """

    dialect: str
    shown: str
    subqueries = False
    not_finite = True
    settings: Sequence[tuple[str, str]] = ()
    who: str | None = None
    end = ""

    def must_serve(self, session: Session) -> None:  # noqa: B027 (any will do, unless a dialect says otherwise)
        """Refuse a server that is too old for the statement."""

    @abstractmethod
    def found(self, session: Session, name: str | None) -> tuple[SQL, tuple[Column, ...]]:
        """The table of this name, and its columns, from the catalogue alone."""

    @abstractmethod
    def bytes_of(self, text: SQL) -> SQL:
        """The bytes of a text: equal only if the texts are the same, and in one order."""

    @abstractmethod
    def number_of(self, text: SQL) -> SQL:
        """A text as a double; NULL where it is none, no error."""

    @abstractmethod
    def scramble(self, parts: Sequence[SQL]) -> SQL:
        """A hash of these values."""

    @abstractmethod
    def spelled(self, statement: SQL) -> str:
        """The statement's text."""

    @abstractmethod
    def planned(self, text: str) -> str:
        """What to say for a statement to be planned and no row to be read."""

    def constant(self, value: SQL, kind: str) -> SQL:
        """A constant of a trial, of this kind."""
        return cast(value, kind)

    def text_constant(self, text: str) -> SQL:
        """A text of a trial."""
        return cast(exp.Literal.string(text), "text")

    def text_of(self, value: SQL, source: Column) -> SQL:
        """A value of a column as text."""
        return cast(value, "text")

    def day_of(self, value: SQL, source: Column, to: str) -> SQL:
        """A date or a time of a column as a date or a timestamp."""
        return cast(value, to)

    def safe_cast(self, value: SQL, source: Column, to: str) -> SQL:
        """A value of a column as text, double, bigint, boolean, date or timestamp; NULL if it cannot be, no error."""
        found = type_of(source, self.dialect)
        if to == "boolean":
            return self._boolean(value, source, found)
        if to in ("date", "timestamp"):
            return self.day_of(value, source, to)
        if found == _TYPES.BOOLEAN and to in ("text", "double"):
            no, yes = map(exp.Literal.string, ("false", "true")) if to == "text" else map(double, (0, 1))
            return choose([(value, yes), (exp.Not(this=value), no)], exp.Null())
        if to == "text":
            return self.text_of(value, source)
        return self.number_of(self.text_of(value, source)) if found in TEXTS else cast(value, to)

    def _boolean(self, value: SQL, source: Column, found: exp.DType | None) -> SQL:
        if found == _TYPES.BOOLEAN:
            return value
        if found not in TEXTS:
            return choose([(exp.NEQ(this=value, expression=whole(0)), exp.true())], _unless_missing(value))
        word = self.bytes_of(exp.Lower(this=self.text_of(value, source)))
        told: list[tuple[SQL, SQL]] = [
            (exp.EQ(this=word, expression=self.bytes_of(exp.Literal.string(one))), exp.Boolean(this=truth))
            for spelled, truth in ((TRUE, True), (FALSE, False))
            for one in spelled
        ]
        return choose(told, exp.Null())


def _unless_missing(value: SQL) -> SQL:
    return choose([(exp.Is(this=value, expression=exp.Null()), exp.Null())], exp.false())


def is_nan(node: object) -> bool:
    """Whether an expression is the NaN of the kernel's statement."""
    return isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.this == "nan"
