"""Take a statement apart: WITH, subqueries, JOIN, UNION and PIVOT.

A SELECT over the release, and one that works on each of its groups by itself, are written into one another (`Flat`), so
that all groups are worked out at once. Where a number is made of several groups, or of several queries, rows are put
together one by one (`Relation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from sfumato.effort import MOST_SELECTS, OF_A_NODE, at_most, spend
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.predicates import check_clauses, table_scope
from sfumato.sql.relation.forms import Cell, is_form
from sfumato.sql.relation.groups import name_in, pivoted, with_named_windows
from sfumato.sql.relation.joins import joined, resolved, values_relation
from sfumato.sql.relation.lookups import looked_up
from sfumato.sql.relation.rows import Relation, each_once
from sfumato.sql.relation.select import concatenated, distinct, select_rows
from sfumato.sql.scope import Scope, in_words, quoted, unsupported
from sfumato.sql.table.flatten import Flat, RawStep, columns_of, last_steps, written_over
from sfumato.sql.table.syntax import Named, aggregates_in, keep_names, name_of, own_nodes, ranks_replaced, totals_in

if TYPE_CHECKING:
    from sqlglot import exp

_CLAUSES = (
    *("expressions", "from", "where", "group", "having", "qualify", "order", "limit", "offset", "distinct", "with"),
    *("joins", "windows"),
)
_AROUND = ("from", "from_", "joins", "with", "with_")
_NO_ROWS = Relation((), (), 1)  # of a SELECT without FROM


@dataclass(frozen=True)
class Query:
    """SELECTs joined by UNION, and row operations on their result."""

    parts: tuple[Flat | Relation, ...]
    steps: tuple[RawStep, ...] = field(default=())


Named_queries = Mapping[str, Query]


def read_query(tree: exp.Expression, schema: Schema, known: Named_queries | None = None) -> Query:
    """Translate a statement to SELECTs over the release. known: queries of WITH, by name in small letters."""
    if tree.key == "subquery":
        check_clauses(tree, ("this", "alias", "pivots"))
        if tree.args.get("pivots"):
            return read_query(pivoted(tree, lambda node: _columns(node, schema, known), schema), schema, known)
        return _renamed(read_query(tree.this, schema, known), tree.args.get("alias"))
    known = {**(known or {})}
    clause = tree.args.get("with_") or tree.args.get("with")
    for one in clause.expressions if clause else []:
        if clause is not None and clause.args.get("recursive"):
            raise unsupported("WITH RECURSIVE", "write the queries one after the other")
        known[one.alias.lower()] = _renamed(read_query(one.this, schema, known), one.args.get("alias"))
    if tree.key == "pivot":
        tree = pivoted(tree, lambda node: _columns(node, schema, known), schema)
    if tree.key == "union":
        return _union(tree, schema, known)
    if tree.key != "select":
        raise unsupported(in_words(tree))
    check_clauses(tree, _CLAUSES)
    return _Reading(schema, known).select(with_named_windows(tree))


@dataclass(frozen=True)
class _Reading:
    """Translator of one SELECT. given: values and forms of its subqueries; scopes: name scopes of these subqueries."""

    schema: Schema
    known: Named_queries
    given: list[Cell] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)

    def select(self, tree: Any) -> Query:
        from sqlglot import exp

        source = tree.args.get("from_") or tree.args.get("from")
        if tree.args.get("joins"):
            return self._joined(tree, source.this)
        if source is None:
            if any(
                node.key != "subquery" and node.find_ancestor(exp.Subquery) is None
                for node in aggregates_in(tree.expressions)
            ):
                table_scope(tree, self.schema)  # which says what is missing
            return Query((self._over(tree, _NO_ROWS),))
        inner = self._source(source.this)
        if inner is None:
            table_scope(tree, self.schema)  # which refuses any other table by name
            return self._over_release(tree, None)
        if len(inner.parts) > 1:
            return self._over_several(tree, inner)
        part = inner.parts[0]
        if isinstance(part, Flat) and not inner.steps and (part.sets is None or not self._crosses(tree, part)):
            return self._over_release(tree, part)
        return Query((self._over(tree, self._named(inner, source.this)),))

    def _over_release(self, tree: Any, source: Flat | None) -> Query:
        """Translate a SELECT over the release, or one that can be merged with the subquery in its FROM."""
        tree = self._with_subqueries(tree, of_release=True)
        flat = written_over(tree, source, columns_of(self.schema))
        nodes = [*(item.node for item in flat.items), *(node for step in flat.steps for node in step.nodes)]
        totals = totals_in(nodes)
        ungrouped = [node for node in totals if flat.sets is None or any(totals_in(key) for key in flat.sets[0])]
        if ungrouped:
            raise unsupported(f"{quoted(ungrouped[0])} over rows that are not grouped", "name the keys in GROUP BY")
        _refuse_nested(aggregates_in(nodes))
        left_out = any(step.word == "HAVING" for step in flat.steps) or len(flat.sets or ()) > 1
        if self.given or not all(map(_is_plain_total, totals)) or (totals and left_out):
            return Query((self._with_scopes(select_rows(flat, None, self.schema, self.given)),))
        return Query((flat,))

    def _crosses(self, tree: Any, source: Flat) -> bool:
        """Whether a SELECT combines several groups of the subquery in its FROM (aggregates, windows)."""
        clauses = (tree.args.get(name) for name in ("where", "having", "order", "qualify"))
        written = [*tree.expressions, *(clause for clause in clauses if clause)]
        totals = totals_in(written)
        kept = source.filtered or tree.args.get("where") or len(source.sets or ()) > 1
        inner = [item.node for item in source.items]
        return bool(
            tree.args.get("group")
            or tree.args.get("having")
            or aggregates_in(written)
            or not all(map(_is_plain_total, totals))
            or (totals and (kept or totals_in(inner)))
        )

    def _over(self, tree: Any, source: Relation) -> Relation:
        """Translate a SELECT over the rows of a relation."""
        from sqlglot import exp

        tree = self._with_subqueries(tree, of_release=False)
        for name in _AROUND:
            tree.set(name, None)
        tree = resolved(tree, source)
        own = tuple(
            Named(one.name, exp.column(exp.to_identifier(name_in(source, place))))
            for place, one in enumerate(source.fields)
        )
        named = tuple(replace(one, name=one.node.name) for one in own)  # by which aliases must not be mistaken
        return self._with_scopes(select_rows(written_over(tree, None, named), source, self.schema, self.given))

    def _with_scopes(self, relation: Relation) -> Relation:
        return replace(relation, scopes=each_once((*relation.scopes, *self.scopes)))

    def _over_several(self, tree: Any, inner: Query) -> Query:
        """Translate a SELECT over a UNION: member by member where it can be, else over all rows."""
        together = [tree.args.get(name) for name in ("group", "having", "qualify", "distinct")]
        windows = totals_in(tree.expressions) or ranks_replaced(tree.expressions, 0)[1]
        apart = all(isinstance(part, Flat) for part in inner.parts)
        if not apart or inner.steps or any(together) or windows or aggregates_in(tree.expressions):
            table = (tree.args.get("from_") or tree.args.get("from")).this
            return Query((self._over(tree, self._named(inner, table)),))
        without_end = tree.copy()
        for name in ("order", "limit", "offset"):
            without_end.set(name, None)
        parts = [part for part in inner.parts if isinstance(part, Flat)]
        return Query(
            tuple(written_over(without_end, part, columns_of(self.schema)) for part in parts), last_steps(tree)
        )

    def _joined(self, tree: Any, table: Any) -> Query:
        """Translate a SELECT with joins: of relations, or of the release with public tables."""
        tables = [table, *(join.this for join in tree.args["joins"])]
        queries = [self._source(one.copy()) for one in tables]  # of which that of the rows is read once more
        for one, query in zip(tables, queries, strict=True):
            if query is None:
                self._check_table(one)
        rows = [query for query in queries if query is None or _holds_rows(query)]
        if rows:
            if len(rows) > 1:
                raise unsupported("a join of rows with rows", "count by key in two WITH queries, and JOIN these")
            found = [
                None if query is None or _holds_rows(query) else _relation(query, self.schema) for query in queries
            ]
            named = [
                None if one is None else one.called(each.alias or each.name)
                for one, each in zip(found, tables, strict=True)
            ]
            return _Reading(self.schema, self.known, self.given, self.scopes).select(
                looked_up(tree, named, self.given, self.scopes, self.schema)
            )
        left, *others = [self._named(query, one) for query, one in zip(queries, tables, strict=True) if query]
        for join, right in zip(tree.args["joins"], others, strict=True):
            left = joined(left, join, right, self.schema)
        return Query((self._over(tree, left),))

    def _check_table(self, table: Any) -> None:
        """Refuse to join what is neither the release nor a query."""
        from sqlglot import exp

        try:
            table_scope(exp.Select(from_=exp.From(this=table.copy())), self.schema)
        except QueryError:
            what = f"a join with {quoted(table)}, which is neither this release nor a query of the statement,"
            bring = "JOIN WITH queries, subqueries and VALUES, or a public table that you bring (--with FILE)"
            raise unsupported(what, bring) from None

    def _named(self, query: Query, table: Any) -> Relation:
        """The rows of a query, under the name that FROM gives to it."""
        return _relation(query, self.schema).called(table.alias or table.name)

    def _source(self, table: Any) -> Query | None:
        """The query that FROM takes its rows from, or None where it is the release itself."""
        if table.key == "values":
            return Query((values_relation(table),))
        if table.key == "subquery":
            return read_query(table, self.schema, self.known)
        if table.args.get("pivots"):
            inner = pivoted(table, lambda node: _columns(node, self.schema, self.known), self.schema)
            return read_query(inner, self.schema, self.known)
        if _is_query(table, self.known):
            return _renamed(self.known[table.name.lower()], table.args.get("alias"))
        return None

    def _with_subqueries(self, tree: Any, *, of_release: bool) -> Any:
        """The SELECT with the subqueries in its expressions replaced by placeholders for their numbers.

        Over the release plain totals are left; (SELECT COUNT(*) FROM c) is written over it where c is a query. The tree
        is changed in place: copies of all levels at each of them would cost the square of their number.
        """
        from sqlglot import exp

        if not any(isinstance(node, exp.Subquery) for node in own_nodes(tree)):
            return tree
        spend(OF_A_NODE * sum(1 for _ in own_nodes(tree)), "a statement with subqueries")
        keep_names(tree, lambda node: isinstance(node, exp.Subquery))
        done, outermost = set[int](), list[Any]()  # with all that is inside them
        for node in [node for node in own_nodes(tree) if isinstance(node, exp.Subquery)]:  # from the outside in
            inner = node.this.args.get("from_") or node.this.args.get("from")
            around = node.parent
            while around is not None and id(around) not in done:
                around = around.parent
            if around is not None or isinstance(node.parent, exp.Exists):
                continue
            named = inner is not None and _is_query(inner.this, self.known)
            if of_release and not named and not (inner is not None and node.this.args.get("joins")):
                continue
            done.add(id(node))
            outermost.append(node)
        for node in outermost:  # which takes the nodes inside it out of the tree
            self._replace(node, of_release=of_release)
        return tree

    def _replace(self, node: Any, *, of_release: bool) -> None:
        """Replace a subquery by a plain total, a list of public values (after IN), or a placeholder for its number."""
        from sqlglot import exp

        query = read_query(node, self.schema, self.known)
        part = query.parts[0]
        listed = isinstance(node.parent, exp.In) and node.parent.args.get("query") is node
        total = isinstance(part, Flat) and len(query.parts) == 1 and part.sets == ((),) and not part.steps
        if isinstance(part, Flat) and total and not listed and of_release:
            plain = exp.select(*(item.node for item in part.items)).where(*part.wheres, copy=True)
            plain.set("from_", (part.base.args.get("from_") or part.base.args.get("from")).copy())
            node.set("this", plain)
            return
        relation = _relation(query, self.schema).unordered("a subquery")
        if len(relation.fields) != 1:
            raise unsupported("a subquery of several columns", "select one in it")
        cells = relation.cells(0)
        if listed:
            if any(map(is_form, cells)):
                raise unsupported("IN with a subquery of noisy numbers", "list public values in it")
            node.parent.set("expressions", [exp.convert(cell) for cell in cells])
            node.parent.set("query", None)
            return
        if relation.rows != 1:
            raise unsupported("a subquery of more than one number", "select one aggregate in it, without GROUP BY")
        if of_release and node.find_ancestor(exp.Where):
            raise unsupported(f"{quoted(node)} in WHERE", "compare columns with constants there")
        self.given.append(cells[0])
        self.scopes.extend(relation.scopes)
        node.replace(exp.Var(this=f"cell {len(self.given) - 1}"))


def _refuse_nested(aggregates: list[Any]) -> None:
    """Refuse an aggregate of aggregates in one SELECT, in which SQL has one level of them."""
    for node in aggregates:
        inside = [part for part in aggregates_in(node) if part is not node and part.key in ("count", "sum", "avg")]
        if node.key != "subquery" and inside:
            inner = "SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM ... GROUP BY ...)"
            raise unsupported(f"{quoted(node)} in one SELECT", f"count in a subquery: {inner}")


def _is_plain_total(window: Any) -> bool:
    """Whether a window is a plain total over its partition, without order or frame."""
    return window.this.key == "sum" and not window.args.get("order") and not window.args.get("spec")


def _holds_rows(query: Query) -> bool:
    """Whether a query yields ungrouped rows of the release."""
    return any(isinstance(part, Flat) and part.sets is None for part in query.parts)


def _relation(query: Query, schema: Schema) -> Relation:
    """Relation of the rows of a query."""
    if len(query.parts) > 1 and _holds_rows(query):
        raise unsupported("an aggregate, a join or a limit of rows that UNION ALL puts together", "count in its parts")
    return _rows_together(query, schema)


def _rows_together(query: Query, schema: Schema) -> Relation:
    parts = [select_rows(part, None, schema) if isinstance(part, Flat) else part for part in query.parts]
    found = parts[0] if len(parts) == 1 else concatenated(parts, "UNION")
    if not query.steps:
        return found
    flat = Flat(None, (), None, (), query.steps)
    return replace(select_rows(flat, found, schema), fields=found.fields)


def _columns(node: Any, schema: Schema, known: Named_queries | None) -> Mapping[str, tuple[Cell, ...]] | None:
    """The columns of a table that is no release, with their public values; None for the release itself."""
    query = _Reading(schema, known or {})._source(node.copy())  # which is read once more
    if query is None or _holds_rows(query):
        return None
    relation = _relation(query, schema)
    return {one.name: relation.cells(place) for place, one in enumerate(relation.fields)}


def _union(tree: exp.Expression, schema: Schema, known: Named_queries) -> Query:
    check_clauses(tree, ("this", "expression", "order", "limit", "offset", "with", "distinct"))
    parts = [read_query(part, schema, known) for part in (tree.this, tree.args["expression"])]
    selects = sum(len(part.parts) for part in parts)
    at_most(selects, MOST_SELECTS, "SELECTs would follow each other by UNION ALL", "ask for them in several statements")
    once = tree.args.get("distinct") is not False
    if any(part.steps for part in parts):
        raise unsupported("ORDER BY or LIMIT inside UNION ALL", "put it at the end")
    if len({_width(one) for part in parts for one in part.parts}) > 1:
        raise QueryError(f"the SELECTs of UNION{'' if once else ' ALL'} have different numbers of columns")
    first, *others = [one for part in parts for one in part.parts]
    names = _names(first)  # the first SELECT names the columns of all
    query = Query((first, *(_called(one, names) for one in others)), () if once else last_steps(tree))
    if not once:
        return query
    return Query((distinct(_rows_together(query, schema)),), last_steps(tree))


def _renamed(query: Query, alias: Any) -> Query:
    """Query with columns renamed: WITH w(sex, n) AS (...)."""
    names = [column.name for column in alias.args.get("columns") or []] if alias else []
    widths = {_width(one) for one in query.parts}
    if names and widths != {len(names)}:
        raise QueryError(f"{alias.name} names {len(names)} columns of a subquery that has {widths.pop()}")
    return replace(query, parts=tuple(_called(one, names) for one in query.parts)) if names else query


def _width(part: Flat | Relation) -> int:
    return len(part.items) if isinstance(part, Flat) else len(part.fields)


def _names(part: Flat | Relation) -> list[str]:
    return [name_of(item) for item in part.items] if isinstance(part, Flat) else [one.name for one in part.fields]


def _called(part: Flat | Relation, names: list[str]) -> Flat | Relation:
    """SELECT or relation with columns renamed."""
    if isinstance(part, Relation):
        fields = tuple(replace(one, name=name) for one, name in zip(part.fields, names, strict=True))
        return replace(part, fields=fields)
    return replace(part, items=tuple(replace(item, name=name) for item, name in zip(part.items, names, strict=True)))


def _is_query(table: Any, known: Named_queries) -> bool:
    """Whether FROM names a query, and not the release itself."""
    named = table.key == "table" and not table.text("db") and table.name.lower() in known
    return bool(table.key in ("subquery", "values") or named)
