"""`LinkedTable`: rows of a table that hang on rows of another, as a table like any other.

Which rows they are is settled by one SELECT over all tables up to the root, which becomes the FROM of the one statement
(`derived.py`). From the root down, for each table above:

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
from sfumato.kernel.reading.derived import Derived
from sfumato.kernel.reading.engines import Admit, Column, Engine
from sfumato.kernel.reading.expressions import SQL, TEXTS, cast, column, is_present, named, select, type_of, whole
from sfumato.kernel.reading.recoding import with_made_columns
from sfumato.kernel.reading.table import Table, fitting, used_by
from sfumato.schema import PrivacyUnit, Schema
from sfumato.schema.dialect import same_name
from sfumato.schema.linked import TableInGroup

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
    """Private table of a linked schema. chain: the tables from the root down to itself. below: those that it counts."""

    chain: tuple[Placed, ...] = ()
    below: tuple[Placed, ...] = ()

    def check(self, schema: Schema, period: str | None = None, *, with_people: bool = False) -> None:
        """Refuse, before anything is spent, a schema that these tables cannot serve."""
        self.joined(schema, 0).check(self.read_as(schema))

    def read(
        self,
        schema: Schema,
        key: int,
        *,
        for_margins: bool = False,
        period: str | None = None,
        admit: Admit | None = None,
    ) -> Aggregate | Rows:
        """Read the rows that hang on rows above, as `Table.read` does."""
        return self.joined(schema, key).read(self.read_as(schema), key, for_margins=for_margins)

    def look(self, schema: Schema, period: str | None = None) -> Checked:
        """NOT PRIVATE: as `Table.look`, of the rows that hang on rows above."""
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
        """The rows that hang on rows above, as a table. For the audit, whose broken ones are kinds of this."""
        if len(self.chain) == 1 and not self.below:
            return Table(self.engine, self.allow_views)
        if self.below:
            return Table(count_below(self.chain[0], self.below, schema, self.allow_views), self.allow_views)
        return Table(join_rows(self.chain, schema, key, allow_views=self.allow_views), self.allow_views)


class Level:
    """A table in the statement, whose columns have names there that those of no other table have.

    uses: of its columns. Rules that make some of them (`recode`, `with`) work row by row, before the join.
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
        """Column that is used, under its name in the statement. who: with what tells persons apart, where it has it."""
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
        """SELECT that renames the columns that are used, and does nothing else."""
        pairs = zip(self.used.values(), self.renamed.values(), strict=True)
        names = [both for old, new in pairs for both in ((old.reference, new.reference), (old.who, new.who))]
        wanted = [named(column(old), new) for old, new in names if old is not None and new is not None]
        return exp.Select(expressions=wanted).from_((self._made or self.engine).table(), copy=False)


def join_rows(chain: Sequence[Placed], schema: Schema, key: int, *, allow_views: bool) -> Derived:
    """The rows of the last table of a chain that hang on rows of the first, as an engine.

    schema: of the last table. key: chooses which keys of a holder are kept.
    """
    engine = chain[-1].engine
    levels = [Level(n, place, _uses(chain, n, schema), allow_views) for n, place in enumerate(chain)]
    last = levels[-1]
    holders = [read_unit(levels[0].column("unit", "unit", levels[0].table.unit or "", who=True), engine)]
    keys = list[SQL]()
    for above, below in pairwise(levels):
        pair = above.column("key", "unit", above.table.key or ""), below.column("by", "unit", below.table.by or "")
        as_text = _compared_as_text(pair, above, below)
        keys.append(read_unit(pair[0], engine, as_text=as_text))
        holders.append(read_unit(pair[1], engine, as_text=as_text))
    inherited = {}
    for name in last.table.with_parents:
        level = levels[_origin(name, chain)]
        attribute = level.table.schema.attributes[name]
        inherited[name] = level.column(f"attributes.{name}", attribute.type, attribute.column)
    own = {one.reference: one for one in (last.column(*use) for use in _own_uses(last.table, schema))}
    held: exp.Select | None = None
    for level, holder, its_key in zip(levels, holders, keys, strict=False):
        held = _held(level, held, (holder, its_key), [*inherited.values()], engine, key)
    assert held is not None  # noqa: S101 (a chain has two tables)
    raw = list(dict.fromkeys(one.reference for one in inherited.values()))
    rows = select([named(holders[-1], "h"), *map(column, own)], last.rows())
    joined = _join([named(column("h", "rows"), "k"), *_of("rows", own), *_of("above", raw)], rows, held)
    columns = [*own.values(), *(replace(one, name=name) for name, one in inherited.items())]
    columns.append(Column(KEY, None, "k", who="k"))
    return Derived(_together(last, levels[:-1]), joined, columns, last.reads)


