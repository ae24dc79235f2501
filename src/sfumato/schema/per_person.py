"""`per_person`: a SELECT that makes one row of a person's many, checked to look at that person's rows alone.

    SELECT patient, COUNT(*) AS visits, MIN(age) AS age FROM visits WHERE kind = 'stay' GROUP BY patient

For privacy only what is a function of the set of one person's rows is taken: aggregates of expressions of single rows
(`sfumato.schema.recode`), grouped by the person, and expressions of these aggregates. Everything else is refused by
name. `sfumato.kernel.reading.people` turns the result into an engine's SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.effort import DEEPEST, MOST_CHARACTERS, MOST_ITEMS
from sfumato.errors import SchemaError
from sfumato.frozen import dataclass
from sfumato.schema.attributes import Attribute, Boolean, Category, Date
from sfumato.schema.dialect import same_name
from sfumato.schema.parts import Measure, PrivacyUnit, Weight, shown
from sfumato.schema.recode import Expression, Kind, as_kind, expression_of
from sfumato.schema.series import Series

if TYPE_CHECKING:
    from sqlglot import exp

FORM = "SELECT person, COUNT(*) AS visits, MIN(age) AS age FROM visits GROUP BY person"
KNOWN = "COUNT, COUNT(DISTINCT x), SUM, AVG, MIN, MAX, BOOL_OR, BOOL_AND, FIRST(x ORDER BY day) and LAST"
# The kind of value that an aggregate gives; None where it is that of its argument, which its use decides.
GIVES: dict[str, Kind | None] = {
    **dict.fromkeys(("rows", "values", "different", "sum", "mean"), "number"),
    **dict.fromkeys(("any", "all"), "boolean"),
    **dict.fromkeys(("least", "greatest", "first", "last")),
}
COUNTS = ("rows", "values", "different")
_FUNCTIONS = {
    **{"sum": "sum", "avg": "mean", "min": "least", "max": "greatest", "logicalor": "any", "logicaland": "all"},
    **{"first": "first", "firstvalue": "first", "last": "last", "lastvalue": "last", "every": "all", "some": "any"},
    **{"any": "any", "count": "count", "countif": "countif"},
}
# Parts of a SELECT, what they are called, and why not, with what to write instead.
_REFUSED = {
    "with_": ("WITH", "but one plain SELECT is read; write the columns of the table itself"),
    "distinct": ("DISTINCT", "but each person has one row anyway; leave it out"),
    "joins": ("a JOIN", "but it must read one table, in which a person's rows are all that counts; join before it"),
    "laterals": ("LATERAL", "but it must read one table; join before it"),
    "having": ("HAVING", "which leaves people out; make a column of it, and filter by that in queries"),
    "order": ("ORDER BY", "but rows of a release have no order; leave it out"),
    "limit": ("LIMIT", "which rows of others would decide; leave it out"),
    "offset": ("OFFSET", "which rows of others would decide; leave it out"),
    "qualify": ("QUALIFY", "which rows of others would decide; leave it out"),
    "windows": ("WINDOW", "in which rows of others count; write an aggregate with GROUP BY"),
    "sample": ("a sample", "which draws rows; leave it out"),
    "pivots": ("PIVOT", "but one plain SELECT is read; write COUNT(*) FILTER (WHERE ...) for each column"),
}
_READ = {"kind", "hint", "expressions", "from_", "where", "group"}


@dataclass(frozen=True)
class Aggregate:
    """Aggregate of one person's rows. order: of FIRST and LAST. condition: which rows it is of; all if None."""

    function: str
    argument: Expression | None = None
    order: Expression | None = None
    condition: Expression | None = None

    @property
    def parts(self) -> list[Expression]:
        """The expressions of single rows in it."""
        return [part for part in (self.argument, self.order, self.condition) if part is not None]


