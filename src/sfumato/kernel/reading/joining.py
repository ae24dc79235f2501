"""`LinkedTable`: rows of a table that refer by keys to rows of a parent table, up to a root; read as one table.

Which rows are kept is decided by one SELECT over all tables up to the root, which becomes the FROM of the one statement
(`Derived`). From the root down, for each table above:

    one      one row for each pair of holder and key: of a root the holder is the unit, of a child its parent's key
    cap      at most `at_most` keys of each holder
    alone    a key that several holders have left is nobody's, and falls out

Rows of the child then find the one row above that has their key; orphans and rows without a key find none. The
statement itself keeps at most `at_most` rows of each key, once they are placed.

Privacy leans on three properties of it (docs/privacy.md, theorem L).
1. What is kept of a holder depends on that holder's rows and the random key alone; rows that tie are equal.
2. So at most `at_most` keys of each holder can change their state if that holder comes or goes, and by induction at
   most `limit` rows of the child in all if a unit does.
3. Keys are read, row by row, to one of few types in which equality is that of values: texts by their bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import pairwise
from math import prod

from sqlglot import exp

from sfumato.errors import PrivacyError, TableError
from sfumato.frozen import dataclass
from sfumato.kernel.counts import Aggregate, Rows
from sfumato.kernel.reading.binning import read_unit
from sfumato.kernel.reading.checking import Checked
from sfumato.kernel.reading.engines import Column, Derived, Engine
from sfumato.kernel.reading.expressions import (
    SQL,
    TEXTS,
    cast,
    column,
    first_of_each,
    is_present,
    named,
    select,
    type_of,
    whole,
)
from sfumato.kernel.reading.people import grouped, with_expressions
from sfumato.kernel.reading.recoding import with_made_columns
from sfumato.kernel.reading.table import Table, fitting, used_by
from sfumato.schema import PrivacyUnit, Schema
from sfumato.schema.dialect import same_name
from sfumato.schema.linked import TableInGroup
from sfumato.schema.per_person import COUNTS

KEY = "(key of its parent)"  # what a reading takes for the unit of a child's row; it is capped by that
Use = tuple[str, str, str]  # of a column: role for messages, kind, name
_FAMILIES = TEXTS, exp.DataType.INTEGER_TYPES, exp.DataType.REAL_TYPES  # types whose values are compared as they are


@dataclass(frozen=True)
class Placed:
    """A table of a linked schema and the engine that reads it."""

    table: TableInGroup
    engine: Engine = field(repr=False)


@dataclass(frozen=True)
class LinkedTable(Table):
    """Private table of a linked schema.

    chain: the tables from the root down to itself. below: the child table, if any, that is aggregated into columns.
    """

    chain: tuple[Placed, ...] = ()
    below: tuple[Placed, ...] = ()

    def check(self, schema: Schema, period: str | None = None, *, with_people: bool = False) -> None:
        """Refuse, before anything is spent, a schema that these tables cannot serve."""
        self.joined(schema, 0).check(self.read_as(schema))

    def read(self, schema: Schema, key: int, *, for_margins: bool = False, **of_series: object) -> Aggregate | Rows:
        """Read the rows whose parents are kept, as `Table.read` does; `read_as` refuses a series."""
        return self.joined(schema, key).read(self.read_as(schema), key, for_margins=for_margins)

    def look(self, schema: Schema, period: str | None = None) -> Checked:
        """NOT PRIVATE: as `Table.look`, of the rows whose parents are kept."""
        return self.joined(schema, 0).look(self.read_as(schema))

    def derived(self, schema: Schema) -> bool:
        """Whether values that the schema uses, or that link tables, are computed on reading."""
        if len(self.chain) == 1 and not self.below:
            return super().derived(self.read_as(schema))
        return any(one.derived for one in self.joined(schema, 0).engine.columns)

    def read_as(self, schema: Schema) -> Schema:
        """The schema by which rows are read: capped by unit or by their parent's key. The charge is by the limit."""
        limit, own = prod(place.table.at_most for place in self.chain), self.chain[-1].table
        if schema.privacy_unit.contributions != limit or schema.series is not None:
            raise PrivacyError("the limits of a linked table are not those that its schema is charged for")
        unit = PrivacyUnit(column=own.unit or KEY, contributions=own.at_most)
        if own.by is None and not self.below:
            return schema.model_copy(update={"privacy_unit": unit})
        # What rules make was made before the join, and columns have the names that attributes give them.
        return schema.model_copy(update={"privacy_unit": unit, "recode": None, "with_": None, "made": {}})

    def joined(self, schema: Schema, key: int) -> Table:
        """The joined rows as a table. A seam for the audit, whose broken readers override it."""
        if len(self.chain) == 1 and not self.below:
            return Table(self.engine, self.allow_views)
        rows = join_rows(self.chain, self.below, schema, key, allow_views=self.allow_views)
        return Table(rows, self.allow_views)