def _together(own: Level, others: Sequence[Level]) -> Engine:
    """The engine of a table, with the other tables in it."""
    beside = getattr(own.engine, "beside", None)
    if beside is None or any(type(other.engine) is not type(own.engine) for other in others):
        raise TableError(
            "linked tables are read together, from files, frames, SQLite, DuckDB, PostgreSQL or Spark; copy them to one"
        )
    renamed = [one for level in (*others, own) for one in level.renamed.values()]
    engine: Engine = beside([(other.engine, other.reads) for other in others], renamed)
    return engine


def count_below(own: Placed, below: Sequence[Placed], schema: Schema, allow_views: bool) -> Derived:
    """The rows of a root, each with the number of rows of children that have its key.

    A row that stays when a unit goes has a key that is still there, so its children's rows stay too, and so does its
    number (docs/privacy.md, theorem L).
    """
    table, engine = own.table, own.engine
    made = {same_name(name) for name in table.counts.values()}
    links = [("unit", "unit", table.unit or ""), ("key", "unit", table.key or "")]
    uses = [use for use in _own_uses(table, schema) if same_name(use[2]) not in made]
    level = Level(0, own, [*links, *uses], allow_views)
    children = [Level(n, one, [("by", "unit", one.table.by or "")], allow_views) for n, one in enumerate(below, 1)]
    columns = [level.column(*links[0], who=True), *(level.column(*use) for use in uses)]
    found = {one.reference: one for one in columns}
    wanted = list[SQL]()
    joins = list[tuple[exp.Select, SQL]]()
    for n, child in enumerate(children):
        pair = level.column(*links[1]), child.column("by", "unit", child.table.by or "")
        as_text = _compared_as_text(pair, level, child)
        keyed = select([named(read_unit(pair[1], engine, as_text=as_text), "k")], child.rows())
        counted = select([column("k"), named(exp.Count(this=exp.Star()), "n")], keyed)
        counted = counted.where(is_present(column("k")), copy=False)
        counted.set("group", exp.Group(expressions=[column("k")]))
        joins.append(
            (counted, exp.EQ(this=read_unit(pair[0], engine, as_text=as_text), expression=column("k", f"b{n}")))
        )
        number = exp.Coalesce(this=column("n", f"b{n}"), expressions=[whole(0)])
        wanted.append(named(cast(number, "bigint"), f"n{n}"))
        name = table.counts[child.table.name]
        found[f"n{n}"] = Column(name, exp.DataType.build("bigint").sql(dialect=engine.dialect), f"n{n}")
    names = [one for each in level.renamed.values() for one in (each.reference, each.who) if one is not None]
    joined = select([*_of("rows", names), *wanted], level.rows())
    for n, (counted, on) in enumerate(joins):
        joined = joined.join(counted.subquery(f"b{n}", copy=False), on=on, join_type="left", copy=False)
    return Derived(_together(level, children), joined, [*found.values()], level.reads)


def _origin(name: str, chain: Sequence[Placed]) -> int:
    """Place in a chain of the table whose own an attribute is that the last one takes from above."""
    number = len(chain) - 2
    while name in chain[number].table.with_parents:
        number -= 1
    return number


