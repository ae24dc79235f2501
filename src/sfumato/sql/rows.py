"""The argument of SUM(...), AVG(...) and COUNT(...): an amount per row, linear in columns and conditions.

Compile SELECT * FROM t LIMIT 5, a SELECT of columns that groups nothing: rows to be drawn, as a release has none.

Also the condition of rows by itself, as `sfumato sample --where` takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError, UnsupportedSQL
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.expressions import read_classes
from sfumato.sql.plan import Amount, unique_names
from sfumato.sql.predicates import (
    beyond_notes,
    check_clauses,
    compare,
    is_condition,
    read_condition,
    read_denial,
    rows_without,
    table_scope,
)
from sfumato.sql.predicates import where as cells_where
from sfumato.sql.reading import compiling, parse
from sfumato.sql.scope import Scope, bare, constant, in_words, keeps_numbers, number, quoted, unsupported
from sfumato.sql.table.flatten import Flat
from sfumato.sql.table.plan import Item, Rule, Sort
from sfumato.sql.values.translate import translate
from sfumato.sql.values.tree import Lookup, Ref, Tree

if TYPE_CHECKING:
    from sqlglot import exp

_WRITE = "sum a measure or an attribute, a condition, CASE, or a linear combination of these"


@dataclass(frozen=True)
class RowTerm:
    """factor * (1, or a column) for the rows of a predicate, and nothing for the others.

    present: the measure without which a row adds nothing.
    """

    predicate: Predicate
    of: str | None
    factor: float = 1.0
    present: str | None = None


@dataclass(frozen=True)
class RowAmount:
    """The sum of terms, except for absent rows, which are NULL: without a value, or left over by CASE without ELSE.

    needs: (rows, measure) pairs with disjoint predicates: such a row is NULL too if it lacks the measure.
    """

    terms: tuple[RowTerm, ...]
    absent: Predicate = field(default_factory=Predicate.nothing)
    needs: tuple[tuple[Predicate, str], ...] = ()

    def within(self, predicate: Predicate) -> RowAmount:
        """The amount restricted to rows of a predicate."""
        terms = tuple(replace(term, predicate=term.predicate & predicate) for term in self.terms)
        needs = tuple((where & predicate, measure) for where, measure in self.needs)
        return RowAmount(terms, self.absent & predicate, needs)

    def counted(self, within: Predicate) -> tuple[Amount, ...]:
        """The count of rows that are not NULL."""
        rest = within - self.absent
        for where, _ in self.needs:
            rest -= where
        parts = [Amount(rest, None), *(Amount(where & within, None, present=one) for where, one in self.needs)]
        return tuple(part for part in parts if part.predicate.boxes) or (Amount(within - self.absent, None),)

    def needing(self, others: tuple[tuple[Predicate, str], ...]) -> RowAmount:
        """Restrict a sum or count to rows where these measures are present. others: where, and name."""
        terms = self.terms
        for where, measure in others:
            split = []
            for term in terms:
                inside = replace(term, predicate=term.predicate & where)
                if inside.predicate.boxes and measure not in (term.of, term.present):
                    if term.of is not None or term.present is not None:
                        other = term.present or term.of
                        raise unsupported(
                            f"a sum of {other} and {measure} in one row, either of which can be missing",
                            f"add aggregates instead: SUM({other}) + SUM({measure})",
                        )
                    inside = replace(inside, present=measure)
                split += [replace(term, predicate=term.predicate - where), inside]
            terms = tuple(term for term in split if term.predicate.boxes)
        return replace(self, terms=terms)

    def times(self, factor: float) -> RowAmount:
        return replace(self, terms=tuple(replace(term, factor=term.factor * factor) for term in self.terms))


Reader = Callable[[Any, Scope], RowAmount]


def read_row_amount(node: exp.Expression, scope: Scope) -> RowAmount:
    """The amount that an expression gives each row."""
    value = constant(node)
    if isinstance(value, str):
        raise QueryError(f"{value!r} is text and cannot be summed; COUNT counts rows")
    value = number(node)
    if value is not None:
        return RowAmount((RowTerm(Predicate.everything(), None, value),))
    if is_condition(node):
        holds = read_condition(node, scope)
        return RowAmount((RowTerm(holds, None),), ~(holds | read_denial(node, scope)))
    read = _READERS.get(node.key, _unknown)
    try:
        return read(node, scope)
    except UnsupportedSQL as refusal:
        found = _by_value(node, scope)
        if found is None:
            raise refusal from None
        return found


def _unknown(node: exp.Expression, _scope: Scope) -> RowAmount:
    raise unsupported(f"{in_words(node)} inside an aggregate", _WRITE)


def _by_value(node: exp.Expression, scope: Scope) -> RowAmount | None:
    """An expression of attributes that is no sum of them, such as age * age: the rows of each of its values.

    None unless it has one number (or NULL) in every cell.
    """
    try:
        classes = read_classes(node, replace(scope, cuts=[]), "an aggregate")
    except QueryError:
        return None
    absent = classes.pop(None, Predicate.nothing())
    if not all(predicate.exact(scope.schema.domain) for predicate in (absent, *classes.values())):
        return None
    terms = [
        RowTerm(rows, None, float(value))
        for value, rows in classes.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return RowAmount(tuple(terms), absent) if len(terms) == len(classes) else None


def _column(node: exp.Expression, scope: Scope) -> RowAmount:
    name = scope.name_of(node)
    needs: tuple[tuple[Predicate, str], ...] = ()
    if name in scope.schema.measures:
        needs = _needs(name, scope)
    else:
        low, _, high = scope.schema.domain[name].amounts  # refuses what cannot be summed
        if (low != high).any():
            scope.middles.append(name)
    absent = Predicate.nothing() if name in scope.schema.measures else rows_without(name, scope)
    return RowAmount((RowTerm(~absent, name),), absent, needs)


def _needs(name: str, scope: Scope) -> tuple[tuple[Predicate, str], ...]:
    measure = scope.schema.measures.get(name)
    return ((Predicate.everything(), name),) if measure is not None and measure.missing == "keep" else ()


def rows_with_value(node: exp.Expression, scope: Scope) -> RowAmount:
    """The rows that COUNT counts: as `read_row_amount`, but text and columns that cannot be summed count too."""
    if node.key == "column":
        name = scope.attribute_of(node)
        return RowAmount((), rows_without(name, scope), _needs(name, scope))
    if isinstance(constant(node), str):
        return RowAmount(())
    if node.key in ("case", "if"):
        return _READERS[node.key](node, scope, rows_with_value)
    try:
        return read_row_amount(node, scope)
    except QueryError as refusal:
        try:  # of text, as NULLIF(ward, 'East')
            return RowAmount((), read_classes(node, scope, "COUNT").get(None, Predicate.nothing()))
        except QueryError:
            raise refusal from None


def _case(node: exp.Expression, scope: Scope, read: Reader = read_row_amount) -> RowAmount:
    """CASE WHEN ... THEN ... ELSE ... END, also in the form CASE column WHEN value; the first match counts."""
    branches = [(_branch_condition(node, branch, scope), branch.args["true"]) for branch in node.args["ifs"]]
    return _first_match(branches, node.args.get("default"), scope, read)


def _branch_condition(case: exp.Expression, branch: exp.Expression, scope: Scope) -> Predicate:
    if case.this is None:
        return read_condition(branch.this, scope)
    return compare("eq", case.this, branch.this, scope, lambda: f"{quoted(case.this)} = {quoted(branch.this)}")


def _if(node: exp.Expression, scope: Scope, read: Reader = read_row_amount) -> RowAmount:
    return _first_match([(read_condition(node.this, scope), node.args["true"])], node.args.get("false"), scope, read)


def _first_match(branches: list[tuple[Predicate, Any]], default: Any, scope: Scope, read: Reader) -> RowAmount:
    left, absent = Predicate.everything(), Predicate.nothing()
    parts = []
    for condition, value in branches:
        parts.append(read(value, scope).within(left & condition))
        left -= condition
    if default is None:
        absent = left
    else:
        parts.append(read(default, scope).within(left))
    for part in parts:
        absent |= part.absent
    needs = tuple((where, measure) for part in parts for where, measure in part.needs if where.boxes)
    return RowAmount(tuple(term for part in parts for term in part.terms), absent, needs)


def _sum(node: exp.Expression, scope: Scope) -> RowAmount:
    left, right = read_row_amount(node.this, scope), read_row_amount(node.args["expression"], scope)
    if node.key == "sub":
        right = right.times(-1.0)
    absent = left.absent | right.absent  # NULL + 1 is NULL
    if absent:  # else a long sum would go through all its terms at each of them
        left, right = left.within(~absent), right.within(~absent)
    terms = left.needing(right.needs).terms + right.needing(left.needs).terms
    return RowAmount(terms, absent, _either(left.needs, right.needs))


def _either(
    left: tuple[tuple[Predicate, str], ...], right: tuple[tuple[Predicate, str], ...]
) -> tuple[tuple[Predicate, str], ...]:
    """The union of both sides' needs, without overlap. Where both need a measure, it is the same one."""
    kept = list(left)
    for where, measure in right:
        rest = where
        for there, _ in left:
            rest -= there
        if rest.boxes:
            kept.append((rest, measure))
    return tuple(kept)