@dataclass(frozen=True)
class PersonRule:
    """Checked `per_person` rule: the person's column, the table, and the aggregates that make one row.

    where: which rows of the table count. aggregates: by their numbers. columns: by name, expressions of the
    aggregates, in which these are columns called by their numbers.
    """

    person: str
    table: str
    where: Expression | None
    aggregates: dict[str, Aggregate]
    columns: dict[str, Expression]

    @property
    def leaves(self) -> Iterator[Expression]:
        """Column references of the rule, each with its kind; None where that is open, as of a column only counted."""
        parts = [part for each in self.aggregates.values() for part in each.parts]
        for part in [*parts, self.where] if self.where else parts:
            yield from part.leaves

    @property
    def reads(self) -> Iterator[tuple[str, str, str]]:
        """Uses of the table's columns: (role for messages, kind, column name)."""
        yield "per_person", "unit", self.person
        for leaf in self.leaves:
            yield "per_person", _HOLDS[leaf.kind], leaf.value


# What a column must hold to be read as a kind of value: as attributes of a schema say it.
_HOLDS: dict[Kind | None, str] = {
    **{"number": "number", "text": "category", "boolean": "boolean", "date": "date", "time": "date"},
    None: "period",  # anything that is compared with itself alone
}


def checked_text(value: object) -> str:
    """Validate the text of a rule and return it; ValueError names what is not allowed and what to write instead."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"is {shown(value)}; write {FORM}")
    person_rule(value)
    return value.strip()


@lru_cache(maxsize=64)
def person_rule(text: str) -> PersonRule:
    """Parse and check a rule; ValueError names what is not allowed."""
    tree = _select(text)
    for key, (what, instead) in _REFUSED.items():
        if tree.args.get(key):
            raise ValueError(f"has {what}, {instead}")
    if odd := [key for key, part in tree.args.items() if part and key not in _READ]:
        raise ValueError(f"has {odd[0].strip('_').upper()}, which is not read; write {FORM}")
    if len(tree.expressions) > MOST_ITEMS:
        raise ValueError(f"has more than {MOST_ITEMS} columns; write fewer")
    table, person = _table(tree), _person(tree)
    where = tree.args.get("where")
    condition = None if where is None else _expression("WHERE", where.this, "boolean")
    aggregates, columns = list[Aggregate](), dict[str, Expression]()
    for item in tree.expressions:
        if item.key == "column" and same_name(item.name) == same_name(person):
            continue
        name = _name(item, person)
        if same_name(name) in {same_name(person), *map(same_name, columns)}:
            raise ValueError(f"makes two columns called {name!r}; give one of them another name, with AS")
        columns[name] = _column(name, item.this, aggregates)
    if not columns:
        raise ValueError(f"makes no column besides {person}; add what a person's rows amount to, as in {FORM}")
    return PersonRule(person, table, condition, {str(n): each for n, each in enumerate(aggregates)}, columns)


def _select(text: str) -> exp.Select:
    """Parse an untrusted text to a syntax tree, bounded in length and depth."""
    import logging

    import sqlglot
    from sqlglot import errors, exp

    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"has more than {MOST_CHARACTERS:,} characters; write it shorter")
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth > DEEPEST or character == "[":
            raise ValueError(f"has [ or more than {DEEPEST} parentheses in each other; write it simpler")
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


def _table(tree: exp.Select) -> str:
    """Name of the only table in FROM; strips it from qualified columns."""
    from sqlglot import exp

    source = tree.args.get("from_")
    if source is None:
        raise ValueError("has no FROM; name the table that has many rows of each person, as in FROM visits")
    table = source.this
    if (
        table.key != "table"
        or not table.name
        or set(table.args) - {"this", "db", "catalog", "alias"} & {key for key, part in table.args.items() if part}
    ):
        raise ValueError("reads something else than a table; write FROM and the name of one, without a subquery")
    known = {same_name(table.name), same_name(table.alias or table.name)}
    for column in tree.find_all(exp.Column):
        if column.table and same_name(column.table) in known:
            column.set("table", None)
    return str(table.name)


def _person(tree: exp.Select) -> str:
    group = tree.args.get("group")
    keys = [] if group is None else group.expressions
    plain = group is not None and all(not part or key == "expressions" for key, part in group.args.items())
    if not plain or len(keys) != 1 or keys[0].key != "column" or keys[0].table:
        raise ValueError(
            "must be grouped by the column of the privacy unit and by nothing else, so that each person has one row; "
            "write GROUP BY and that column"
        )
    return str(keys[0].name)


def _name(item: Any, person: str) -> str:
    if item.key in ("star", "column") or (item.key == "alias" and item.this.key in ("star", "column")):
        bare = item.this if item.key == "alias" else item
        if bare.key == "column" and same_name(bare.name) == same_name(person):
            raise ValueError(f"gives {person} another name; write it without AS")
        raise ValueError(f"has {_written(bare)} alone, of which a person has many; write one of {KNOWN}")
    if item.key != "alias":
        raise ValueError(f"makes a column without a name; write {_written(item)} AS and a name")
    return str(item.alias)


def _column(name: str, node: Any, aggregates: list[Aggregate]) -> Expression:
    """Read an expression of aggregates: each is appended to the list and replaced by a column named by its index."""
    from sqlglot import exp

    def put(inner: Any) -> Any:
        """Replace the aggregates in a node, outermost first."""
        if inner.key == "column":
            raise ValueError(
                f"has {inner.name} in {name} outside of an aggregate, of which a person has many; write MIN"
            )
        found = _aggregate(name, inner)
        if found is None:
            return inner
        aggregates.append(found)
        column = exp.column(str(len(aggregates) - 1))
        kind = GIVES[found.function]
        return column if kind is None else exp.Cast(this=column, to=exp.DataType.build(_WORD[kind]))

    first = len(aggregates)
    replaced = node.copy().transform(put, copy=False)
    found = _expression(name, replaced)
    if len(aggregates) == first:
        raise ValueError(f"has no aggregate in {name}; write one of {KNOWN}")
    return found


_WORD = {"number": "DOUBLE", "boolean": "BOOLEAN"}


def _aggregate(name: str, node: Any) -> Aggregate | None:
    """Convert a syntax node to an `Aggregate`; None where its function is no aggregate."""
    from sqlglot import exp

    if node.key == "window":
        raise ValueError(f"has a window in {name}, in which rows of others count; write an aggregate without OVER")
    condition = None
    if node.key == "filter":
        condition, node = _expression(name, node.expression.this, "boolean"), node.this
    key = str(node.this).lower() if node.key == "anonymous" else node.key
    function = _FUNCTIONS.get(key)
    if function is None:
        if isinstance(node, exp.AggFunc) or node.key in ("ignorenulls", "respectnulls", "withingroup"):
            raise ValueError(f"has {_written(node)} in {name}, which is not among what can be read: {KNOWN}")
        return None
    argument = node.expressions[0] if node.key == "anonymous" and node.expressions else node.this
    if function == "countif":
        argument, function, condition = None, "count", _and(condition, _expression(name, argument, "boolean"))
    if function == "count":
        return _count(name, argument, condition)
    order = None
    if function in ("first", "last"):
        function, argument, order = _in_order(name, function, argument)
    if getattr(argument, "key", "") in ("distinct", "order"):
        raise ValueError(f"has {_written(node)}; DISTINCT is read in COUNT alone, and ORDER BY in FIRST and LAST")
    return Aggregate(function, _expression(name, argument, GIVES[function]), order, condition)


def _and(one: Expression | None, other: Expression) -> Expression:
    return other if one is None else Expression("and", "boolean", (one, other), weight=1 + one.weight + other.weight)


def _count(name: str, argument: Any, condition: Expression | None) -> Aggregate:
    if argument is None or argument.key in ("star", "literal"):
        return Aggregate("rows", condition=condition)
    if argument.key != "distinct":
        return Aggregate("values", _expression(name, argument), condition=condition)
    if len(argument.expressions) != 1:
        raise ValueError(f"has COUNT(DISTINCT ...) of several in {name}; it takes one column or expression")
    return Aggregate("different", _expression(name, argument.expressions[0]), condition=condition)


def _in_order(name: str, function: str, argument: Any) -> tuple[str, Any, Expression]:
    """FIRST or LAST, which need an order: rows of a table have none."""
    if getattr(argument, "key", "") != "order" or len(argument.expressions) != 1:
        raise ValueError(f"has {function.upper()} in {name} without one order; write FIRST(x ORDER BY day)")
    by = argument.expressions[0]
    if by.args.get("desc"):
        function = "last" if function == "first" else "first"
    return function, argument.this, _expression(name, by.this)


def _expression(name: str, node: Any, kind: Kind | None = None) -> Expression:
    """Read an expression of single rows; kind: type that it must have, None for any."""
    if node is None:
        raise ValueError(f"has an aggregate of nothing in {name}; name a column in it")
    try:
        found = expression_of(node)
        return found if kind is None else as_kind(found, kind)
    except SchemaError as problem:
        raise ValueError(f"has {_written(node)} in {name}, and {problem}") from None


def _written(node: Any) -> str:
    return shown(node.sql(dialect="duckdb")).strip("'\"")


class Grouped(Protocol):
    """Protocol: the fields of a schema that its `per_person` rule uses."""

    per_person: str | None
    privacy_unit: PrivacyUnit
    attributes: dict[str, Attribute]
    measures: dict[str, Measure]
    weight: Weight | None
    series: Series | None


def with_one_row(data: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a schema with the one row of each person that `per_person` makes, where contributions are left out."""
    unit = data.get("privacy_unit")
    if data.get("per_person") is None or not isinstance(unit, Mapping):
        return dict(data)
    return {**data, "privacy_unit": {"contributions": 1, **unit}}


