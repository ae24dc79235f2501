"""The clauses every SELECT has, also one inside parentheses: which are allowed, its table and its WHERE."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql.predicates import read_condition
from sfumato.sql.scope import Scope, in_words, number, unsupported

if TYPE_CHECKING:
    from sqlglot import exp

# Plain words for clauses whose internal name would not help.
_CLAUSES = {
    "distinct": "SELECT DISTINCT",
    "group": "GROUP BY",
    "joins": "JOIN",
    "kind": "SELECT AS",
    "laterals": "LATERAL",
    "order": "ORDER BY",
    "sample": "TABLESAMPLE",
    "windows": "WINDOW",
    "with": "WITH (a common table expression)",
}


def check_clauses(select: exp.Expression, allowed: Collection[str], place: str = "") -> None:
    """Refuse a SELECT with a clause that is not allowed; place: where the SELECT stands, for the message."""
    for key, value in select.args.items():
        clause = key.rstrip("_")  # sqlglot spells from and with with an underscore, depending on its version
        if value and clause not in allowed:
            comma = clause == "joins" and set(filter(value[0].args.get, value[0].args)) == {"this"}
            word = "a list of tables in FROM" if comma else _CLAUSES.get(clause, clause.replace("_", " ").upper())
            raise unsupported(word + place)


def table_scope(select: exp.Expression, schema: Schema, outer: Scope | None = None) -> Scope:
    """The table that FROM names, checked; an inner SELECT shares the remarks of the outer one."""
    source = select.args.get("from_") or select.args.get("from")
    if source is None:
        raise unsupported("a SELECT without FROM", f"write FROM {schema.dataset}")
    table = source.this
    if table.key != "table":
        raise unsupported(f"{in_words(table)} in FROM", f"write FROM {schema.dataset}")
    check_clauses(table, ("this", "db", "catalog", "alias"))
    if table.this.key != "identifier":
        raise unsupported(f"{in_words(table.this)} in FROM", f"write FROM {schema.dataset}")
    name = ".".join(part.name for part in table.parts)
    if name.lower() not in (schema.dataset.lower(), "release"):
        raise QueryError(f"no table {name!r} in this release; write FROM {schema.dataset} or FROM release")
    if table.args.get("alias") and table.args["alias"].args.get("columns"):
        raise unsupported("renaming columns in FROM", "use AS in the select list")
    names = frozenset({name.lower(), table.name.lower(), table.alias.lower()} - {""})
    if outer is None:
        return Scope(schema, names)
    return Scope(schema, names, outer.cuts, outer.middles, outer.beyond, outer.unmatched)


def where(select: exp.Expression, scope: Scope) -> Predicate:
    """The rows that WHERE keeps."""
    clause = select.args.get("where")
    return read_condition(clause.this, scope) if clause else Predicate.everything()


def whole(clause: Any, word: str) -> int | None:
    """The number of a LIMIT or OFFSET."""
    if clause is None:
        return None
    expression = clause.args.get("expression")
    if expression is None or clause.args.get("limit_options") or clause.args.get("expressions"):
        raise unsupported(f"{in_words(clause)} of this form", f"write {word} 10")
    value = number(expression)
    if value is None or value < 0 or not value.is_integer():
        raise QueryError(f"{word} needs a whole number that is not negative")
    return int(value)
