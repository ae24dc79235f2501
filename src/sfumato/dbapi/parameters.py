"""Values bound to the question marks of a statement, as literals.

Where a question mark stands is asked of the tokenizer that reads the statement afterwards, so that one inside a text, a
name or a comment is none; a value becomes one literal whatever is in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal

from sfumato.dbapi.failures import DataError, ProgrammingError


def bind(statement: str, parameters: Sequence[object]) -> str:
    """The statement with each question mark replaced by a value.

    >>> bind("SELECT COUNT(*) FROM t WHERE name = ? AND age > ? -- ?", ["O'Hara", 30])
    "SELECT COUNT(*) FROM t WHERE name =  'O''Hara'  AND age >  30  -- ?"
    """
    if isinstance(parameters, Mapping | str | bytes):
        raise ProgrammingError("parameters are a list, one value for each ? of the statement")
    values = list(parameters)
    places = _question_marks(statement) if values or "?" in statement else []
    if len(places) != len(values):
        raise ProgrammingError(f"the statement has {len(places)} question marks, and {len(values)} values were given")
    pieces, start = [], 0
    for place, value in zip(places, values, strict=True):
        pieces += [statement[start:place], f" {literal(value)} "]  # blanks, for what stands beside could join it
        start = place + 1
    return "".join([*pieces, statement[start:]])


def literal(value: object) -> str:
    """A value as SQL writes it."""
    if hasattr(value, "item") and not isinstance(value, str | bytes):  # a number of NumPy
        value = value.item()
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, Decimal) and value.is_finite():
        return format(value, "f")
    if isinstance(value, datetime):
        value = value.isoformat(sep=" ")
    elif isinstance(value, date):
        value = value.isoformat()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    kind = type(value).__name__
    raise DataError(f"a value of type {kind} cannot be bound; give a text, a number, a date or a boolean")


def _question_marks(statement: str) -> list[int]:
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        tokens = sqlglot.tokenize(statement, read="duckdb")
    except SqlglotError:
        raise ProgrammingError("this SQL cannot be read: a quotation mark or a comment is not closed") from None
    return [token.start for token in tokens if token.token_type.name == "PLACEHOLDER" and token.text == "?"]