def rule_of(schema: Grouped) -> PersonRule:
    """Parse a schema's rule and resolve its kinds; refuse one that does not fit the unit or lacks used columns."""
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
    if schema.series is not None and schema.series.column is not None:
        raise SchemaError(
            "per_person and series.column are both stated, and a person's row is of no single period; release the "
            "rows of each period from a table of their own, and leave series.column out"
        )
    try:
        return settled(rule, uses_of(schema))
    except ValueError as problem:
        raise SchemaError(f"per_person {problem}") from None


def uses_of(schema: Grouped) -> Iterator[tuple[str, str, Kind]]:
    """Columns that a schema uses: (role for messages, name, kind of its values)."""
    for name, part in schema.attributes.items():
        kind: Kind = "number"
        if isinstance(part, Date):
            kind = "time" if part.has_time else "date"
        elif isinstance(part, Boolean):
            kind = "boolean"
        elif isinstance(part, Category) and not part.numeric:
            kind = "text"
        yield f"attributes.{name}", part.column, kind
    for name, measure in schema.measures.items():
        yield f"measures.{name}", measure.column, "number"
    if schema.weight is not None:
        yield "weight", schema.weight.column, "number"


def settled(rule: PersonRule, uses: Iterator[tuple[str, str, Kind]]) -> PersonRule:
    """Reduce a rule to used columns and their aggregates, and resolve each column's kind by its use."""
    made = {same_name(name): name for name in rule.columns}
    columns, kinds = dict[str, Expression](), dict[str, tuple[Kind, str]]()
    for role, wanted, needed in uses:
        name = made.get(same_name(wanted))
        if name is None:
            raise ValueError(
                f"makes no column {wanted!r}, which {role} asks for; it makes {', '.join(rule.columns)}: add one, such "
                f"as MIN({wanted}) AS {wanted}"
            )
        value = rule.columns[name]
        kind = value.kind if value.kind and needed == "text" else needed  # numbers are looked up in a list as text
        before, by = kinds.setdefault(name, (kind, role))
        if before != kind:
            raise ValueError(f"makes {name!r}, a {before} to {by} and a {kind} to {role}; make two columns of it")
        try:
            columns[name] = as_kind(value, kind)
        except SchemaError as problem:
            raise ValueError(f"makes {name!r} for {role}, and {problem}") from None
    used = {leaf.value: leaf.kind for value in columns.values() for leaf in value.leaves}
    aggregates = {number: _of_kind(rule.aggregates[number], kind) for number, kind in used.items()}
    return PersonRule(rule.person, rule.table, rule.where, aggregates, columns)


def _of_kind(each: Aggregate, kind: Kind | None) -> Aggregate:
    """Resolve open kinds: MIN, MAX, FIRST and LAST are of `kind`; bare columns counted or ordered by stay open."""
    argument = each.argument
    if argument is not None and GIVES[each.function] is None:
        argument = as_kind(argument, kind)
    elif argument is not None and argument.op != "column":
        argument = as_kind(argument, argument.kind)
    order = each.order if each.order is None or each.order.op == "column" else as_kind(each.order, each.order.kind)
    return Aggregate(each.function, argument, order, each.condition)
