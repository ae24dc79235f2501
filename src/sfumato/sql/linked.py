"""Route a statement about linked tables: to the one table that answers it, or to the sums of several.

`FROM visits JOIN persons USING (person_id)` is `FROM visits` where visits carries the columns of persons it names.
`COUNT(DISTINCT person_id)` of visits is the number of persons with at least one, where persons counts its visits. A
statement that is left with several tables is written over all of them together (releases/linked.py), in which
a column says whose a row is. Everything else is refused by name, with what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.reading import compiling, parse
from sfumato.sql.scope import SCHEMAS, bare, quoted, unsupported

if TYPE_CHECKING:
    from sqlglot import exp

RELEASE = "release"  # name of all tables together
TABLE = "linked_table"  # column that says whose a row is, where several tables are asked together


@dataclass(frozen=True)
class LinkedTable:
    """One of several linked tables. belongs_to, by: its parent table, and the foreign key column.

    key: primary key column. carried: columns copied from the tables above. counts: child tables, by name in small
    letters, each with the column of this table that counts a row's children.
    """

    schema: Schema
    belongs_to: str | None = None
    by: str | None = None
    key: str | None = None
    carried: frozenset[str] = frozenset()
    counts: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.schema.dataset

    def column(self, name: str) -> str | None:
        """Spelling of a column in this table, ignoring case; None without it."""
        schema = self.schema
        every = (*schema.attributes, *schema.group_columns, *schema.measures)
        return next((one for one in every if one.lower() == name.lower()), None)


class Routed(NamedTuple):
    """Rewritten statement, with the tables that it is about; one alone answers it by itself."""

    sql: str
    tables: tuple[str, ...]


def route(text: str, tables: Mapping[str, LinkedTable], brought: Iterable[str] = ()) -> Routed:
    """Rewrite a statement for the tables that answer it.

    tables: by name in small letters, parents first. brought: names of public tables given with the query.
    """
    from sqlglot import exp

    with compiling():
        tree = parse(text)
        written = _Statement(tree, tables, brought)
        for select in list(tree.find_all(exp.Select)):
            written.read(select)
        elsewhere = [written.found(table).name for table in written.base_tables(tree)]  # such as of PIVOT visits ON ill
        named = tuple(dict.fromkeys((*written.named, *elsewhere)))
        if len(named) <= 1:
            return Routed(tree.sql(dialect="duckdb") if written.changed else text, named)
        for select in list(tree.find_all(exp.Select)):
            written.tell_apart(select)
        if any(table.name != RELEASE for table in written.base_tables(tree)):
            raise unsupported("PIVOT in a statement about several tables", "ask each in a statement of its own")
        return Routed(tree.sql(dialect="duckdb"), named)


class _Statement:
    """Syntax tree that is rewritten in place.

    asked: table that answers each SELECT, by node id. both: SELECTs with sums of two tables. named: tables in use.
    """

    def __init__(self, tree: exp.Expression, tables: Mapping[str, LinkedTable], brought: Iterable[str]) -> None:
        from sqlglot import exp

        self.tables = tables
        self.made = {cte.alias.lower() for cte in tree.find_all(exp.CTE)} | {name.lower() for name in brought}
        self.asked: dict[int, str] = {}
        self.both: set[int] = set()
        self.named: list[str] = []
        self.changed = False

    def base_tables(self, tree: exp.Expression) -> Iterator[Any]:
        from sqlglot import exp

        return (node for node in tree.find_all(exp.Table) if self.is_base(node))

    def is_base(self, node: Any) -> bool:
        return node.key == "table" and bool(node.db or node.name.lower() not in self.made)

    def found(self, node: Any) -> LinkedTable:
        """The table that FROM names."""
        name = node.name.lower()
        if node.db.lower() in ("", *SCHEMAS) and name in self.tables and node.this.key == "identifier":
            return self.tables[name]
        there = ", ".join(table.name for table in self.tables.values())
        raise QueryError(f"no table {quoted(node)} in this file of linked tables; write FROM one of {there}")

    def read(self, select: Any) -> None:
        """Find the one table that answers a SELECT; joins of linked tables and counts of keys are resolved."""
        source = select.args.get("from_") or select.args.get("from")
        if source is None:
            return
        joins = select.args.get("joins") or []
        base = [node for node in (source.this, *(join.this for join in joins)) if self.is_base(node)]
        if not base:
            return
        table = self.found(base[0]) if len(base) == 1 else self._joined(select, source, joins)
        self.asked[id(select)] = self._count_keys(select, source, table)
        self.named.append(self.asked[id(select)])

    def _joined(self, select: Any, source: Any, joins: list[Any]) -> LinkedTable:
        """Replace a join of linked tables by its lowest table, which has one row for each row of the join."""
        from sqlglot import exp

        if not self.is_base(source.this):
            raise unsupported(f"a join of {quoted(source.this)} with several tables", "name a table first in FROM")
        nodes = {self._called(source.this): source.this}
        members = {self._called(source.this): self.found(source.this)}
        conditions: list[Any] = []
        for join in [join for join in joins if self.is_base(join.this)]:
            table, called = self.found(join.this), self._called(join.this)
            if called in members:
                raise unsupported(f"a join of {table.name} with itself", "count by key in two WITH queries, and JOIN")
            if join.args.get("on") is None and not join.args.get("using"):  # FROM visits, persons WHERE ...
                join.set("on", wanted.this if (wanted := select.args.get("where")) else None)
                select.set("where", None)
            conditions += self._link(join, table, members)
            nodes[called], members[called] = join.this, table
            joins.remove(join)
        lowest = max(members.items(), key=lambda item: len(self._above(item[1])))
        name, table = lowest
        above = {one.name.lower() for one in self._above(table)}
        for other in members.values():
            if other is not table and other.name.lower() not in above:
                raise unsupported(
                    f"a join of {table.name} with {other.name}, of which no row belongs to a row of the other,",
                    "count each by a column of the table that both belong to, in two WITH queries, and JOIN these",
                )
        select.set("joins", joins or None)
        source.set("this", nodes[name])
        clause = select.args.get("where")
        wanted = [*([clause.this] if clause else []), *conditions]
        select.set("where", exp.Where(this=exp.and_(*wanted)) if wanted else None)
        for column in [node for node in _own_nodes(select) if node.key == "column"]:
            self._take(column, table, name, members)
        self.changed = True
        return table

    @staticmethod
    def _called(node: Any) -> str:
        return str(node.alias or node.name).lower()

    def _above(self, table: LinkedTable) -> list[LinkedTable]:
        """Ancestors of a table, the parent first."""
        found = []
        while table.belongs_to is not None:
            table = self.tables[table.belongs_to.lower()]
            found.append(table)
        return found

    def _link(self, join: Any, table: LinkedTable, members: Mapping[str, LinkedTable]) -> list[Any]:
        """Check that a JOIN follows a link; return the other conditions of ON."""
        kind, side, method = (str(join.args.get(name) or "").upper() for name in ("kind", "side", "method"))
        links = [(table, one) if table.belongs_to == one.name else (one, table) for one in members.values()]
        links = [(child, parent) for child, parent in links if child.belongs_to == parent.name]
        if not links:
            raise unsupported(f"a join with {table.name}", f"the links of this file are {self.links}")
        child, parent = links[0]
        keeps_all = "LEFT" if child is not table else "RIGHT"  # of the child, none of whose rows is without a parent
        plain = kind in ("", "INNER", "OUTER", "CROSS") and not method
        if not plain or side not in ("", keeps_all) or (side and len(members) > 1):
            raise unsupported(f"{method or side or kind} JOIN of {child.name} and {parent.name}", f"write {self.links}")
        by, key = (child.by or "").lower(), (parent.key or "").lower()
        if using := [one.name.lower() for one in join.args.get("using") or []]:
            if using != [by] or by != key:
                raise unsupported(f"a join USING ({', '.join(using)})", f"write {self.links}")
            return []
        on = join.args.get("on")
        parts = [] if on is None else [bare(part) for part in (on.flatten() if on.key == "and" else [on])]
        linking = [part for part in parts if part.key == "eq" and _columns(part) == sorted([by, key])]
        if len(linking) != 1:
            what = f"a join of {child.name} and {parent.name} by anything but the key of {parent.name}"
            raise unsupported(what, f"write {self.links}")
        others = [part for part in parts if part is not linking[0]]
        if side and others:
            raise unsupported(f"{side} JOIN with more than the key in ON", "write the condition in WHERE")
        return others

    @property
    def links(self) -> str:
        return ", ".join(
            f"{one.name} JOIN {one.belongs_to} USING ({one.by})" for one in self.tables.values() if one.belongs_to
        )

    def _take(self, column: Any, table: LinkedTable, called: str, members: Mapping[str, LinkedTable]) -> None:
        """Refer a column of a join to its lowest table, `called` so in FROM; refused where that does not carry it."""
        from sqlglot import exp

        if column.this.key == "star" or column.db.lower() not in ("", *SCHEMAS):
            return
        name, whose = column.name, column.table.lower()
        if whose and whose not in members:
            raise QueryError(f"no table {column.table!r} in FROM; there are {', '.join(members)}")
        owner = members[whose] if whose else None
        own, keys = table.column(name), {one.lower() for one in (table.by, table.key) if one}
        if owner is not None and owner is not table and (own is None or own not in table.carried):
            known = owner.column(name) is not None
            if known or name.lower() != (owner.key or "").lower() or name.lower() not in keys:
                raise (
                    self._not_carried(name, owner, table)
                    if known
                    else QueryError(f"no column {name!r} in {owner.name}")
                )
        elif owner is None and own is None and name.lower() not in keys:
            for one in members.values():
                if one is not table and one.column(name) is not None:
                    raise self._not_carried(name, one, table)
        if whose:
            column.set("table", exp.to_identifier(called, quoted=True))
            column.set("db", None)

    @staticmethod
    def _not_carried(name: str, owner: LinkedTable, table: LinkedTable) -> QueryError:
        there = ", ".join(sorted(table.carried)) or "none of them"
        return QueryError(
            f"{name} of {owner.name} is not known of rows of {table.name}: of the columns of {owner.name} it carries "
            f"{there}; ask FROM {owner.name}, or have it published with with_parents: [{name}]"
        )

    def _count_keys(self, select: Any, source: Any, table: LinkedTable) -> str:
        """Replace COUNT(DISTINCT key) by COUNT(*), of parents with rows if the key is foreign; return its table."""
        from sqlglot import exp

        keys = [(node, key) for node in _own_nodes(select) if (key := _key_counted(node)) and not table.column(key)]
        own = [node for node, key in keys if key == (table.key or "").lower()]
        counts = [node for node, key in keys if table.belongs_to and key == (table.by or "").lower()]
        further = {(one.key or "").lower() for one in self._above(table)[1:]}
        for node, key in keys:
            if node not in own and node not in counts and key in further:
                raise unsupported(quoted(node), f"of the rows that {table.name} belong to, {table.by} are counted")
        for node in own:
            node.replace(exp.Count(this=exp.Star()))
            self.changed = True
        if not counts:
            return table.name
        parent, what = self.tables[(table.belongs_to or "").lower()], quoted(counts[0])
        column = parent.counts.get(table.name.lower())
        if column is None:
            raise unsupported(
                f"{what}, for {parent.name} does not say which of its rows have {table.name},",
                f"have {parent.name} published with children: SELECT {parent.key}, COUNT(*) AS {table.name} FROM "
                f"{table.name} GROUP BY {parent.key}",
            )
        _only_of_parent(select, table, parent, what)
        self.changed = True
        has_rows = exp.GT(this=exp.column(exp.to_identifier(column, quoted=True)), expression=exp.Literal.number(0))
        others = [
            node
            for node in _own_nodes(select)
            if isinstance(node, exp.AggFunc) and node not in counts and not _holds_aggregate(node)
        ]
        every = [node.replace(exp.Count(this=exp.Star())) for node in counts]
        if not others:
            select.where(has_rows, copy=False)
            called = self._called(source.this)
            source.this.set("this", exp.to_identifier(parent.name, quoted=True))
            source.this.set("alias", exp.TableAlias(this=exp.to_identifier(called, quoted=True)))
            return parent.name
        for node in others:
            _filter(node, _is_of(table.name))
        for node in every:
            _filter(node, exp.and_(_is_of(parent.name), has_rows.copy()))
        self.named.append(parent.name)
        self.both.add(id(select))
        return table.name

    def tell_apart(self, select: Any) -> None:
        """Rewrite a SELECT over one table to one over all tables, with a condition on the table's name."""
        from sqlglot import exp

        if (name := self.asked.get(id(select))) is None:
            return
        source = select.args.get("from_") or select.args.get("from")
        joins = select.args.get("joins") or []
        (node,) = [one for one in (source.this, *(join.this for join in joins)) if self.is_base(one)]
        if node.args.get("pivots"):
            raise unsupported("PIVOT in a statement about several tables", "ask each in a statement of its own")
        self._refuse_apart(select, self.tables[name.lower()])
        called = node.alias or node.name
        node.set("this", exp.to_identifier(RELEASE))
        node.set("db", None)
        node.set("alias", exp.TableAlias(this=exp.to_identifier(called, quoted=True)))
        if id(select) not in self.both:
            select.where(_is_of(name), copy=False)

    def _refuse_apart(self, select: Any, table: LinkedTable) -> None:
        """Refuse a column whose declaration differs between tables."""
        shared = shared_columns(self.tables.values())
        for node in _own_nodes(select):
            own = table.column(node.name) if node.key == "column" and node.this.key != "star" else None
            if own is not None and own in {*table.schema.attributes, *table.schema.measures} and own not in shared:
                raise unsupported(
                    f"{own} in a statement about several tables, of which another has a column {own} of other values,",
                    "ask each table in a statement of its own",
                )
            if node.key == "star" and node.parent is not None and node.parent.key != "count":
                raise unsupported("* in a statement about several tables", "name the columns")