def _product(node: exp.Expression, scope: Scope) -> RowAmount:
    left, right = number(node.this), number(node.args["expression"])
    if right is not None:
        return read_row_amount(node.this, scope).times(right)
    if left is not None:
        return read_row_amount(node.args["expression"], scope).times(left)
    raise unsupported("the product of two columns inside an aggregate", _WRITE)


def _quotient(node: exp.Expression, scope: Scope) -> RowAmount:
    divisor = number(node.args["expression"])
    if divisor is None:
        raise unsupported("division by a column inside an aggregate", "divide one aggregate by another instead")
    if divisor == 0:
        raise QueryError("the query divides by zero")
    return read_row_amount(node.this, scope).times(1.0 / divisor)


def _coalesce(node: exp.Expression, scope: Scope) -> RowAmount:
    """COALESCE(amount, 0): a constant for the rows that have no amount."""
    others = [number(other) for other in node.expressions]
    amount, value = read_row_amount(bare(node.this), scope), others[0] if others else None
    if value is None:
        raise unsupported(f"{quoted(node)} inside an aggregate", "give a number in place of a missing one")
    terms = [*amount.terms, RowTerm(amount.absent, None, value)] if amount.absent.boxes else [*amount.terms]
    for where, measure in amount.needs if value else ():  # all such rows, less those that have the measure
        terms += [RowTerm(where, None, value), RowTerm(where, None, -value, present=measure)]
    return RowAmount(tuple(term for term in terms if term.factor))


