"""Answer statements with the kind of interval asked for: single, simultaneous, or adjusted for selection.

Statements of several SELECTs (grouping sets, UNION) are answered one by one, and table_values.py works on their rows.

Simultaneous intervals count all m numbers that could have been shown, so they hold for those that LIMIT and HAVING
select by their noise too. Each has the confidence of Bonferroni or Sidak (`of_each`), or, with shared noises that are
near normal, that of their joint distribution (joint_confidence.py).

Selection: the k of m groups with the largest noisy values are those whose noise was large. Intervals at 1 - R (1 - c) /
m each, R of m rows shown, keep the false coverage rate at 1 - c (Benjamini, Yekutieli 2005): under any dependence for
fixed R, as by LIMIT; where noise decides R, as by HAVING, it is proved for independent noises. Selection by public keys
needs no adjustment, and rows removed that way do not count in m.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from math import ceil, log10, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sfumato.answers.answer import difference_notes, moment_of, of_each, said_once
from sfumato.answers.noise_sum import NONE, check_confidence
from sfumato.answers.question import NO_SAMPLE, Groups, Manner
from sfumato.answers.results import Estimate, Result
from sfumato.answers.table_values import Row, done, known_for_sure, shown, work_out
from sfumato.domain import Domain
from sfumato.effort import MOST_STEPS, STEPS_OF_A_ROW, counted, spend
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.sql import Column, Key, Select, SyntheticRows, selects_of
from sfumato.sql.table.flatten import Orders
from sfumato.sql.table.plan import Item, Keep, NumberAt, Part, Rank, Rows, Sort, Step, Table, Tables, Take, trees_of
from sfumato.sql.values.tree import Ref, Tree, calls, is_error, places, size

if TYPE_CHECKING:
    from sfumato.releases.contents.content import Content
    from sfumato.sql.compile import Statement

HIGHEST, LOWEST, CONDITION = "came out highest", "came out lowest", "met the condition"
_OFF = {HIGHEST: "too high", LOWEST: "too low", CONDITION: "off to the side that let them in"}


@dataclass(frozen=True)
class Chosen:
    """Selection of `shown` rows among `among` by their noisy values. how: the criterion, in words.

    by_errors: whether a condition looks at ends of intervals, which move with their confidence: these then hold for all
    rows together, and so for those that are left.
    """

    shown: int
    among: int
    how: str = CONDITION
    by_errors: bool = False

    @property
    def share(self) -> float:
        return (1 if self.by_errors else self.shown) / self.among

    def note(self, confidence: float, *, allowed: bool, together: bool) -> str:
        """Note for readers on the selection. allowed: intervals account for it; together: they are simultaneous."""
        one = self.shown == 1
        rows = "the row shown was" if one else f"the {self.shown:,} rows shown were"
        whose, are = ("its noisy value", "it is") if one else ("their noisy values", "they are")
        text = f"{rows} chosen among {self.among:,} because {whose} {self.how}, so on average {are} {_OFF[self.how]}; "
        if together:
            return text + "the intervals hold for all rows together, and so for the chosen ones"
        if allowed:
            return text + f"the intervals are wide enough for that: of rows chosen so, {confidence * 100:.6g} % hold"
        return text + "the intervals do not allow for that and may hold less often: ask for selected ones"


def confidence_of_each(confidence: float, choices: Iterable[Chosen]) -> float:
    """Confidence of each interval that keeps the false coverage rate of the selected ones (Benjamini, Yekutieli).

    >>> round(confidence_of_each(0.95, [Chosen(5, 1000, HIGHEST)]), 6)
    0.99975
    """
    return 1.0 - prod(choice.share for choice in choices) * (1.0 - confidence)


def chosen_by(select: Select, domain: Domain) -> Chosen | None:
    """Selection by LIMIT after ORDER BY a noisy number; None where keys alone decide, or every group is shown."""
    if not select.chooses:
        return None
    among = len(Groups.of(select, domain).present)
    left = max(0, among - select.offset)
    shown = left if select.limit is None else min(select.limit, left)
    how = CONDITION if select.offset else HIGHEST if select.ordering[0][1] else LOWEST
    return Chosen(shown, among, how) if 0 < shown < among else None


class Followed:
    """Tracker of row operations: records those that select rows by noisy numbers."""

    def __init__(self, noisy: Iterable[int], next_rank: int) -> None:
        """noisy: column indices of noisy numbers. next_rank: column index of the next rank."""
        self.noisy, self._next = set(noisy), next_rank
        self._order = ""  # of the last sort, if it went by noise
        self.choices: list[Chosen] = []

    def step(self, step: Step, before: int, after: int) -> None:
        """Record a row operation, with the number of rows before and after it."""
        looks = any(self.looks_at_noise(tree) for tree in trees_of(step))
        if isinstance(step, Rank):
            if looks:
                self.noisy.add(self._next)
            self._next += 1
        elif isinstance(step, Sort):
            falling = [rule.descending for rule in step.rules if self.looks_at_noise(rule.by)]
            self._order = "" if not falling else HIGHEST if falling[0] else LOWEST
        elif isinstance(step, Keep) and looks:
            self._chose(before, after, CONDITION, looks_at_errors(step))
        elif isinstance(step, Take) and self._order:
            self._chose(before, after, CONDITION if step.offset else self._order)

    def looks_at_noise(self, tree: Tree) -> bool:
        """Whether an expression refers to noisy numbers."""
        return bool(places(tree) & self.noisy)

    def _chose(self, before: int, after: int, how: str, by_errors: bool = False) -> None:
        """Record a selection that removed some rows but not all."""
        if 0 < after < before:
            self.choices.append(Chosen(after, before, how, by_errors))


def looks_at_errors(step: Step) -> bool:
    """Whether a step looks at standard errors or ends of intervals."""
    return any(is_error(part) for tree in trees_of(step) for part in calls(tree))


def followed(table: Table) -> Followed:
    """Selection tracker of a table, before its first operation."""
    return Followed(range(table.keys, table.keys + table.aggregates), table.keys + table.aggregates + 1)


Ask = Callable[[Select], Result]
Choices = tuple[tuple[Chosen, ...], ...]


class Answered(NamedTuple):
    """Result of a statement. chosen: for each of its tables, what selects rows by noisy values (filter, limit)."""

    result: Result
    chosen: Choices


def run_tables(tables: Tables, domain: Domain, ask: Ask, confidence: float) -> Answered:
    """Answer a statement of several SELECTs. ask: answers a plain SELECT."""
    rows: list[Row] = []
    notes: list[str] = []
    moments: list[list[str | None]] = []
    chosen: list[tuple[Chosen, ...]] = []
    noisy: set[int] = set()
    for table in tables.tables:
        path = followed(table)
        table_rows = _run(table, domain, ask, notes, path)
        chosen.append(tuple(path.choices))
        noisy |= {place for place, item in enumerate(table.items) if path.looks_at_noise(item.tree)}
        notes += difference_notes(_columns(table, table_rows), table_rows, confidence)
        moments.append([_moment_of(item, place, table_rows, table, domain) for place, item in enumerate(table.items)])
        rows += table_rows
    last = Followed(noisy, len(tables.tables[0].items))
    for step in tables.steps:
        before, rows = len(rows), done(step, rows, _orders(_shown_axes(tables), domain))
        last.step(step, before, len(rows))
    first = tables.tables[0].items
    numbers = [any(table.items[place].number for table in tables.tables) for place in range(len(first))]
    _refuse_mixed(rows, [item.name for item in first])
    different = [
        any(isinstance(row[at], Estimate) and row[at].real is not None for row in rows) for at in range(len(first))
    ]
    cells = tuple(
        tuple(
            _as_number(cell, confidence, difference) if number else shown(cell)
            for cell, number, difference in zip(row, numbers, different, strict=True)
        )
        for row in rows
    )
    estimated = frozenset(item.name for item, number in zip(first, numbers, strict=True) if number)
    names = tuple(item.name for item in first)
    alike = [kinds[0] if len({*kinds}) == 1 else None for kinds in zip(*moments, strict=True)]
    dated = {name: kind for name, kind in zip(names, alike, strict=True) if kind is not None}
    alone = frozenset(item.name for item in first if item.alone)
    result = Result(names, cells, confidence, said_once(notes), numbers=estimated, dated=dated, alone=alone)
    return Answered(result, tuple((*choices, *last.choices) for choices in chosen))


def _as_number(cell: Any, confidence: float, difference: bool) -> Estimate:
    """Convert a cell, also NULL or a constant, to an estimate. difference: mark whether it is significant."""
    found = cell if isinstance(cell, Estimate) else known_for_sure(cell, confidence)
    return replace(found, real=found.excludes_zero) if difference and found.real is None else found


def _moment_of(item: Item, index: int, rows: list[Row], table: Table, domain: Domain) -> str | None:
    """Time unit of an item that holds dates ("day" or "hour"), from its source column or else from its values."""
    if isinstance(item.tree, Ref):
        kinds = {_moment_at(item.tree.place, part, table, domain) for part in table.parts} - {""}
        if len(kinds) == 1 and (kind := kinds.pop()) is not None:
            return kind
    types = {type(row[index]) for row in rows} - {type(None)}
    return "day" if types == {date} else "hour" if types == {datetime} else None


def _moment_at(index: int, part: Part | Rows, table: Table, domain: Domain) -> str | None:
    """Time unit of a key or aggregate of one grouping set; empty where it is NULL in all rows."""
    if index < table.keys:
        axis = part.axes[index]
        if axis is None:
            return "" if isinstance(part, Part) and part.keys[index] is None else None
        return moment_of(Key(axis, axis), domain)
    if isinstance(part, Part) and index < table.keys + table.aggregates and part.blocks:
        return moment_of(part.select.columns[len(part.select.group_by) + index - table.keys], domain)
    return None


def _refuse_mixed(rows: list[Row], names: list[str]) -> None:
    """Raise a QueryError for a column with text in some rows and numbers or truth values in others."""
    for name, column in zip(names, zip(*rows, strict=True), strict=False):
        if len({_kind(cell) for cell in column if cell is not None}) > 1:
            raise QueryError(f"{name} has values of several types; let all branches of CASE and the like have one")


def _kind(cell: Any) -> str:
    """Column type of a cell; dates count as text."""
    if isinstance(cell, bool):
        return "truth"
    return "number" if isinstance(cell, int | float) or (isinstance(cell, Estimate) and not cell.dates) else "text"


def _run(table: Table, domain: Domain, ask: Ask, notes: list[str], path: Followed) -> list[Row]:
    """Rows of one table after its operations. notes: extended in place. path: selection tracker."""
    rows = [row for number, part in enumerate(table.parts) for row in _rows_of(part, number, table, domain, ask, notes)]
    orders = _orders(_axes(table), domain)
    with counted(MOST_STEPS + STEPS_OF_A_ROW * len(rows)):
        for step in table.steps:
            before, rows = len(rows), done(step, rows, orders)
            path.step(step, before, len(rows))
        spend(len(rows) * sum(size(item.tree) for item in table.items), "the select list")
        notes += table.notes
        return [[work_out(item.tree, row) for item in table.items] for row in rows]


def _axes(table: Table) -> dict[int, str]:
    """By place, the attribute whose labels the values of a key are."""
    return {place: name for part in table.parts for place, name in enumerate(part.axes) if name is not None}


def _shown_axes(tables: Tables) -> dict[int, str]:
    """By place, the attribute whose labels a column of the answer has in each of the tables that it is made of."""
    shown = []
    for table in tables.tables:
        axes = _axes(table)
        trees = [item.tree for item in table.items]
        shown.append([axes.get(tree.place) if isinstance(tree, Ref) else None for tree in trees])
    columns = enumerate(zip(*shown, strict=True))
    return {place: names[0] for place, names in columns if names[0] is not None and len(set(names)) == 1}


def _orders(axes: Mapping[int, str], domain: Domain) -> Orders:
    """The order in which the schema lists the values of attributes."""
    return {place: {label: cell for cell, label in enumerate(domain[name].labels())} for place, name in axes.items()}


def _rows_of(part: Part | Rows, number: int, table: Table, domain: Domain, ask: Ask, notes: list[str]) -> list[Row]:
    """Rows of one grouping set in key order: keys, aggregates, and the number of the set."""
    if isinstance(part, Rows):
        return _single_rows(part, number, table, ask, notes)
    names = part.select.group_by
    groups = Groups.of(part.select, domain)
    codes = [groups.code(name).tolist() for name in names]
    answers: Sequence[tuple[Any, ...]]
    if table.aggregates and part.blocks:
        result = ask(part.select)
        answers = result.rows
        notes += result.notes
    else:  # values alone, which are public
        labels = [[domain[name].label(code) for code in along] for name, along in zip(names, codes, strict=True)]
        answers = list(zip(*labels, strict=True)) if names else [()]
        notes += part.select.notes
    constants = zip(*(block.keys for block in part.blocks), strict=True)  # by their first appearance
    ordinals = [{value: place for place, value in enumerate(dict.fromkeys(column))} for column in constants]
    keyed = []
    for place, block in enumerate(part.blocks):
        there = Groups.of(Select((), names, block.where), domain).present
        start = len(names) + place * table.aggregates
        for row in np.flatnonzero(np.isin(groups.present, there)).tolist():
            keys: list[Any] = []
            order: list[int] = []
            for source in part.keys:
                if source is None:
                    keys.append(None)
                elif source[0] == "attribute":
                    keys.append(answers[row][source[1]])
                    order.append(codes[source[1]][row])
                else:
                    keys.append(block.keys[source[1]])
                    order.append(ordinals[source[1]][keys[-1]])
            numbers = answers[row][start : start + table.aggregates]
            keyed.append((order, [*keys, *map(_with_real, numbers, table.differences), number]))
    return [row for _, row in sorted(keyed, key=lambda pair: pair[0])]


def _single_rows(part: Rows, number: int, table: Table, ask: Ask, notes: list[str]) -> list[Row]:
    """Rows whose numbers are columns of SELECTs without groups."""
    results = [ask(select) for select in part.selects]
    for result in results:
        notes += result.notes
    answers: list[tuple[Any, ...]] = [result.rows[0] for result in results]
    rows: list[Row] = []
    for row in part.rows:
        cells = [answers[cell.select][cell.column] if isinstance(cell, NumberAt) else cell for cell in row]
        marked = zip(cells[table.keys :], table.differences, strict=True)
        real = [_with_real(cell, different) if isinstance(cell, Estimate) else cell for cell, different in marked]
        rows.append([*cells[: table.keys], *real, number])
    return rows


def _with_real(cell: Estimate, difference: bool) -> Estimate:
    """Mark a difference as significant where its interval excludes zero."""
    return replace(cell, real=cell.excludes_zero) if difference else cell


def _columns(table: Table, rows: list[Row]) -> list[Key | Column]:
    """Columns of a table, marked as differences where their cells are, for the notes."""
    estimates = [[row[place] for row in rows if isinstance(row[place], Estimate)] for place in range(len(table.items))]
    different = [any(cell.real is not None for cell in column) for column in estimates]
    return [
        Column(item.name, (), difference=real) if item.number else Key(item.name, "")
        for item, real in zip(table.items, different, strict=True)
    ]


UNBIASED = "counts and sums are as measured: noise is all that they are off by, and they may be negative"
JOINT = ", as the noises that they share allow"


def run_in_manner(statement: Statement, content: Content, confidence: float, manner: Manner) -> Result:
    """Answer a compiled statement with intervals of the kind in `manner`."""
    check_confidence(confidence)
    if isinstance(statement, SyntheticRows):
        raise QueryError("synthetic rows have no intervals of any kind; ask for an aggregate")
    level, note = confidence, population_notes(content) if manner.population else ()
    if manner.simultaneous:
        selects = selects_of(statement)
        numbers = sum(
            len(Groups.of(select, content.domain).present) * max(1, len(set(select.aggregates))) for select in selects
        )
        # One number for each group that depends on its own cells alone has noises of its own.
        own = len(selects) == 1 and all(amount.grouped for amount in selects[0].amounts)
        apart = own and len(set(selects[0].aggregates)) == 1 and content.independent and not manner.population
        level = of_each(confidence, numbers, apart=apart)
        alone = len(selects) == 1 and not apart and not manner.population
        joint = content.together(selects[0], confidence) if alone else None
        level, by_joint = (joint, True) if joint is not None and joint < level else (level, False)
        note = (*note, _said(numbers, confidence, level) + (JOINT if by_joint else ""))

    def run(kind: str, chosen: Choices = ()) -> Answered:
        # Guaranteed ends are within what is possible; beside them typical ones are, too, so that like stands by like.
        alone = replace(manner, interval=kind, possible=manner.possible or manner.interval == "both")

        def ask(select: Select, choices: Sequence[Chosen]) -> Result:
            asked = confidence_of_each(level, choices)
            in_tails = manner.one_of_many or manner.unbiased or asked > confidence
            return content.select_as(select, asked, replace(alone, one_of_many=in_tails))

        if isinstance(statement, Select):
            return Answered(ask(statement, chosen[0] if chosen else ()), chosen)
        listed = zip(statement.tables, chosen or [()] * len(statement.tables), strict=True)
        by_select = {
            id(select): choices for table, choices in listed for part in table.parts for select in part.selects
        }
        return run_tables(statement, content.domain, lambda select: ask(select, by_select[id(select)]), level)

    kind = "typical" if manner.interval == "both" else manner.interval
    allowed = manner.selected and not manner.simultaneous
    if isinstance(statement, Select):  # how many rows LIMIT leaves is known beforehand
        choice = chosen_by(statement, content.domain)
        chosen: Choices = ((choice,),) if choice is not None else ()
        result = run(kind, chosen if allowed else ()).result
    else:
        result, chosen = run(kind)
        steps = (step for table in statement.tables for step in table.steps)
        if manner.interval == "both" and any(map(looks_at_errors, steps)):
            raise QueryError("a condition or order by ends of intervals takes one kind of these: typical or guaranteed")
        if allowed and any(chosen):
            again = run(kind, chosen)
            result, chosen = again.result, again.chosen if any(again.chosen) else chosen
    if manner.interval == "both":
        result = _side_by_side(result, run("guaranteed", chosen if allowed else ()).result)
    choices = dict.fromkeys(choice for listed in chosen for choice in listed)
    said = [one.note(confidence, allowed=allowed, together=manner.simultaneous) for one in choices]
    said += [UNBIASED] if manner.unbiased else []
    return replace(result, confidence=confidence, notes=(*result.notes, *said, *note))


def population_notes(content: Content) -> tuple[str, ...]:
    """Notes on intervals about a population; refused where rows cannot be taken as a sample."""
    if content.newest is not content:
        raise QueryError("the periods of a series are no one sample of a population; ask a single release")
    unit, size = content.schema.privacy_unit, content.schema.population
    told = "" if size is None else f" of {size:,}, of which the sample is a part that needs no guessing"
    one = "" if unit.contributions == 1 else f"; several rows of one {unit.column} make it larger than that"
    return (
        f"intervals are about the population{told}: the error of drawing rows one by one is in them beside the noise"
        f"{one}; a count is that of a sample of this size",
    )


def text_in_manner(sql: str, content: Content, confidence: float, manner: Manner) -> Result | None:
    """Answer of a content that parses statements itself; None where it does not accept this one."""
    own = content.answer_text(sql, confidence)
    if own is None:
        return None
    if manner.interval != "typical" or manner.population:
        raise QueryError(NO_SAMPLE if manner.population else NONE)
    if not manner.simultaneous:
        return own
    numbers = sum(isinstance(cell, Estimate) for row in own.rows for cell in row)
    level = of_each(confidence, numbers)
    result = content.answer_text(sql, level) or own
    return replace(result, confidence=confidence, notes=(*result.notes, _said(numbers, confidence, level)))


def _said(numbers: int, confidence: float, level: float) -> str:
    """Note on simultaneous intervals and the confidence of each."""
    if numbers <= 1:
        return "there is one number, so its interval holds for all"
    missed = max((1.0 - level) * 100.0, 1e-12)
    digits = max(1, ceil(-log10(missed)))  # as many as tell it from all: 98.3, 99.95, 99.9995
    return (
        f"all {numbers:,} intervals that this question could show hold together with {confidence * 100:.6g} % "
        f"confidence, so that of the most striking one does too; each by itself holds with {level * 100:.{digits}f} %"
    )


def _side_by_side(typical: Result, sure: Result) -> Result:
    """Result with typical intervals and guaranteed bounds beside them; values and rows are the same in both."""
    rows = tuple(
        tuple(
            replace(one, sure=(other.low, other.high))
            if isinstance(one, Estimate) and isinstance(other, Estimate)
            else one
            for one, other in zip(*pair, strict=True)
        )
        for pair in zip(typical.rows, sure.rows, strict=True)
    )
    return replace(typical, rows=rows, notes=said_once((*typical.notes, *sure.notes)))