def shared_columns(tables: Any) -> dict[str, Any]:
    """Attributes and measures, by name, with equal declarations in all tables that have them."""
    found: dict[str, Any] = {}
    apart: set[str] = {TABLE}
    for table in tables:
        for name, part in (*table.schema.attributes.items(), *table.schema.measures.items()):
            if name not in found:
                found[name] = part
            elif not _same(name, part, found[name]):
                apart.add(name)
    return {name: part for name, part in found.items() if name not in apart}


def _same(name: str, one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    return bool(one.axis(name) == other.axis(name)) if hasattr(one, "axis") else bool(one == other)


def _is_of(name: str) -> Any:
    from sqlglot import exp

    return exp.EQ(this=exp.column(exp.to_identifier(TABLE, quoted=True)), expression=exp.Literal.string(name))


def _columns(node: Any) -> list[str]:
    sides = [bare(side) for side in (node.this, node.args["expression"])]
    return sorted(side.name.lower() for side in sides if side.key == "column")


def _own_nodes(select: Any) -> Iterator[Any]:
    """The nodes of a SELECT, without those of FROM, JOIN and WITH and of other SELECTs in it."""
    from sqlglot import exp

    def ends(node: Any) -> bool:
        return isinstance(node, exp.From | exp.Join | exp.With | exp.Select) and node is not select

    return (node for node in select.walk(prune=ends) if not ends(node))


def _key_counted(node: Any) -> str | None:
    """The column of COUNT(DISTINCT column), in small letters."""
    if node.key != "count" or node.this is None or node.this.key != "distinct" or len(node.this.expressions) != 1:
        return None
    column = bare(node.this.expressions[0])
    return str(column.name).lower() if column.key == "column" and column.this.key != "star" else None


def _holds_aggregate(node: Any) -> bool:
    from sqlglot import exp

    return any(one is not node for one in node.find_all(exp.AggFunc))


def _only_of_parent(select: Any, table: LinkedTable, parent: LinkedTable, what: str) -> None:
    """Refuse a count of parents where a condition or group is on a column of the child table."""
    from sqlglot import exp

    for column in [node for node in _own_nodes(select) if node.key == "column" and node.this.key != "star"]:
        own = table.column(column.name)
        around = column.find_ancestor(exp.Filter) or column.find_ancestor(exp.AggFunc)
        inside = around is not None and _key_counted(around.this if around.key == "filter" else around) is None
        if own is not None and own not in table.carried and not inside:
            raise unsupported(
                f"{what} by {own}, which {parent.name} does not have,",
                f"count {parent.name} by its own columns: {', '.join(parent.schema.attributes)}",
            )


def _filter(node: Any, condition: Any) -> None:
    """Add a condition to an aggregate's FILTER."""
    from sqlglot import exp

    around = node.parent
    if isinstance(around, exp.Filter) and around.this is node:
        around.expression.set("this", exp.and_(around.expression.this, condition))
    else:
        node.replace(exp.Filter(this=node.copy(), expression=exp.Where(this=condition)))
