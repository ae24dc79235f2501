"""Rows of cells, and expressions on them: worked out at once where they are public or arithmetic of forms.

What depends on noisy values (ROUND, CASE on a count, a rank, a filter) waits as a tree or a step, and is worked out
when the statement is answered. Nothing that adds up rows may follow a step that lets noise choose among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from sfumato.effort import OF_A_NODE, spend
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.column_arithmetic import is_difference
from sfumato.sql.relation.forms import Cell, Deferred, call, is_form
from sfumato.sql.scope import Scope, bare, nodes_in, quoted, text_of, unsupported
from sfumato.sql.table.flatten import Orders, done, ranks
from sfumato.sql.table.items import Numbers, key_lookup
from sfumato.sql.table.plan import RANK, Keep, Once, Rank, Sort, Step, Take, step_at, trees_of
from sfumato.sql.table.syntax import rank_number
from sfumato.sql.values.translate import translate
from sfumato.sql.values.tree import ERROR, Call, Const, Ref, Tree, error_named, evaluate, places, relocated, size

_OUTSIDE = "round, compare and choose noisy numbers in the outermost SELECT"
CHOSEN = "write the total as a subquery of its own, or leave groups out in a SELECT around this one"


@dataclass(frozen=True)
class Field:
    """Named column of a relation, as an expression of its stored columns, by their indices.

    table: name that may qualify it, in small letters. hidden: to be named with that qualifier only, and not part of *.
    """

    name: str
    tree: Tree
    table: str = ""
    hidden: bool = False


@dataclass(frozen=True, eq=False)
class Relation:
    """Intermediate table of public values and forms (sums not evaluated yet), with row operations to apply afterwards.

    columns: stored column by column, (columns, rows). axes: by column index, the attribute whose labels it holds.
    differences: indices of columns that are differences, tested against zero. scopes: name scopes of the SELECTs that
    it comes from. brought: whether it is a public table of the user, whose keys need not be values of the release.
    """

    fields: tuple[Field, ...]
    columns: tuple[tuple[Cell, ...], ...]
    rows: int
    axes: Mapping[int, str] = field(default_factory=dict)
    differences: frozenset[int] = frozenset()
    steps: tuple[Step, ...] = ()
    scopes: tuple[Scope, ...] = ()
    notes: tuple[str, ...] = ()
    brought: bool = False

    @property
    def chosen(self) -> bool:
        """Whether a pending operation selects rows by noisy values."""
        return any(not isinstance(step, Sort | Rank) for step in self.steps)

    def called(self, table: str) -> Relation:
        """Relation renamed; the table name may qualify its fields."""
        return replace(self, fields=tuple(replace(one, table=table.lower()) for one in self.fields))

    def unordered(self, what: str) -> Relation:
        """Relation without its order; refused where noise selects or ranks rows. what: the operation, for messages."""
        if self.chosen or any(place >= RANK for one in self.fields for place in places(one.tree)):
            raise unsupported(f"{what} over rows that noisy values choose or rank", "do that last, in the outer SELECT")
        return replace(self, steps=())

    def cells(self, place: int) -> tuple[Cell, ...]:
        """Column of a field, by its index; refused where it is a function of noisy values, such as ROUND."""
        one = self.fields[place]
        if isinstance(one.tree, Const):
            return (one.tree.value,) * self.rows
        if not isinstance(one.tree, Ref) or one.tree.place >= len(self.columns):
            raise unsupported(f"{one.name}, which goes by noisy values, in this place", _OUTSIDE)
        return self.columns[one.tree.place]


def each_once(scopes: Iterable[Scope]) -> tuple[Scope, ...]:
    """Name scopes of several relations without repetitions."""
    return tuple({id(scope): scope for scope in scopes}.values())


class RowReader:
    """Translates and evaluates expressions over the rows of one SELECT.

    texts: trees of keys, aggregates and windows, by SQL text. fields: trees of columns by name, where rows are not
    grouped. windows: evaluates a window function to a column. given: values of subqueries.
    """

    def __init__(
        self,
        relation: Relation,
        schema: Schema,
        windows: Callable[[Any, RowReader], Sequence[Cell]],
        unknown: Callable[[Any], QueryError],
        given: Sequence[Cell] = (),
    ) -> None:
        self.relation, self.schema, self._windows, self._unknown, self._given = (
            relation,
            schema,
            windows,
            unknown,
            given,
        )
        self.columns = [list(column) for column in relation.columns]
        self.rows, self.axes = relation.rows, dict(relation.axes)
        self.differences, self.steps, self.notes = set(relation.differences), list(relation.steps), list(relation.notes)
        self.texts: dict[str, Tree] = {}
        self._kinds: set[str] = set()  # of syntax, that have texts
        self.fields: dict[str, Tree] = {}
        self._orders: dict[str, dict[Any, int]] = {}  # by attribute, the place of each label
        self._ranks = sum(isinstance(step, Rank) for step in relation.steps)
        self._asked_ranks: list[Tree] = []  # of this SELECT, in the order of their stand-ins
        self.numbers = Numbers(self._is_noisy)

    def _is_noisy(self, place: int) -> bool:
        return place < len(self.columns) and any(map(is_form, self.columns[place]))

    @property
    def orders(self) -> Orders:
        for name in {*self.axes.values()} - self._orders.keys():
            self._orders[name] = {label: at for at, label in enumerate(self.schema.domain[name].labels())}
        return {place: self._orders[name] for place, name in self.axes.items()}

    @property
    def chosen(self) -> bool:
        """Whether a pending filter or limit selects rows by noisy values."""
        return any(not isinstance(step, Sort | Rank) for step in self.steps)

    def value(self, tree: Tree, row: Any) -> Cell:
        """Value of an expression on a row, by the row's index."""
        return evaluate(tree, _Cells(self.columns, row), call)  # type: ignore[arg-type]

    def know(self, node: Any, tree: Tree) -> None:
        """Register the tree of an expression that is evaluated already (key, aggregate, window)."""
        self.texts[text_of(node)] = tree
        self._kinds.add(bare(node).key)

    def add(self, cells: Sequence[Cell]) -> Ref:
        """Append a column, one value or form for each row; return a reference to it."""
        self.columns.append(list(cells))
        return Ref(len(self.columns) - 1)

    def read(self, node: Any, place: str) -> Tree:
        """Translate an expression over the rows. place: the clause that it stands in, for messages."""
        spend(OF_A_NODE * nodes_in(node), "an expression of the rows of a subquery")
        found = self._settled(translate(node, self._leaf, place))
        self.numbers.check(found, node, place)
        if isinstance(found, Ref) and found.place < len(self.columns) and is_difference(node):
            self.differences.add(found.place)
        return found

    def cells(self, node: Any, place: str) -> list[Cell]:
        """Column of an expression, one value or form for each row; refused for ROUND and the like of noisy values."""
        tree = self.read(node, place)
        if isinstance(tree, Const):
            return [tree.value] * self.rows
        if not isinstance(tree, Ref) or tree.place >= len(self.columns):
            raise unsupported(f"{quoted(node)} in {place}, which goes by noisy values,", _OUTSIDE)
        return self.columns[tree.place]

    def public(self, tree: Tree) -> bool:
        """Whether an expression depends on public values alone."""
        if not isinstance(tree, Ref):
            return isinstance(tree, Const)
        return tree.place < len(self.columns) and not self._is_noisy(tree.place)

    def _settled(self, tree: Tree) -> Tree:
        """Evaluate parts of an expression that are public or arithmetic of forms; return it over their columns."""
        if isinstance(tree, Ref | Const):
            return tree
        if all(place < len(self.columns) for place in places(tree)):
            spend(self.rows * size(tree), "an expression of the rows of a subquery")
            try:
                return self.add([self.value(tree, row) for row in range(self.rows)])
            except Deferred:
                pass
        return Call(tree.name, tuple(map(self._settled, tree.args))) if isinstance(tree, Call) else tree

    def _leaf(self, node: Any) -> Tree | None:
        if node.key == "var":
            return self._stand_in(node)
        if node.key in ("literal", "boolean", "null", "paren"):
            return None
        if node.key in self._kinds and (found := self.texts.get(text_of(node))) is not None:
            return found
        if node.key == "window":
            found = self.add(self._windows(node, self))
            self.know(node, found)
            return found
        if node.key == "column" and node.this.key != "star":
            return self._column(node)
        return self._of_one_key(node)

    def _column(self, node: Any) -> Tree:
        """Resolve a column name to its field, or to an error of a field: n_low is the lower end of n."""
        error = error_named(node.name, self.fields)
        if error is not None and self.numbers.is_number(self.fields[error[0]]):
            return Call(f"{ERROR}:{error[1]}", (self.fields[error[0]],))
        if node.name.lower() not in self.fields:
            raise self._unknown(node)
        return self.fields[node.name.lower()]

    def _stand_in(self, node: Any) -> Tree | None:
        """Resolve a placeholder to its rank or to the number of its subquery."""
        rank = rank_number(node)
        if rank is not None:
            return self._asked_ranks[rank]
        kind, _, number = node.name.partition(" ")
        return self.add([self._given[int(number)]] * self.rows) if kind == "cell" else None

    def _of_one_key(self, node: Any) -> Tree | None:
        """Tabulate an expression of one key over the public values of its attribute; None for any other expression."""
        from sqlglot import exp

        columns = []
        for part in node.walk():
            spend(1, "an expression of a key")
            if isinstance(part, exp.AggFunc | exp.Window | exp.Subquery | exp.Var):
                return None
            columns += [part] if isinstance(part, exp.Column) else []
        if not columns:
            return None
        keys = {self.texts.get(text_of(column)) or self.fields.get(column.name.lower()) for column in columns}
        key = keys.pop() if len(keys) == 1 else None
        if not isinstance(key, Ref) or key.place not in self.axes:
            return None
        axis = self.schema.domain[self.axes[key.place]]
        copy = node.copy()
        for column in list(copy.find_all(exp.Column)):
            column.replace(exp.column(axis.name, quoted=True))
        return key_lookup(copy, axis, key.place, Scope(self.schema, frozenset()), node)

    def rank(self, step: Rank) -> None:
        """Add a rank column, now if it depends on public values alone; its placeholder resolves to it."""
        if not self.chosen and all(map(self.public, trees_of(step))):
            found: Tree = self.add(ranks(step, range(self.rows), self.orders, self.value))
        else:
            self._waits(step)
            found = Ref(RANK + self._ranks)
            self._ranks += 1
        self._asked_ranks.append(found)

    def filter(self, condition: Any, word: str) -> None:
        """Keep the rows for which a condition holds. word: WHERE or the like."""
        self.do(Keep(self.read(condition, word)), word)

    def do(self, step: Step, word: str) -> None:
        """Apply a row operation: now if it uses public values and none is pending, else later. word: SQL clause."""
        if isinstance(step, Rank):
            self.rank(step)
        elif self._must_wait(step):
            if isinstance(step, Once):
                raise unsupported("SELECT DISTINCT of aggregates", "leave DISTINCT out: groups differ in their keys")
            self._waits(step, word)
        elif isinstance(step, Take):
            self.keep(range(self.rows)[step.offset : None if step.limit is None else step.offset + step.limit])
        else:
            self.keep(done(step, list(range(self.rows)), self.orders, self.value))

    def _must_wait(self, step: Step) -> bool:
        """Whether a row operation depends on noisy values or follows one that does; a filter may move before a sort."""
        before = [one for one in self.steps if not (isinstance(step, Keep) and isinstance(one, Sort))]
        return bool(before) or not all(map(self.public, trees_of(step)))

    def _waits(self, step: Step, word: str = "") -> None:
        self.steps.append(step)
        note = self.numbers.note(step, word)
        self.notes += [note] if note else []

    def keep(self, kept: Sequence[int]) -> None:
        """Keep some rows, by index."""
        self.columns = [[column[row] for row in kept] for column in self.columns]
        self.rows = len(kept)

    def relation_of(self, fields: Sequence[Field], scopes: Sequence[Scope] = ()) -> Relation:
        """Relation of these fields, without columns that neither these nor pending operations use."""
        trees = [*(one.tree for one in fields), *(tree for step in self.steps for tree in trees_of(step))]
        used = sorted({place for tree in trees for place in places(tree) if place < RANK})
        moved = {place: at for at, place in enumerate(used)}

        def at(tree: Tree) -> Tree:
            return relocated(tree, lambda place: moved.get(place, place))

        return Relation(
            tuple(replace(one, tree=at(one.tree)) for one in fields),
            tuple(tuple(self.columns[place]) for place in used),
            self.rows,
            {moved[place]: name for place, name in self.axes.items() if place in moved},
            frozenset(moved[place] for place in self.differences if place in moved),
            tuple(step_at(step, at) for step in self.steps),
            (*self.relation.scopes, *scopes),
            tuple(self.notes),
        )


class _Cells:
    """View of one row of a table that is stored by columns."""

    def __init__(self, columns: Sequence[Sequence[Cell]], row: int) -> None:
        self._columns, self._row = columns, row

    def __getitem__(self, place: int) -> Cell:
        return self._columns[place][self._row]
