"""The statement as PostgreSQL writes it: what sqlglot would spell with another meaning is put into its own words."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sfumato.kernel.source.engines.postgres.casts import DIALECT, plain
from sfumato.kernel.source.expressions import SQL, cast, whole

# In quotes: a bare 0 is a number of 32 bits that is turned into one of 64, and PostgreSQL decides before it has worked
# that out. An OFFSET that may be any is a reason for it to use one process.
FENCE = exp.Literal.string("0")


def spelled(statement: SQL) -> str:
    """The text of a statement."""
    own = statement.copy().transform(_own_words, copy=False)
    for subquery in own.find_all(exp.Subquery):
        if subquery.alias == "rows" and isinstance(subquery.this, exp.Select):
            # Otherwise an expression is written out, and worked out, wherever its name stands.
            subquery.this.set("offset", exp.Offset(expression=FENCE.copy()))
    return own.sql(dialect=DIALECT, identify=True, copy=False)


def bytes_of(text: SQL) -> SQL:
    """The bytes of a text; those of one in the statement are written as they are, so that nothing is left to do."""
    bare = text.this if isinstance(text, exp.Cast) else text
    if isinstance(bare, exp.Literal):
        return cast(exp.Literal.string(rf"\x{bare.this.encode().hex()}"), "bytea")
    return exp.Anonymous(this="convert_to", expressions=[text, exp.Literal.string("UTF8")])


def scramble(parts: Sequence[SQL]) -> SQL:
    """A hash of all parts, each seeded with that of those before it."""
    found: SQL = whole(0)
    for part in parts:
        found = exp.Anonymous(this="hashtextextended", expressions=[plain(part), found])
    return found


def _own_words(node: SQL) -> SQL:
    """A difference of times in whole hours or days, not the nearest."""
    if not isinstance(node, exp.DateDiff):
        return node
    later, earlier = node.this, node.expression
    if node.text("unit") == "DAY":
        return exp.paren(cast(later, "date") - cast(earlier, "date"))
    epoch = exp.Extract(this=exp.var("EPOCH"), expression=exp.paren(later - earlier))
    return cast(exp.Floor(this=exp.Div(this=epoch, expression=whole(3600))), "bigint")