def _cast(node: exp.Expression, scope: Scope) -> RowAmount:
    if not keeps_numbers(node, whole=_is_whole(bare(node.this), scope)):
        raise unsupported("a CAST inside an aggregate that changes numbers", "CAST to DOUBLE, or leave the CAST out")
    return read_row_amount(node.this, scope)


def _is_whole(node: Any, scope: Scope) -> bool:
    """Whether an expression gives whole numbers for certain."""
    if node.key != "column":
        return is_condition(node)
    name = scope.name_of(node)
    return name not in scope.schema.measures and scope.schema.domain[name].kind in ("integer", "boolean")


_READERS: dict[str, Callable[..., RowAmount]] = {
    "column": _column,
    "case": _case,
    "if": _if,
    "null": lambda _node, _scope: RowAmount((), Predicate.everything()),
    "paren": lambda node, scope: read_row_amount(node.this, scope),
    "neg": lambda node, scope: read_row_amount(node.this, scope).times(-1.0),
    "add": _sum,
    "sub": _sum,
    "mul": _product,
    "div": _quotient,
    "coalesce": _coalesce,
    "cast": _cast,
}

# -- synthetic

MARK = "synthetic_row"  # the column that numbers rows which are nobody's


@dataclass(frozen=True)
class SyntheticRows:
    """A plan of synthetic rows.

    columns: attributes and measures, whose values items and order refer to by place. where: the rows to keep. number:
    how many are asked for, behind the first `offset`.
    """

    columns: tuple[str, ...]
    where: Predicate
    items: tuple[Item, ...]
    order: Sort
    number: int
    offset: int
    notes: tuple[str, ...] = ()


