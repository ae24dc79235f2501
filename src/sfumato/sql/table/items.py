"""Expressions over the rows of a table: keys, aggregates, ranks, and SQL's functions of their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.domain import Axis
from sfumato.domain.predicates import Predicate, cover
from sfumato.effort import OF_A_NODE, spend
from sfumato.errors import QueryError, UnsupportedSQL
from sfumato.frozen import dataclass
from sfumato.sql.expressions import Classes, read_classes
from sfumato.sql.scope import Scope, Windows, quoted, text_of, unsupported
from sfumato.sql.select_list import read_column
from sfumato.sql.table.plan import PART, RANK, Keep, Rank, Step
from sfumato.sql.table.syntax import Fact, aggregates_in, facts_of, is_error_node, rank_number, totals_in
from sfumato.sql.values.functions import call
from sfumato.sql.values.translate import translate
from sfumato.sql.values.tree import Call, Lookup, Ref, Tree, Value, calls, evaluate, is_error

if TYPE_CHECKING:
    from sqlglot import exp

ARITHMETIC = ("add", "sub", "mul", "div")
DECISIONS = ("eq", "neq", "lt", "lte", "gt", "gte", "between", "in", "and", "or", "not", "is_null", "is_true")
OF_NUMBERS = (
    *(*ARITHMETIC, "neg", "abs", "floor", "ceil", "trunc", "round", "to_integer", "to_number"),
    *("case", "coalesce", "nullif", "greatest", "least", *DECISIONS),
)

_CAN = "an aggregate can be rounded, shifted, scaled, compared with constants, and chosen by CASE or COALESCE"


def decided(word: str) -> str:
    return f"{word} goes by the published values, noise included: what is near a limit may belong on its other side"


@dataclass(frozen=True)
class TableKey:
    """A key of GROUP BY: an attribute by its cells, or an expression whose values split groups (classes)."""

    text: str
    attribute: str | None
    classes: Classes | None


class Numbers:
    """Decides which expressions over rows have intervals. is_noisy: whether a column (by index) is a noisy number."""

    def __init__(self, is_noisy: Callable[[int], bool]) -> None:
        self._is_noisy = is_noisy
        self._known: dict[int, tuple[Tree, bool]] = {}  # by id, of trees that are kept, so that these stay their own

    def is_number(self, tree: Tree) -> bool:
        """Whether the value of an expression is a number with an interval."""
        if isinstance(tree, Call):
            if id(tree) not in self._known:
                args = (*tree.args[1:-1:2], tree.args[-1]) if tree.name == "case" else tree.args
                plain = tree.name in DECISIONS or is_error(tree)
                self._known[id(tree)] = tree, not plain and any(map(self.is_number, args))
            return self._known[id(tree)][1]
        return isinstance(tree, Ref) and self._is_noisy(tree.place)

    def check(self, tree: Tree, node: Any, place: str) -> None:
        """Refuse an expression of several noisy numbers, whose joint noise would be lost, or one without an interval.

        node: its syntax; place: the clause that it stands in; both for messages."""
        for part in calls(tree):
            if is_error(part):
                continue
            numbers = sum(map(self.is_number, part.args))
            several = part.name in (*ARITHMETIC, "greatest", "least", "coalesce", "nullif") and numbers > 1
            upside_down = part.name == "div" and self.is_number(part.args[1])
            if numbers and (part.name not in OF_NUMBERS or several or upside_down):
                raise unsupported(f"{quoted(node)} in {place}", _CAN)

    def decides(self, tree: Tree) -> bool:
        """Whether an expression compares a number that has an interval."""
        deciding = (*DECISIONS, "nullif")
        return any(
            part.name in deciding and any(self.is_number(arg) or is_error(arg) for arg in part.args)
            for part in calls(tree)
        )

    def note(self, step: Step, word: str) -> str | None:
        """Note on a filter or rank that depends on noisy numbers; None for other operations. word: SQL clause."""
        if isinstance(step, Keep) and self._looks_at_numbers(step.condition):
            return decided(word)
        if isinstance(step, Rank) and any(self._looks_at_numbers(rule.by) for rule in step.rules):
            return decided("the rank")
        return None

    def _looks_at_numbers(self, tree: Tree) -> bool:
        return self.is_number(tree) or self.decides(tree)


@dataclass(frozen=True)
class ItemReader:
    """Translates expressions over rows to trees. aggregates: collected so far, in column order."""

    scope: Scope
    rows: Predicate
    keys: tuple[TableKey, ...]
    sets: tuple[frozenset[str], ...]
    aggregates: list[Any] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)  # of aggregates, by their texts

    def item(self, node: exp.Expression) -> tuple[str, Tree, bool]:
        """Translate an item of the select list: its default name, its tree, and whether it has an interval."""
        before = len(self.aggregates)
        tree = self.read(node, "the select list")
        name = quoted(node)
        if node.key == "column":
            name = self.scope.name_of(node)
        elif isinstance(tree, Ref) and len(self.keys) <= tree.place < PART:
            column = self._column(self.aggregates[tree.place - len(self.keys)])
            name = column.name if before <= len(self.aggregates) else name
        return name, tree, self.numbers.is_number(tree)

    @property
    def differences(self) -> tuple[bool, ...]:
        """For each aggregate, whether it subtracts, so that zero is a value to test against."""
        return tuple(self._column(node).difference for node in self.aggregates)

    def read(self, node: exp.Expression, place: str) -> Tree:
        """Translate an expression over rows. place: the clause that it stands in, for messages."""
        facts = facts_of(node)
        tree = translate(node, lambda part: self._leaf(part, facts), place)
        self.numbers.check(tree, node, place)
        return tree

    @cached_property
    def numbers(self) -> Numbers:
        """Classifier of expressions: aggregates have intervals, keys are public."""
        return Numbers(lambda place: len(self.keys) <= place < PART)

    def _leaf(self, node: Any, facts: dict[int, Fact]) -> Tree | None:
        rank = rank_number(node)
        if rank is not None:
            return Ref(RANK + rank)
        if is_error_node(node):
            return None
        fact = facts[id(node)]
        if self.keys and fact.size <= max(len(key.text) for key in self.keys):  # a key has a letter a node, and more
            text = text_of(node)
            for number, key in enumerate(self.keys):
                if key.text == text:
                    return Ref(number)
        if node.key == "grouping":
            return self._grouping(node)
        if fact.aggregated:
            return self._aggregate(node)
        if node.key == "column" and node.this.key != "star":
            raise not_grouped(node, self.scope)
        return self._of_one_key(node, fact) if self.keys and fact.columns else None

    def _aggregate(self, node: Any) -> Tree | None:
        """Column reference of an aggregate, or of arithmetic of aggregates; None for any other expression."""
        from sqlglot import exp

        linear = isinstance(node, exp.AggFunc | exp.Window | exp.Filter | exp.Subquery) or node.key in (
            *ARITHMETIC,
            "neg",
            "anonymous",
            "withingroup",
        )
        if not linear:
            return None
        text = text_of(node)
        if text in self._places:
            return Ref(len(self.keys) + self._places[text])
        try:
            self._column(node)
        except UnsupportedSQL:
            sides = [side for side in (node.this, node.args.get("expression")) if side is not None]
            if node.key in (*ARITHMETIC, "neg") and sum(bool(_of_groups(side)) for side in sides) == 1:
                return None
            raise
        self._places[text] = len(self.aggregates)
        self.aggregates.append(node)
        return Ref(len(self.keys) + self._places[text])

    def _column(self, node: Any) -> Any:
        """Compile an aggregate over all rows, to name it and to refuse what is not supported."""
        known = {key.text: Predicate.everything() for key in self.keys if key.classes is not None}
        within = replace(self.scope, windows=Windows(self.rows, known))
        return read_column(node, within, self.rows, grouped=bool(self.keys))

    def _grouping(self, node: Any) -> Tree:
        if len(node.expressions) != 1:
            raise unsupported("GROUPING of several columns", "write one GROUPING(...) for each")
        text = text_of(node.expressions[0])
        if all(key.text != text for key in self.keys):
            raise QueryError(f"{quoted(node)} names something that is not in GROUP BY")
        return Lookup(PART, tuple((number, int(text not in chosen)) for number, chosen in enumerate(self.sets)))

    def _of_one_key(self, node: Any, fact: Fact) -> Tree | None:
        """Tabulate an expression of one key attribute over its cells; None for any other expression."""
        from sqlglot import exp

        spend(OF_A_NODE * (fact.size + len(self.keys)), "an expression of a key")
        columns = list(node.find_all(exp.Column))
        texts = {text_of(column) for column in columns}
        place = next((number for number, key in enumerate(self.keys) if {key.text} == texts and key.attribute), None)
        others = [key.text for key in self.keys if not key.attribute]
        if place is None or (others and any(text in whole for whole in (text_of(node),) for text in others)):
            return None
        return key_lookup(node, self.scope.axis_of(columns[0], "the select list"), place, self.scope, node)


def key_lookup(node: Any, axis: Axis, place: int, scope: Scope, said: Any) -> Lookup:
    """Tabulate an expression of one attribute over its labels. place: index of the key column that holds them.

    said: the expression as it was written, for messages.
    """
    values: list[Value] = [None] * axis.size
    for value, predicate in read_classes(node, replace(scope, cuts=[]), "the select list").items():
        for box in predicate.boxes:
            covered = cover(axis, box[axis.name])
            if not covered.exact:
                what = f"{quoted(said)} is not one value inside the bins of {axis.name}"
                raise UnsupportedSQL(f"{what}; group by it, not by {axis.name}")
            for cell in np.flatnonzero(covered.sure):
                values[int(cell)] = value
    of_null = evaluate(translate(node, lambda part: Ref(0) if part.key == "column" else None, ""), (None,), call)
    return Lookup(place, (*zip(axis.labels(), values, strict=True), (None, of_null)))


def not_grouped(node: Any, scope: Scope) -> QueryError:
    """Error for a column that is neither grouped by nor aggregated."""
    name = scope.name_of(node)
    if name in scope.schema.measures:
        return QueryError(f"{name} is a measure and has no value by itself; select SUM({name}) or AVG({name})")
    return QueryError(f"{name} is named but not in GROUP BY; add it there, or use it inside COUNT, SUM or AVG")


def _of_groups(node: Any) -> bool:
    return bool(aggregates_in(node) or totals_in(node))
