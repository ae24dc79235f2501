"""`per_person`: a SELECT that makes one row of a person's many, checked to look at that person's rows alone.

    SELECT patient, COUNT(*) AS visits, MIN(age) AS age FROM visits WHERE kind = 'stay' GROUP BY patient

For privacy only what is a function of the set of one person's rows is taken: aggregates of single rows, grouped by the
person. Everything else is refused by name. `sfumato.kernel.reading.people` turns the result into an engine's SQL.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.effort import DEEPEST, MOST_CHARACTERS, MOST_ITEMS
from sfumato.errors import SchemaError
from sfumato.frozen import dataclass
from sfumato.schema.attributes import Attribute, Boolean, Category, Date
from sfumato.schema.dialect import same_name
from sfumato.schema.parts import Measure, PrivacyUnit, shown

if TYPE_CHECKING:
    from sqlglot import exp

FORM = "SELECT person, COUNT(*) AS visits, MIN(age) AS age FROM visits GROUP BY person"
# The kind of value that an aggregate gives; None where it is that of its argument, which the schema's use decides.
GIVES = {
    **dict.fromkeys(("rows", "values", "different"), "whole"),
    **dict.fromkeys(("sum", "mean"), "number"),
    **dict.fromkeys(("any", "all"), "boolean"),
    **dict.fromkeys(("least", "greatest", "first", "last")),
}
_FUNCTIONS = {
    "sum": "sum",
    "avg": "mean",
    "min": "least",
    "max": "greatest",
    "logicalor": "any",
    "logicaland": "all",
    "first": "first",
    "firstvalue": "first",
    "last": "last",
    "lastvalue": "last",
}
_NAMED = {"EVERY": "all", "SOME": "any"}
_TAKEN = "COUNT, COUNT(DISTINCT x), SUM, AVG, MIN, MAX, BOOL_OR, BOOL_AND, FIRST(x ORDER BY day) and LAST"


@dataclass(frozen=True)
class Aggregate:
    """Aggregate of one person's rows under a name: of a column, of all rows, or of the first in an order."""

    name: str
    function: str
    argument: str | None = None
    order: str | None = None


@dataclass(frozen=True)
class PersonRule:
    """A checked `per_person`: whose rows are one, of which table, and what they amount to."""

    person: str
    table: str
    aggregates: tuple[Aggregate, ...]

    @property
    def reads(self) -> set[str]:
        """Columns of the table that the rule reads."""
        read = {column for each in self.aggregates for column in (each.argument, each.order) if column is not None}
        return read | {self.person}