class Level:
    """One table of the join, with its columns renamed so that no two tables share a name.

    uses: of its columns. Rules that compute columns (`recode`, `with`) are applied row by row, before the join.
    """

    def __init__(self, number: int, place: Placed, uses: Sequence[Use], allow_views: bool) -> None:
        self.table, self.engine = place.table, place.engine
        self._number, self._source = number, Table(place.engine, allow_views)
        self._schema = place.table.schema.model_copy(update={"file": place.table.file})
        self._made: Derived | None = None
        self.used: dict[str, Column] = {}  # columns of the table or of what rules make of it, by their references
        self.renamed: dict[str, Column] = {}
        if self._schema.made:
            if self.engine.dialect == "spark":
                raise TableError("recode and with were not tried on linked tables in Spark; make the columns there")
            told = [(f"tables.{self.table.name}.{role}", kind, name) for role, kind, name in uses]
            find = partial(self._source.source, self._schema)
            self._made, _ = with_made_columns(self.engine, self._schema.made, told, find)

    def column(self, role: str, kind: str, wanted: str, *, who: bool = False) -> Column:
        """Register a column as used; return it under its new name. who: keep its identity of persons, if it has one."""
        told = f"tables.{self.table.name}.{role}"
        if self._made is None:
            found = self._source.source(self._schema, told, kind, wanted)
        else:
            found = fitting(self._made, [(told, kind, wanted)])[wanted]
        if kind == "unit":
            _refuse_inexact(found, self.engine.dialect)
        known = self.used.get(found.reference)
        own = found if who or (known is not None and known.who) else replace(found, who=None)
        self.used[own.reference] = own
        name = f"t{self._number}_{list(self.used).index(own.reference)}"
        found = self.renamed[name] = replace(own, reference=name, who=f"{name}w" if own.who else None)
        return found if who else replace(found, who=None)

    @property
    def reads(self) -> tuple[Column, ...]:
        """Columns of the table itself that are read."""
        return tuple(self.used.values()) if self._made is None else self._made.source[1]

    def rows(self) -> exp.Select:
        """SELECT that renames the used columns, and nothing else."""
        pairs = zip(self.used.values(), self.renamed.values(), strict=True)
        names = [both for old, new in pairs for both in ((old.reference, new.reference), (old.who, new.who))]
        wanted = [named(column(old), new) for old, new in names if old is not None and new is not None]
        return exp.Select(expressions=wanted).from_((self._made or self.engine).table(), copy=False)


def join_rows(
    chain: Sequence[Placed], below: Sequence[Placed], schema: Schema, key: int, *, allow_views: bool
) -> Derived:
    """Join a chain of tables, parents first: the rows of the last table whose ancestors are kept, as an engine.

    below: the child table, if any, that is aggregated into columns of the last. schema: of the last table. key: chooses
    which keys of a holder are kept.
    """
    engine = chain[-1].engine
    levels = [Level(n, place, _uses(chain, n, schema), allow_views) for n, place in enumerate(chain)]
    last = levels[-1]
    whose = levels[0].column("unit", "unit", levels[0].table.unit or "", who=True)
    holders, keys = [read_unit(whose, engine)], list[SQL]()
    for above, under in pairwise(levels):
        holder, as_text = _linked(above, under)
        keys.append(read_unit(holder[0], engine, as_text=as_text))
        holders.append(read_unit(holder[1], engine, as_text=as_text))
    inherited = {}
    for name in last.table.with_parents:
        level = levels[_origin(name, chain)]
        attribute = level.table.schema.attributes[name]
        inherited[name] = level.column(f"attributes.{name}", attribute.type, attribute.column)
    columns = [last.column(*use) for use in _own_uses(last.table, schema)]
    children = [Level(len(chain), child, _uses_below(last.table), allow_views) for child in below]
    rows, amounts = _with_amounts(last, children[0], schema) if children else (last.rows(), [])
    columns += amounts
    if len(chain) == 1:
        return Derived(_together(last, children), rows, [whose, *columns], last.reads)
    held: exp.Select | None = None
    for level, holder_of, its_key in zip(levels, holders, keys, strict=False):
        held = _held(level, held, (holder_of, its_key), [*inherited.values()], engine, key)
    assert held is not None  # noqa: S101 (the chain has two tables)
    raw = list(dict.fromkeys(one.reference for one in inherited.values()))
    own = list(dict.fromkeys(one.reference for one in columns))
    rows = select([named(holders[-1], "h"), *map(column, own)], rows)
    joined = _join([named(column("h", "rows"), "k"), *_of("rows", own), *_of("above", raw)], rows, held)
    columns += [replace(one, name=name) for name, one in inherited.items()]
    columns.append(Column(KEY, None, "k", who="k"))
    return Derived(_together(last, [*levels[:-1], *children]), joined, columns, last.reads)


