"""Rewrite spellings of other dialects, and work out constants, in a syntax tree: one way to say each thing is left.

A constant day or time is a literal afterwards: CURRENT_DATE, NOW(), DATE '2024-01-31' + INTERVAL 1 MONTH, TO_DATE(...).
"""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from sfumato.errors import QueryError
from sfumato.sql.scope import TIMESTAMPS, bare, quoted
from sfumato.sql.values.dates import without_zone
from sfumato.sql.values.functions import call
from sfumato.sql.values.translate import translate
from sfumato.sql.values.tree import evaluate

if TYPE_CHECKING:
    from sqlglot import exp

COUNT_ROWS = "count_rows"  # COUNT_ROWS(), rows as they are whatever they weigh, is COUNT of this word, no column
TOP = re.compile(r"\bSELECT\s+(?:DISTINCT\s+)?TOP\s*\(?\s*[0-9]", re.IGNORECASE)
CLOCK = "clock"  # under which a tree keeps what its clock said

_DAYS = ("currentdate",)
_TIMES = ("currenttimestamp", "localtimestamp", "currentdatetime")
_NAMED_TIMES = ("now", "getdate", "today", "transaction_timestamp", "statement_timestamp")
_CLOCK = re.compile(
    rf"\b(current_(date|timestamp|datetime|localtimestamp)|localtimestamp|{'|'.join(_NAMED_TIMES)})\b", re.IGNORECASE
)
_FOLDED = (
    *("add", "sub", "dateadd", "datesub", "datetrunc", "timestamptrunc"),
    *("cast", "trycast", "strtotime", "date", "tsordstodate", "timestrtotime", "datefromparts", "lastday"),
    "anonymous",
)
REWRITTEN = (  # words of a text, in capitals, without which there is nothing to do here
    *("INTERVAL", "CURRENT_DATE", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "TODAY", "STRPTIME", "DATE", "TIMESTAMP"),
    *("TO_TIMESTAMP", "MAKE_DATE", "DATE_TRUNC", "DATE_ADD", "DATE_SUB", "DATEADD", "TIMESTAMPTZ", "DATETIME"),
    *("ALL", "DISTINCT", "IN"),  # ORDER BY ALL, DISTINCT ON, (a, b) IN
    *(COUNT_ROWS.upper(), "CRAMERS_V", "TO_DATE", "TO_CHAR", "ISNULL", "ZEROIFNULL"),
    *(name.upper() for name in _NAMED_TIMES),
)


def in_one_spelling(tree: exp.Expression) -> exp.Expression:
    """The tree with other spellings rewritten and constant days worked out."""
    said: dict[str, str] = {}
    now = datetime.now().replace(microsecond=0)
    for node in reversed(list(tree.walk())):  # children before their parents
        changed = _renamed(node) or _restated(node) or _of_the_clock(node, now, said) or _folded(node)
        if changed is not None:
            changed.meta.update(node.meta)
            changed.meta.pop("written", None)
            if node is tree:
                tree = changed
            else:
                node.replace(changed)
    if said:
        tree.meta[CLOCK] = said
    return tree


def asks_clock(text: str) -> bool:
    """Whether a statement may ask the clock, so that its meaning does not last.

    >>> asks_clock("SELECT COUNT(*) FROM t WHERE d > NOW()"), asks_clock("SELECT COUNT(*) FROM t")
    (True, False)
    """
    return _CLOCK.search(text) is not None


def clock_notes(said: dict[str, str]) -> tuple[str, ...]:
    """Notes on what the clock said, by the name under which it was asked."""
    return tuple(
        f"{name} is {value}, by the clock of the computer that answers: tomorrow the same statement asks another thing"
        for name, value in said.items()
    )


def _renamed(node: Any) -> Any:
    """A function under the name that it has here; None where it has that already."""
    from sqlglot import exp

    if node.key == "tochar":  # which the parser would write as a cast, without its format
        given = [part for part in (node.this, node.args.get("format")) if part is not None]
        return exp.Anonymous(this="to_char", expressions=[part.copy() for part in given])
    if node.key == "anonymous" and node.name.lower() == COUNT_ROWS and not node.expressions:
        return exp.Count(this=exp.Var(this=COUNT_ROWS))
    if node.key == "anonymous" and node.name.lower() in ("isnull", "zeroifnull", "cramers_v"):
        args = [part.copy() for part in node.expressions]
        if node.name.lower() == "cramers_v":
            return exp.AnonymousAggFunc(this="cramers_v", expressions=args)
        if len(args) == 2 or (len(args) == 1 and node.name.lower() == "zeroifnull"):
            return exp.Coalesce(this=args[0], expressions=args[1:] or [exp.Literal.number(0)])
    return None


