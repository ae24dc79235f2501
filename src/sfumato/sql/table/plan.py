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
    """The groups that share the values of all expressions of GROUP BY.

    keys: these values. where: the rows; a group that can have none of them is not there.
    """

    keys: tuple[Value, ...]
    where: Predicate


@dataclass(frozen=True)
class Part:
    """One grouping set.

    select: its columns are the attributes of its GROUP BY, then for each block the aggregates of the table.
    keys: where each key of the table is found: among the attributes or among the block's keys; None where it is NULL.
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
    """The place of a number: a column of one of several SELECTs without groups."""

    select: int
    column: int


@dataclass(frozen=True)
class Rows:
    """Rows in which each number comes from a statement of its own.

    rows: keys, then numbers; a number can be a constant or NULL in some rows. axes: for each key, the attribute whose
    labels its values are.
    """

    selects: tuple[Select, ...]
    rows: tuple[tuple[Value | NumberAt, ...], ...]
    axes: tuple[str | None, ...]


@dataclass(frozen=True)
class Rule:
    """One rule of ORDER BY."""

    by: Tree
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Keep:
    """Keep the rows for which a condition is true."""

    condition: Tree


@dataclass(frozen=True)
class Rank:
    """Add a cell to every row: its rank among the rows that agree in some expressions. tiles: those of NTILE."""

    kind: RankKind
    within: tuple[Tree, ...]
    rules: tuple[Rule, ...]
    tiles: int = 1


@dataclass(frozen=True)
class Sort:
    """Bring the rows into an order."""

    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Take:
    """Keep some rows only, by place."""

    limit: int | None
    offset: int


@dataclass(frozen=True)
class Once:
    """DISTINCT: keep the first of rows that agree in all these expressions."""

    by: tuple[Tree, ...]


Step = Keep | Rank | Sort | Take | Once


def trees_of(step: Step) -> list[Tree]:
    """The expressions that a step works out for each row."""
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
    """A column of the answer; number: whether it has an interval. alone: whether its errors are not shown beside it."""

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
    """Groups, steps on their rows in order, and what is shown of them in the end.

    differences: for each aggregate, whether it says how far two things are apart.
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
    """The rows of several tables one after the other, and steps on what they show."""

    tables: tuple[Table, ...]
    steps: tuple[Step, ...] = field(default=())

    @property
    def selects(self) -> Iterator[Select]:
        """Every plain SELECT that has to be answered."""
        return (select for table in self.tables for part in table.parts for select in part.selects)


def step_at(step: Step, at: Callable[[Tree], Tree]) -> Step:
    """A step with each of its expressions changed."""
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
    """Puts the grouping set and the ranks behind the last aggregate; width: of keys and aggregates together."""

    width: int

    def of_tree(self, tree: Tree) -> Tree:
        if isinstance(tree, Call):
            return Call(tree.name, tuple(map(self.of_tree, tree.args)))
        if isinstance(tree, Ref) and tree.place >= RANK:
            return Ref(tree.place - RANK + self.width + 1)
        return replace(tree, place=self.width) if isinstance(tree, Lookup) and tree.place == PART else tree

    def of_step(self, step: Step) -> Step:
        return step_at(step, self.of_tree)