def _linked(above: Level, below: Level) -> tuple[tuple[Column, Column], bool]:
    """Key of a table, the child's column that refers to it, and whether both are compared as text."""
    pair = above.column("key", "unit", above.table.key or ""), below.column("by", "unit", below.table.by or "")
    return pair, _compared_as_text(pair, above, below)


def _with_amounts(level: Level, child: Level, schema: Schema) -> tuple[exp.Select, list[Column]]:
    """SQL of a table's rows with aggregates of the child rows that refer to them, and the columns of these.

    A row that stays when a unit goes has a key that is still there, so the child's rows of it stay too, and so do
    their aggregates: these are computed as `people.py` computes one row a person, with the key in place of the person
    (docs/privacy.md, theorems L and P). Without any child row a count is 0 and all else is missing.
    """
    rule, engine = level.table.amounts, level.engine
    assert rule is not None  # noqa: S101 (there is a child because of it)
    pair, as_text = _linked(level, child)
    columns = {name: child.column(role, kind, name) for role, kind, name in _uses_below(level.table)}
    many = Derived(child.engine, child.rows(), [*child.renamed.values()], ())
    people, made = grouped(many, rule, columns, schema, read_unit(pair[1], engine, as_text=as_text))
    names = [one for each in level.renamed.values() for one in (each.reference, each.who) if one is not None]
    wanted = _of("rows", names)
    for number, one in made.items():
        value: SQL = column(one.reference, "below")
        if rule.aggregates[number].function in COUNTS:
            value = cast(exp.Coalesce(this=value, expressions=[whole(0)]), "bigint")
        wanted.append(named(value, one.reference))
    on = exp.EQ(this=read_unit(pair[0], engine, as_text=as_text), expression=column("who", "below"))
    joined = select(wanted, level.rows())
    joined = joined.join(people.subquery("below", copy=False), on=on, join_type="left", copy=False)
    return with_expressions(joined, names, rule, made, engine)


def _together(own: Level, others: Sequence[Level]) -> Engine:
    """Engine of a table that can read the other tables in the same statement."""
    beside = getattr(own.engine, "beside", None)
    if beside is None or any(type(other.engine) is not type(own.engine) for other in others):
        raise TableError(
            "linked tables are read together, from files, frames, SQLite, DuckDB, PostgreSQL or Spark; copy them to one"
        )
    renamed = [one for level in (*others, own) for one in level.renamed.values()]
    engine: Engine = beside([(other.engine, other.reads) for other in others], renamed)
    return engine


def _origin(name: str, chain: Sequence[Placed]) -> int:
    """Index in a chain of the table that an attribute inherited by the last one comes from."""
    number = len(chain) - 2
    while name in chain[number].table.with_parents:
        number -= 1
    return number


def _own_uses(table: TableInGroup, schema: Schema) -> list[Use]:
    """Uses of a table's own columns by its schema."""
    taken = {f"attributes.{name}" for name in table.with_parents} | {"privacy_unit"}
    made = {same_name(name) for name in table.from_below}
    return [use for use in used_by(schema) if use[0] not in taken and same_name(use[2]) not in made]


def _uses_below(table: TableInGroup) -> list[Use]:
    """Uses of a child's columns by the aggregates of its rows."""
    return [
        ("by" if kind == "unit" else "children", kind, name) for _, kind, name in getattr(table.amounts, "reads", ())
    ]


def _uses(chain: Sequence[Placed], number: int, schema: Schema) -> list[Use]:
    """Uses of one table's columns in the statement of the last one."""
    table, last = chain[number].table, chain[-1].table
    uses = [("unit", "unit", table.unit or "") if table.by is None else ("by", "unit", table.by)]
    if table is last:
        keys = [("key", "unit", table.key or "")] if table.amounts else []
        return [*uses, *keys, *_own_uses(table, schema)]
    taken = [name for name in last.with_parents if _origin(name, chain) == number]
    parts = [(f"attributes.{name}", table.schema.attributes[name]) for name in taken]
    return [*uses, ("key", "unit", table.key or ""), *((role, part.type, part.column) for role, part in parts)]