def _restated(node: Any) -> Any:
    """Rewrite a clause in plainer SQL; None where there is nothing to replace. A SELECT is changed in place.

    (a, b) IN ((1, 2), (3, 4)) is a = 1 AND b = 2 OR a = 3 AND b = 4. ORDER BY ALL names every column. DISTINCT ON
    (a) keeps the first row of each a in the order of the statement.
    """
    from sqlglot import exp

    if node.key == "in" and node.this.key == "tuple" and node.expressions:
        names, rows = node.this.expressions, [row.expressions for row in node.expressions if row.key == "tuple"]
        if len(rows) == len(node.expressions) and all(len(row) == len(names) for row in rows):
            pairs = [[exp.EQ(this=name.copy(), expression=value.copy()) for name, value in zip(names, row, strict=True)]
                     for row in rows]  # fmt: skip
            return exp.paren(exp.or_(*(exp.and_(*each) for each in pairs)))
    order = node.args.get("order") if node.key == "select" else None
    if order is None:
        return None
    (first, *others) = order.expressions
    if first.this.key == "var" and first.this.name.upper() == "ALL" and not others:
        places = (exp.Literal.number(place + 1) for place in range(len(node.expressions)))
        order.set("expressions", [exp.Ordered(**{**first.args, "this": place}) for place in places])
    distinct = node.args.get("distinct")
    keys = distinct.args["on"].expressions if distinct is not None and distinct.args.get("on") else []
    leading = [rule.this for rule in order.expressions[: len(keys)]]
    if keys and node.args.get("group") and sorted(map(str, leading)) == sorted(map(str, keys)):
        rest = [rule.copy() for rule in order.expressions[len(keys) :]]
        window = exp.Window(this=exp.RowNumber(), partition_by=[key.copy() for key in keys])
        window.set("order", exp.Order(expressions=rest or [rule.copy() for rule in order.expressions]))
        kept = exp.EQ(this=window, expression=exp.Literal.number(1))
        before = node.args.get("qualify")
        node.set("qualify", exp.Qualify(this=kept if before is None else exp.and_(before.this, kept)))
        node.set("distinct", None)
    return None


def _of_the_clock(node: Any, now: datetime, said: dict[str, str]) -> Any:
    """The day or time that a name of the clock stands for now; None for any other node. said: extended in place."""
    name = node.name.lower() if node.key == "anonymous" and not node.expressions else ""
    if node.key not in (*_DAYS, *_TIMES) and name not in _NAMED_TIMES:
        return None
    day = node.key in _DAYS or name == "today"
    value = now.date() if day else now
    word = str(node.meta.get("written") or ("CURRENT_DATE" if day else name)).upper().partition("(")[0]
    said[word] = str(value)
    return _literal(value)


def _folded(node: Any) -> Any:
    """A constant day or time worked out, as a literal; None for any other expression."""
    from sqlglot import exp

    if node.key in ("add", "sub") and not {bare(node.this).key, bare(node.expression).key} & {"cast", "interval"}:
        return None  # no day is in it, for days are literals by now
    if node.key not in _FOLDED or node.find(exp.Column, exp.Select, exp.AggFunc, exp.Placeholder, exp.Parameter):
        return None
    if node.key in ("cast", "trycast") and not node.args["to"].is_type("date", *TIMESTAMPS):
        return None
    try:
        value = evaluate(translate(node, lambda _part: None, "a constant"), (), _exactly)
    except QueryError as refusal:
        if "beyond the years" in str(refusal):
            raise QueryError(f"the query has a date beyond the years 1 to 9999: {quoted(node)}") from None
        return None  # which whoever reads it refuses in words of its own
    aware = isinstance(value, datetime) and value.tzinfo is not None  # of a zone that is not that of the table
    return _literal(value) if isinstance(value, date) and not aware else None


def _exactly(name: str, args: list[Any]) -> Any:
    """Value of a function of constants; here texts of times may have minutes and seconds, which attributes lack."""
    if name == "to_moment" and isinstance(args[0], str):
        try:
            return datetime.fromisoformat(without_zone(args[0]))
        except ValueError:
            return None
    return call(name, args)


def _literal(value: date) -> Any:
    from sqlglot import exp

    kind = "TIMESTAMP" if isinstance(value, datetime) else "DATE"
    return exp.cast(exp.Literal.string(str(value)), kind)
