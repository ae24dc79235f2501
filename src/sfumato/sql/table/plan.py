"""The plan of a statement beyond one plain SELECT: groups put together, then steps on their rows.

A row of a table is its keys, then its aggregates, then the number of the grouping set that it comes from, then ranks,
in the order in which steps add them. Steps and items are expressions over such rows. The positions of grouping set and
ranks are known only when all aggregates are (`Places`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Literal, NamedTuple

from sfumato.domain.predicates import Predicate
from sfumato.frozen import dataclass
from sfumato.sql.plan import Select
from sfumato.sql.values.tree import Call, Lookup, Ref, Tree, Value, is_error

RankKind = Literal["rank", "denserank", "rownumber", "ntile", "percentrank"]


@dataclass(frozen=True)
class Block:
    """Groups with the same values of all expressions (not plain attributes) in GROUP BY.

    keys: these values. where: predicate of their rows; blocks that no row can be in are left out.
    """

    keys: tuple[Value, ...]
    where: Predicate


@dataclass(frozen=True)
class Part:
    """One grouping set, answered by one SELECT.

    select: its columns are the attributes of its GROUP BY, then for each block the aggregates of the table.
    keys: source of each key column of the table: index of an attribute or of a block's key; None where it is NULL.
    axes: for each key, the attribute whose labels its values are.
    """

    select: Select
    blocks: tuple[Block, ...]
    keys: tuple[tuple[Literal["attribute", "block"], int] | None, ...]
    axes: tuple[str | None, ...]

    @property
    def selects(self) -> tuple[Select, ...]:
        return (self.select,)


class NumberAt(NamedTuple):
    """Reference to a number: index of a SELECT without groups, and of its column."""

    select: int
    column: int


@dataclass(frozen=True)
class Rows:
    """Table of values and of references to numbers of SELECTs without groups.

    rows: keys, then numbers, which may be constant or NULL in some rows. axes: for each key column, the attribute whose
    labels it holds, if any.
    """

    selects: tuple[Select, ...]
    rows: tuple[tuple[Value | NumberAt, ...], ...]
    axes: tuple[str | None, ...]


@dataclass(frozen=True)
class Rule:
    """One sort key of ORDER BY."""

    by: Tree
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Keep:
    """Row operation: keep the rows for which a condition is true."""

    condition: Tree


@dataclass(frozen=True)
class Rank:
    """Row operation: append the rank of each row in its partition. within: PARTITION BY. tiles: number for NTILE."""

    kind: RankKind
    within: tuple[Tree, ...]
    rules: tuple[Rule, ...]
    tiles: int = 1


@dataclass(frozen=True)
class Sort:
    """Row operation: sort."""

    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Take:
    """Row operation: LIMIT and OFFSET."""

    limit: int | None
    offset: int


@dataclass(frozen=True)
class Once:
    """Row operation: DISTINCT, the first row for each combination of values of some expressions."""

    by: tuple[Tree, ...]


Step = Keep | Rank | Sort | Take | Once


def trees_of(step: Step) -> list[Tree]:
    """Expressions that a row operation evaluates on each row."""
    if isinstance(step, Keep):
        return [step.condition]
    if isinstance(step, Once):
        return list(step.by)
    if isinstance(step, Take):
        return []
    within = list(step.within) if isinstance(step, Rank) else []
    return [*within, *(rule.by for rule in step.rules)]


@dataclass(frozen=True)
class Item:
    """Output column. number: whether it has an interval. alone: printed without error, as another column has it."""

    name: str
    tree: Tree
    number: bool
    alone: bool = False


def with_own_errors(trees: Sequence[tuple[Tree, bool]]) -> list[bool]:
    """Flags of numbers printed with their standard error: no other column shows it. trees: (tree, is a number)."""
    named = {tree.args[0] for tree, _ in trees if isinstance(tree, Call) and is_error(tree)}
    return [number and tree not in named for tree, number in trees]


@dataclass(frozen=True)
class Table:
    """Plan of one table: rows of groups, row operations in order, and output columns.

    keys: number of key columns. differences: for each aggregate, whether it is a difference, tested against zero.
    """

    parts: tuple[Part | Rows, ...]
    keys: int
    differences: tuple[bool, ...]
    steps: tuple[Step, ...]
    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()

    @property
    def aggregates(self) -> int:
        return len(self.differences)


@dataclass(frozen=True)
class Tables:
    """Plan of UNION ALL: the output rows of several tables, and row operations on all of them."""

    tables: tuple[Table, ...]
    steps: tuple[Step, ...] = field(default=())

    @property
    def selects(self) -> Iterator[Select]:
        """All plain SELECTs to be answered for the plan."""
        return (select for table in self.tables for part in table.parts for select in part.selects)


def step_at(step: Step, at: Callable[[Tree], Tree]) -> Step:
    """Apply a function to each expression of a row operation."""
    if isinstance(step, Keep):
        return Keep(at(step.condition))
    if isinstance(step, Once):
        return Once(tuple(map(at, step.by)))
    if isinstance(step, Take):
        return step
    rules = tuple(replace(rule, by=at(rule.by)) for rule in step.rules)
    if isinstance(step, Sort):
        return Sort(rules)
    return replace(step, within=tuple(map(at, step.within)), rules=rules)


# Stand-ins, far behind any aggregate, while these are still being gathered.
PART = 1_000_000
RANK = 2_000_000


@dataclass(frozen=True)
class Places:
    """Renumbers grouping set and ranks as columns after the aggregates. width: number of keys and aggregates."""

    width: int

    def of_tree(self, tree: Tree) -> Tree:
        if isinstance(tree, Call):
            return Call(tree.name, tuple(map(self.of_tree, tree.args)))
        if isinstance(tree, Ref) and tree.place >= RANK:
            return Ref(tree.place - RANK + self.width + 1)
        return replace(tree, place=self.width) if isinstance(tree, Lookup) and tree.place == PART else tree

    def of_step(self, step: Step) -> Step:
        return step_at(step, self.of_tree)