def checked_text(value: object) -> str:
    """The text of a rule that can be read; a ValueError says what cannot stand in it and what to write instead."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"is {shown(value)}; write {FORM}")
    person_rule(value)
    return value.strip()


@lru_cache(maxsize=64)
def person_rule(text: str) -> PersonRule:
    """Read and check a rule."""
    tree = _select(text)
    for key, what, instead in _REFUSED:
        if tree.args.get(key):
            raise ValueError(f"has {what}, {instead}")
    table = _table(tree)
    person = _person(tree)
    if len(tree.expressions) > MOST_ITEMS:
        raise ValueError(f"has more than {MOST_ITEMS} columns; write fewer")
    aggregates = list[Aggregate]()
    for item in tree.expressions:
        if item.key == "column" and same_name(item.name) == same_name(person):
            continue
        aggregates.append(_aggregate(item, person))
    if not aggregates:
        raise ValueError(f"makes no column besides {person}; add what a person's rows amount to, as in {FORM}")
    seen = {same_name(person)}
    for each in aggregates:
        if same_name(each.name) in seen:
            raise ValueError(f"makes two columns called {each.name!r}; give one of them another name, with AS")
        seen.add(same_name(each.name))
    return PersonRule(person, table, tuple(aggregates))


# Parts of a SELECT, what they are called, and why not, with what to write instead.
_REFUSED = (
    ("with_", "WITH", "but one plain SELECT is read; write the columns of the table itself"),
    ("distinct", "DISTINCT", "but each person has one row anyway; leave it out"),
    ("joins", "a JOIN", "but it must read one table, in which a person's rows are all that counts; join before it"),
    ("laterals", "LATERAL", "but it must read one table; join before it"),
    ("having", "HAVING", "which leaves people out; publish the column and filter in queries"),
    ("order", "ORDER BY", "but rows of a release have no order; leave it out"),
    ("limit", "LIMIT", "which rows of others would decide; leave it out"),
    ("offset", "OFFSET", "which rows of others would decide; leave it out"),
    ("qualify", "QUALIFY", "which rows of others would decide; leave it out"),
    ("windows", "WINDOW", "in which rows of others count; write an aggregate with GROUP BY"),
    ("sample", "a sample", "which draws rows; leave it out"),
    ("pivots", "PIVOT", "but one plain SELECT is read; write COUNT(*) FILTER (WHERE ...) for each column"),
    ("where", "WHERE", "which is not read yet"),
)


def _select(text: str) -> exp.Select:
    """The syntax tree of a text, which may come from a stranger: bounded in length and depth."""
    import sqlglot
    from sqlglot import errors, exp

    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"has more than {MOST_CHARACTERS:,} characters; write it shorter")
    if max((text[:at].count("(") - text[:at].count(")") for at in _opened(text)), default=0) > DEEPEST:
        raise ValueError(f"is nested more than {DEEPEST} parentheses deep; write it with fewer")
    log = logging.getLogger("sqlglot")
    before, log.disabled = log.disabled, True
    try:
        trees = [tree for tree in sqlglot.parse(text, read="duckdb") if tree is not None]
    except (errors.SqlglotError, RecursionError):
        raise ValueError(f"is not SQL that can be read; write {FORM}") from None
    finally:
        log.disabled = before
    if len(trees) != 1 or not isinstance(trees[0], exp.Select):
        raise ValueError(f"must be one SELECT; write {FORM}")
    return trees[0]


def _opened(text: str) -> Iterator[int]:
    return (place + 1 for place, character in enumerate(text) if character == "(")


def _table(tree: exp.Select) -> str:
    source = tree.args.get("from_")
    if source is None:
        raise ValueError("has no FROM; name the table that has many rows of each person, as in FROM visits")
    if source.this.key != "table" or source.this.args.get("joins") or not source.this.name:
        raise ValueError("reads something else than a table; write FROM and the name of one, without a subquery")
    return str(source.this.name)


def _person(tree: exp.Select) -> str:
    group = tree.args.get("group")
    keys = [] if group is None else group.expressions
    other = group is not None and any(group.args.get(key) for key in ("all", "cube", "rollup", "grouping_sets"))
    if len(keys) != 1 or keys[0].key != "column" or other:
        raise ValueError(
            "must be grouped by the column of the privacy unit and by nothing else, so that each person has one row; "
            "write GROUP BY and that column"
        )
    return str(keys[0].name)


def _aggregate(item: Any, person: str) -> Aggregate:
    if item.key != "alias":
        if item.key in ("star", "column"):
            raise ValueError(
                f"has {_written(item)} outside of an aggregate, which has many values in a person's rows; write one of "
                f"{_TAKEN}"
            )
        raise ValueError(f"makes a column without a name; write {_written(item)} AS and a name")
    name, found = item.alias, item.this
    if found.key == "column" and same_name(found.name) == same_name(person):
        raise ValueError(f"gives {person} another name; write it without AS")
    return _read(name, found)


def _read(name: str, found: Any) -> Aggregate:
    key = _NAMED.get(str(found.this).upper(), "") if found.key == "anonymous" else _FUNCTIONS.get(found.key, "")
    if found.key == "window":
        raise ValueError(f"has a window ({name}), in which rows of others count; write an aggregate without OVER")
    if found.key == "any":
        return Aggregate(name, "any", _column(name, found.this.unnest()))
    if found.key == "count":
        return _count(name, found)
    if not key:
        raise ValueError(f"has {_written(found)}, which is not among what can be read: {_TAKEN}")
    argument = found.expressions[0] if found.key == "anonymous" and found.expressions else found.this
    if key in ("first", "last"):
        return _in_order(name, key, argument)
    if getattr(argument, "key", "") in ("distinct", "order"):
        raise ValueError(f"has {_written(found)}; DISTINCT is read in COUNT alone, and ORDER BY in FIRST and LAST")
    return Aggregate(name, key, _column(name, argument))


def _count(name: str, found: Any) -> Aggregate:
    argument = found.this
    if argument is None or argument.key in ("star", "literal"):
        return Aggregate(name, "rows")
    if argument.key != "distinct":
        return Aggregate(name, "values", _column(name, argument))
    if len(argument.expressions) != 1:
        raise ValueError(f"has {_written(found)}; COUNT(DISTINCT ...) takes one column")
    return Aggregate(name, "different", _column(name, argument.expressions[0]))


def _in_order(name: str, key: str, argument: Any) -> Aggregate:
    """FIRST or LAST, which need an order: rows of a table have none."""
    if getattr(argument, "key", "") != "order" or len(argument.expressions) != 1:
        raise ValueError(f"has {key.upper()} without one column to order by ({name}); write FIRST(x ORDER BY day)")
    by = argument.expressions[0]
    if by.args.get("desc"):
        key = "last" if key == "first" else "first"
    return Aggregate(name, key, _column(name, argument.this), _column(name, by.this))


def _column(name: str, argument: Any) -> str:
    if getattr(argument, "key", "") != "column" or argument.name == "*":
        raise ValueError(f"has {_written(argument)} in {name}; write the name of a column there")
    return str(argument.name)


def _written(node: Any) -> str:
    return shown(node.sql(dialect="duckdb")).strip("'\"") if hasattr(node, "sql") else "nothing"


class Grouped(Protocol):
    """A schema, as far as its rule needs to know it."""

    per_person: str | None
    privacy_unit: PrivacyUnit
    attributes: dict[str, Attribute]
    measures: dict[str, Measure]


def with_one_row(data: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a schema with the one row of each person that `per_person` makes, where contributions are left out."""
    unit = data.get("privacy_unit")
    if data.get("per_person") is None or not isinstance(unit, Mapping):
        return dict(data)
    return {**data, "privacy_unit": {"contributions": 1, **unit}}