def _own_uses(table: TableInGroup, schema: Schema) -> list[Use]:
    """Uses of a table's own columns by its schema."""
    taken = {f"attributes.{name}" for name in table.with_parents}
    return [use for use in used_by(schema) if use[0] not in taken and use[0] != "privacy_unit"]


def _uses(chain: Sequence[Placed], number: int, schema: Schema) -> list[Use]:
    """Uses of one table's columns in the statement of the last one."""
    table, last = chain[number].table, chain[-1].table
    uses = [("unit", "unit", table.unit or "") if table.by is None else ("by", "unit", table.by)]
    if table is last:
        return [*uses, *_own_uses(table, schema)]
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
    """SQL of the keys of a table that one holder alone has (k), each with the values that tables below take.

    above: of the table above, whose keys are the holders; None of a root, whose holders are units.
    """
    own = {one.reference: one for one in taken if one.reference in level.renamed}
    names = list(dict.fromkeys(own))
    rows = select([named(pair[0], "h"), named(pair[1], "k"), *map(column, names)], level.rows())
    rows = select([*map(column, ("h", "k", *names))], rows)
    rows = rows.where(is_present(column("h")), is_present(column("k")), copy=False)
    rows = _one_each(rows, own, engine, key)
    if above is not None:
        passed = [one.reference for one in taken if one.reference in above.named_selects]
        names += dict.fromkeys(passed)
        rows = _join([*_of("rows", ("h", "k", *own)), *_of("above", dict.fromkeys(passed))], rows, above)
    elif pair[0] == pair[1]:
        return select([*map(column, ("k", *names))], rows)  # each unit has one key, its own
    drawn = engine.scramble([column("h"), column("k"), whole(key % 2**63)])
    place = _numbered([column("h")], [drawn, column("k")])
    rows = select([*map(column, ("k", *names)), named(place, "place")], rows)
    rows = select([*map(column, ("k", *names))], rows).where(column("place") <= whole(level.table.at_most), copy=False)
    holders = exp.Window(this=exp.Count(this=exp.Star()), partition_by=[column("k")])
    rows = select([*map(column, ("k", *names)), named(holders, "holders")], rows)
    alone = exp.EQ(this=column("holders"), expression=whole(1))
    return select([*map(column, ("k", *names))], rows).where(alone, copy=False)


def _one_each(rows: exp.Select, own: dict[str, Column], engine: Engine, key: int) -> exp.Select:
    """SQL of one row for each pair of holder and key, chosen by a hash of the row; rows that tie are equal."""
    if not own:
        return rows.distinct(copy=False)
    values = [_in_order(one, engine) for one in own.values()]
    drawn = engine.scramble([column("h"), column("k"), *values, whole(key % 2**63)])
    place = _numbered([column("h"), column("k")], [drawn, *(value.copy() for value in values)])
    rows = select([*map(column, ("h", "k", *own)), named(place, "place")], rows)
    first = exp.EQ(this=column("place"), expression=whole(1))
    return select([*map(column, ("h", "k", *own))], rows).where(first, copy=False)


def _in_order(one: Column, engine: Engine) -> SQL:
    """SQL of a raw value by which rows can be put in an order in which only equal ones tie: text by its bytes."""
    if type_of(one, engine.dialect) in exp.DataType.INTEGER_TYPES:
        return column(one.reference)
    return engine.bytes_of(engine.safe_cast(column(one.reference), one, "text"))


def _numbered(of: list[SQL], by: list[SQL]) -> SQL:
    order = exp.Order(expressions=[exp.Ordered(this=part) for part in by])
    return exp.Window(this=exp.RowNumber(), partition_by=of, order=order)


def _of(table: str, names: Iterable[str]) -> list[SQL]:
    return [column(name, table) for name in names]


def _join(wanted: list[SQL], rows: exp.Select, above: exp.Select) -> exp.Select:
    """SQL of rows with the one row above whose key their holder is."""
    on = exp.EQ(this=column("h", "rows"), expression=column("k", "above"))
    return select(wanted, rows).join(above.subquery("above", copy=False), on=on, copy=False)
