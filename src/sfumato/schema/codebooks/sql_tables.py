"""Codebooks in SQL: CREATE TABLE with ENUM types and CHECK constraints, as PostgreSQL and DuckDB write them.

Only what people declared is taken: lists, and bounds from comparisons with constants. An ENUM that is made by a query,
as DuckDB allows, has no list here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sfumato.errors import SchemaError
from sfumato.schema.codebooks.variable import Variable, of_table, text_of


def read(path: Path, table: str) -> list[Variable]:
    """The columns of the table of that name, or of the only one."""
    return variables_in(text_of(path), table)


def variables_in(text: str, table: str, dialect: str = "postgres") -> list[Variable]:
    """The columns of a table by its definition. dialect: as sqlglot names it."""
    import sqlglot
    from sqlglot import exp

    log = logging.getLogger("sqlglot")
    before, log.disabled = log.disabled, True  # it speaks of statements that are of no concern here
    try:
        statements = sqlglot.parse(text, dialect=dialect, error_level=sqlglot.ErrorLevel.IGNORE)
    except (sqlglot.errors.SqlglotError, RecursionError):
        raise SchemaError("the codebook is not SQL that can be read; keep its CREATE TYPE and CREATE TABLE") from None
    finally:
        log.disabled = before
    creates = [one for one in statements if isinstance(one, exp.Create)]
    enums = {one.this.name.lower(): _texts(one.expression.expressions) for one in creates
             if one.kind == "TYPE" and isinstance(one.expression, exp.DataType)}  # fmt: skip
    tables = {one.this.this.name: one for one in creates if one.kind == "TABLE" and isinstance(one.this, exp.Schema)}
    if not tables:
        raise SchemaError("the codebook has no CREATE TABLE with columns; write the table's definition to it")
    name = of_table(tables, table, "tables")
    altered = [one for one in statements if isinstance(one, exp.Alter) and one.this.name == name]
    said = _constraints([tables[name], *altered])
    return [_variable(column, enums, said) for column in tables[name].this.expressions
            if isinstance(column, exp.ColumnDef)]  # fmt: skip


Said = dict[str, dict[str, Any]]


def _variable(column: Any, enums: dict[str, list[str]], said: Said) -> Variable:
    kind = column.args.get("kind")
    word = "" if kind is None else kind.sql("postgres")
    own = said.get(column.name.lower(), {})
    listed = enums.get(word.rpartition(".")[2].strip('"').lower(), [])
    if kind is not None and kind.this.name == "ENUM":
        listed = _texts(kind.expressions)
    values = dict.fromkeys(own.get("values") or listed, "")
    return Variable(column.name, "category" if listed else word, values, own.get("lower", ""), own.get("upper", ""))


def _constraints(statements: Sequence[Any]) -> Said:
    """Lists and bounds of columns that CHECK constraints state."""
    from sqlglot import exp

    said: Said = {}
    for test in (check.this for one in statements for check in one.find_all(exp.CheckColumnConstraint)):
        for name, key, value in _facts(test):
            said.setdefault(name.lower(), {})[key] = value
    return said


def _facts(test: Any) -> Iterator[tuple[str, str, Any]]:
    """What a condition says of single columns, as far as all of it must hold."""
    from sqlglot import exp

    test, facts = _bare(test), list[tuple[str, Any]]()
    if isinstance(test, exp.And):
        yield from _facts(test.this)
        yield from _facts(test.expression)
        return
    if isinstance(test, exp.Between):
        ends = _constant(test.args["low"]), _constant(test.args["high"])
        facts = [("lower", ends[0]), ("upper", ends[1])]
    elif isinstance(test, exp.In):
        facts = [("values", _texts(test.expressions))]
    elif isinstance(test, exp.EQ) and isinstance(test.expression, exp.Any):
        array = _bare(test.expression.this)
        facts = [("values", _texts(array.expressions) if isinstance(array, exp.Array) else [])]
    elif isinstance(test, exp.GTE | exp.LTE):  # > and < of whole numbers and of others differ: left to the curator
        key = "lower" if isinstance(test, exp.GTE) else "upper"
        facts = [(key, _constant(test.expression))]
    else:
        return
    column = _bare(test.this)
    if isinstance(column, exp.Column):
        yield from ((column.name, key, value) for key, value in facts if value)


def _bare(value: Any) -> Any:
    """An expression without the brackets and casts around it."""
    from sqlglot import exp

    while isinstance(value, exp.Paren | exp.Cast):
        value = value.this
    return value


def _constant(value: Any) -> str:
    """A number or text as it is written; nothing, if it is no constant."""
    from sqlglot import exp

    value = _bare(value)
    if isinstance(value, exp.Neg) and (inner := _constant(value.this)):
        return f"-{inner}"
    return str(value.this) if isinstance(value, exp.Literal) else ""


def _texts(values: Sequence[Any]) -> list[str]:
    """A list of constants; empty, if something else is among them."""
    found = [_constant(value) for value in values]
    return found if all(found) else []