def rule_of(schema: Grouped) -> PersonRule:
    """The rule of a schema, which must go with its unit and make the columns that it uses."""
    rule, unit = person_rule(schema.per_person or ""), schema.privacy_unit
    if unit.column is None or same_name(unit.column) != same_name(rule.person):
        raise SchemaError(
            f"per_person makes one row of each {rule.person}, so that is whose presence is hidden; write privacy_unit: "
            f"{{column: {rule.person}}}, or group by {unit.column or 'the column of the person'}"
        )
    if unit.contributions != 1:
        raise SchemaError(
            f"privacy_unit.contributions is {unit.contributions}, and per_person leaves one row of each {rule.person}, "
            "of all that person's rows; write 1, or leave it out"
        )
    try:
        kinds_of(rule, schema.attributes, schema.measures)
    except ValueError as problem:
        raise SchemaError(f"per_person {problem}") from None
    return rule


def kinds_of(rule: PersonRule, attributes: Mapping[str, Attribute], measures: Mapping[str, Measure]) -> dict[str, str]:
    """Kind of the value of each column that is used: whole, number, text, boolean, date or timestamp."""
    made = {same_name(each.name): each for each in rule.aggregates}
    kinds: dict[str, str] = {}
    uses = [(f"attributes.{name}", part.column, _kind(part)) for name, part in attributes.items()]
    uses += [(f"measures.{name}", part.column, "number") for name, part in measures.items()]
    for role, column, kind in uses:
        each = made.get(same_name(column))
        if each is None:
            names = ", ".join(one.name for one in rule.aggregates)
            raise ValueError(
                f"makes no column {column!r}, which {role} asks for; it makes {names}: add one, such as "
                f"MIN({column}) AS {column}"
            )
        given = GIVES[each.function] or kind
        if kinds.setdefault(each.name, given) != given:
            raise ValueError(
                f"makes {each.name!r}, which is used as {kinds[each.name]} and as {given}; make a second column of it"
            )
    return kinds


# What a column must hold to be read as a kind of value: as attributes of a schema say it.
_HOLDS = {"text": "category", "boolean": "boolean", "date": "date", "timestamp": "date"}


def uses_by(rule: PersonRule, schema: Grouped) -> Iterator[tuple[str, str, str]]:
    """Uses of the table's columns by a rule: (role for messages, kind, column name)."""
    yield "per_person", "unit", rule.person
    kinds = kinds_of(rule, schema.attributes, schema.measures)
    for each in rule.aggregates:
        if each.name not in kinds:
            continue
        role = f"per_person ({each.name})"
        if each.argument is not None:
            anything = each.function in ("values", "different")
            yield role, "period" if anything else _HOLDS.get(kinds[each.name], "number"), each.argument
        if each.order is not None:
            yield role, "period", each.order


def _kind(part: Attribute) -> str:
    if isinstance(part, Date):
        return "timestamp" if part.has_time else "date"
    if isinstance(part, Boolean):
        return "boolean"
    return "text" if isinstance(part, Category) and not part.numeric else "number"