def compile_where(text: str, schema: Schema) -> Predicate:
    """The rows that a condition alone keeps, such as "age < 30 AND sex = 'F'"; refused if none can fulfil it.

    >>> people = Schema(dataset="people", privacy_unit="row", attributes={"ill": {"type": "boolean"}})
    >>> compile_where("ill OR NOT ill", people) == Predicate.everything()
    True
    """
    if not text.strip():
        raise QueryError("the condition is empty; write one as in SQL behind WHERE: age < 30 AND sex = 'F'")
    with compiling():
        tree = parse(f"SELECT * FROM release WHERE {text}\n", schema=schema)
        if tree.key != "select":
            raise unsupported("more than a condition", "write only what stands behind WHERE: age < 30 AND sex = 'F'")
        check_clauses(tree, ("expressions", "from", "where"), " behind a condition")
        scope = table_scope(tree, schema)
        kept = cells_where(tree, scope)
    if not kept:
        why = [*beyond_notes(scope.beyond, schema), *dict.fromkeys(scope.unmatched)]
        raise QueryError("; ".join(["no row can fulfil the condition", *why]))
    return kept


def asks_for_rows(flat: Flat) -> bool:
    """Whether a SELECT names columns, groups nothing, and says how many rows it wants."""
    limited = any(step.kind == "take" and step.limit is not None for step in flat.steps)
    named = any(part.key == "column" for item in flat.items for part in item.node.walk())
    return flat.sets is None and limited and named


def compile_rows(flat: Flat, schema: Schema) -> SyntheticRows:
    """The plan of a SELECT that asks for rows."""
    scope = table_scope(flat.base, schema)
    where = reduce(and_, (read_condition(node, scope) for node in flat.wheres), scope.rows)
    columns: list[str] = []

    def read(node: Any, place: str) -> Tree:
        return translate(node, lambda part: _leaf(part, scope, columns), place)

    rules: list[Rule] = []
    number = offset = 0
    for step in flat.steps:
        if step.kind == "sort":
            rules = [
                Rule(read(one.this, "ORDER BY"), bool(one.args.get("desc")), bool(one.args.get("nulls_first")))
                for one in step.nodes
            ]
        elif step.kind == "take":
            number, offset = step.limit or 0, step.offset
        else:
            raise unsupported("a rank of rows", "a release has no rows; rank groups: RANK() OVER (ORDER BY COUNT(*))")
    trees = [(item.name or _called(item.node, scope), read(item.node, "the select list")) for item in flat.items]
    names = unique_names([(name, False) for name, _ in trees])
    items = tuple(Item(name, tree, False) for name, (_, tree) in zip(names, trees, strict=True))
    return SyntheticRows(tuple(columns), where, items, Sort(tuple(rules)), number, offset)


def _called(node: Any, scope: Scope) -> str:
    return scope.name_of(node) if node.key == "column" else quoted(node)


def _leaf(node: Any, scope: Scope, columns: list[str]) -> Tree | None:
    """The place of a column's value in a drawn row; None for any other node. columns: extended in place."""
    if node.key != "column" or node.this.key == "star":
        return None
    name, groups = scope.attribute_of(node), scope.groups_of(node)
    if name not in columns:
        columns.append(name)
    place = columns.index(name)
    if groups is None:
        return Ref(place)
    return Lookup(place, tuple(zip(scope.schema.domain[name].labels(), groups, strict=True)))