def _refuse_inexact(key: Column, dialect: str) -> None:
    """Refuse keys of which two that differ can be equal, 0.0 and -0.0 or 1.0 and 1.00: either could stand for both."""
    kind = type_of(key, dialect)
    if kind in exp.DataType.FLOAT_TYPES or (kind in exp.DataType.REAL_TYPES and dialect == "postgres"):
        raise TableError(
            f"the column {key.name!r} links tables and is of type {key.type}; convert it to whole numbers or text"
        )


def _compared_as_text(pair: tuple[Column, Column], above: Level, below: Level) -> bool:
    """Whether a key is compared as text: where a source has no types. Two types that differ are refused."""
    kinds = [type_of(one, above.engine.dialect) for one in pair]
    if {None, exp.DataType.Type.NULL} & {*kinds}:
        return True
    families = [next((n for n, family in enumerate(_FAMILIES) if kind in family), kind) for kind in kinds]
    if families[0] != families[1]:
        key, by = pair
        raise TableError(
            f"tables.{below.table.name}.by is of type {by.type} ({by.name!r}), and the key of {above.table.name} of "
            f"type {key.type} ({key.name!r}), so that no two of them are equal; convert one of the columns"
        )
    return False


def _held(
    level: Level, above: exp.Select | None, pair: tuple[SQL, SQL], taken: Sequence[Column], engine: Engine, key: int
) -> exp.Select:
    """SQL of the keys of a table with exactly one holder (k), each with the values that tables below inherit.

    above: of the table above, whose keys are the holders; None of a root, whose holders are units.
    """
    own = {one.reference: one for one in taken if one.reference in level.renamed}
    names = list(dict.fromkeys(own))
    rows = select([named(pair[0], "h"), named(pair[1], "k"), *map(column, names)], level.rows())
    rows = select([*map(column, ("h", "k", *names))], rows)
    rows = rows.where(is_present(column("h")), is_present(column("k")), copy=False)
    if above is not None:
        passed = dict.fromkeys(one.reference for one in taken if one.reference in above.named_selects)
        names += passed
        rows = _join([*_of("rows", ("h", "k", *own)), *_of("above", passed)], rows, above)
    rows = _one_each(rows, names, [_in_order(one, engine) for one in own.values()], engine, key)
    if above is None and pair[0] == pair[1]:
        return select([*map(column, ("k", *names))], rows)  # each unit has one key, its own
    by, counting = [engine.scramble([column("h"), column("k"), whole(key % 2**63)]), column("k")], _counting(engine)
    rows = first_of_each(rows, ["k", *names], ["h"], level.table.at_most, by, count_first=counting)
    return first_of_each(rows, ["k", *names], ["k"], 1, count_first=counting)  # a key of two holders is nobody's


def _counting(engine: Engine) -> bool:
    """Whether to count a holder's keys before sorting: faster where few holders exceed the limit."""
    return engine.dialect == "duckdb"


def _one_each(rows: exp.Select, names: Sequence[str], values: Sequence[SQL], engine: Engine, key: int) -> exp.Select:
    """SQL of one row for each pair of holder and key, the first by a hash of the row; ties are equal rows.

    names: the columns that are carried along. values: those of the table itself, by which its rows differ.
    """
    if not values:
        return rows.distinct(copy=False)
    drawn = engine.scramble([column("h"), column("k"), *values, whole(key % 2**63)])
    by = [drawn, *(value.copy() for value in values)]
    return first_of_each(rows, ["h", "k", *names], ["h", "k"], 1, by, count_first=_counting(engine))


def _in_order(one: Column, engine: Engine) -> SQL:
    """SQL sort key of a raw value, equal only for equal values: text by its bytes."""
    if type_of(one, engine.dialect) in exp.DataType.INTEGER_TYPES:
        return column(one.reference)
    return engine.bytes_of(engine.safe_cast(column(one.reference), one, "text"))


def _of(table: str, names: Iterable[str]) -> list[SQL]:
    return [column(name, table) for name in names]


def _join(wanted: list[SQL], rows: exp.Select, above: exp.Select) -> exp.Select:
    """SQL of rows joined with their one parent row."""
    on = exp.EQ(this=column("h", "rows"), expression=column("k", "above"))
    return select(wanted, rows).join(above.subquery("above", copy=False), on=on, copy=False)
