"""Questions of a plan: the statements of a workload, or the default questions of a schema.

Error of one question under a known noise distribution: exact, before any data is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf, isfinite, nan, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.results import Estimate
from sfumato.domain import LARGEST_NUMBER, Axis
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries import AllRanges, Identity, Kron, Queries, Ranges, Total, Workload
from sfumato.queries.kron import over
from sfumato.queries.workload import attribute_sets, default_workload, places_among
from sfumato.releases.contents.content import Content
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema
from sfumato.schema.series import PERIOD
from sfumato.sql import Amount, Column, Select

Statements = Sequence[tuple[str, Select]]
MOST_PAIRS = 6


@dataclass(frozen=True, eq=False)
class Item:
    """Question of a plan.

    block: matrix of the counts it asks for, (queries, cells), where it asks for counts alone; otherwise `select` says
    what is computed from counts. guess: whether its error depends on the data even if the noise does not, as that of an
    average.
    """

    query: str
    unit: str
    block: Queries | None = None
    select: Select | None = None
    guess: bool = False


def read_statements(workload: str | Path | Sequence[str] | Statements, schema: Schema) -> Statements:
    """Parse a workload: SQL text, a file of it, a list of texts, or compiled statements; checked against the schema."""
    from sfumato.sql import read_workload

    where = "the workload"
    if isinstance(workload, str) and not _is_sql(workload):
        workload = Path(workload)
    if isinstance(workload, Path):
        where = f"the workload {workload}"
        try:
            workload = workload.read_text(encoding="utf-8")
        except (OSError, ValueError):
            raise QueryError(f"{where} cannot be read; name a text file of SELECT statements") from None
    if schema.domain.size > LARGEST_NUMBER:
        raise QueryError(
            f"{where} cannot be weighed over more cells than 2^62; leave it out, and all tables of one, two and three "
            "attributes are served"
        )
    listed: list[str | tuple[str, Select]] = list(read_workload(workload) if isinstance(workload, str) else workload)
    if not listed:
        raise QueryError(f"{where} holds no query; write SELECT statements, separated by semicolons")
    statements: list[tuple[str, Select]] = []
    for number, one in enumerate(listed, 1):
        try:
            statements += _compiled(one, schema) if isinstance(one, str) else [one]
        except QueryError as problem:
            over = schema.series is not None and f"no column {PERIOD!r}" in str(problem)
            hint = "; a workload is about the table of one period, and sums over periods are served by running: true"
            raise type(problem)(f"{where}, statement {number} of {len(listed)}: {problem}{hint * over}") from None
    return statements


def _compiled(text: str, schema: Schema) -> list[tuple[str, Select]]:
    """Plain SELECTs of a statement, each with its name; those that count nothing are left out."""
    from sfumato.sql import compile_statement, selects_of

    selects = [select for select in selects_of(compile_statement(text, schema)) if select.aggregates]
    if not selects:
        raise QueryError("it asks for public values alone, which need no release; ask for COUNT, SUM or AVG")
    name, many = " ".join(text.split()), len(selects)
    return [(f"{name} (part {place} of {many})" if many > 1 else name, one) for place, one in enumerate(selects, 1)]


def _is_sql(text: str) -> bool:
    """Whether a text is SQL and not the name of a file.

    >>> _is_sql("SELECT COUNT(*) FROM t"), _is_sql("queries.sql"), _is_sql("my queries.sql")
    (True, False, False)
    """
    return not text.strip() or re.search(r"\bselect\s|--|;|\n", text, re.IGNORECASE) is not None


def statement_items(statements: Statements, schema: Schema) -> tuple[list[Item], Workload]:
    """Questions of a workload's statements, and the workload of counts that they depend on."""
    from sfumato.sql.workload import workload_of

    workload = workload_of(statements, schema)
    blocks = dict(zip(workload.names, workload.blocks, strict=True))
    items = []
    for query, select in statements:
        if not select.aggregates:
            raise QueryError(f"this query has no number in it, so there is no error to plan: {query}")
        counts = select.exact and all(column.kind == "count" and column.scale == 1 for column in select.aggregates)
        ratio = any(column.denominator is not None or column.rule is not None for column in select.aggregates)
        block = blocks.get(query) if counts else None
        items.append(Item(query, _unit_of(select), block, select, ratio or not select.exact))
    return items, workload


def default_items(schema: Schema) -> tuple[list[Item], Workload]:
    """Default questions: total, ranges and values of one and two attributes, a table of three, one cell; sums."""
    domain, dataset = schema.domain, schema.dataset
    workload, several = default_workload(domain), len(domain.axes) > 1
    items = [Item(f"COUNT(*) FROM {dataset}", "rows", Total(domain.size))]
    pairs = 0
    sets = attribute_sets(domain)
    blocks = [block for block in workload.blocks if isinstance(block, Kron)]
    for axes, block in zip(sets, blocks, strict=False):
        pairs += len(axes) == 2
        if len(axes) == 1 and several and axes[0].ordered:
            alone = over(domain, {axes[0].name: Identity(axes[0].size)})
            items.append(Item(f"COUNT(*) ... GROUP BY {axes[0].name}", "rows", alone))
        if pairs <= MOST_PAIRS and (several or axes[0].ordered):
            items.append(Item(_in_words(axes), "rows", block))
    if len(domain.axes) > 3:
        three = tuple(domain)[:3]
        table = over(domain, {axis.name: Identity(axis.size) for axis in three})
        items.append(Item(f"COUNT(*) ... GROUP BY {', '.join(axis.name for axis in three)}", "rows", table))
    items.append(Item("COUNT(*) of one cell", "rows", Identity(domain.size)))
    items += [Item(query, _unit_of(select), None, select, guess) for query, select, guess in of_measures(schema)]
    return items, workload


MOST_EXAMPLES = 6
MOST_IN_A_CELL = 20  # attributes, up to which the rarest cell is an example: with more, nobody asks for one


def example_items(schema: Schema) -> list[Item]:
    """Up to six common questions in plain words; fewer for a schema with few attributes and values."""
    domain, axes = schema.domain, [axis for axis in schema.domain if axis.size > 1] or list(schema.domain)[:1]
    ordered = [axis for axis in axes if axis.ordered and axis.size > 2]

    def counted(words: str, along: Mapping[str, Queries]) -> Item:
        return Item(words, "rows", over(domain, along))

    def values(*chosen: Axis) -> Item:
        names = " and one of ".join(axis.name for axis in chosen)
        return counted(f"rows with one value of {names}", {axis.name: Identity(axis.size) for axis in chosen})

    wanted = [counted("all rows", {}), values(axes[0])]
    wanted += [counted(f"rows in a range of {axis.name}", {axis.name: AllRanges(axis.size)}) for axis in ordered[:1]]
    wanted += [values(*axes[:2])] if len(axes) > 1 else []
    totals = [
        Item(f"{'average' if guess else 'sum'} of {select.aggregates[0].numerator[0].of} over all rows", *rest)
        for _, select, guess in of_measures(schema)
        for rest in [(_unit_of(select), None, select, guess)]
    ]
    totals.sort(key=lambda item: not item.guess)  # averages first
    wanted += totals[:1]
    if 2 < len(axes) <= MOST_IN_A_CELL:
        every = {axis.name: Identity(axis.size) for axis in axes}
        wanted.append(counted("rows in the rarest cell: one value of each attribute", every))
    further = [values(axis) for axis in axes[1:2]]
    if len(axes) > 1 and ordered:
        other = next(axis for axis in axes if axis is not ordered[0])
        both: dict[str, Queries] = {ordered[0].name: AllRanges(ordered[0].size), other.name: Identity(other.size)}
        further.append(counted(f"rows in a range of {ordered[0].name}, one value of {other.name}", both))
    further += [values(*axes[:3])] if len(axes) > 3 else []
    further += [values(axis) for axis in axes[2:3]] + [values(*axes[1:3])] * (len(axes) > 2)
    parts = ((2, "half"), (4, "a quarter"), (10, "a tenth")) if len(axes) == 1 else ()
    further += [
        counted(f"rows in {words} of the values of {axes[0].name}", {axes[0].name: _first(axes[0].size, part)})
        for part, words in parts
        if axes[0].size >= 2 * part
    ]
    further += totals[1:]
    return wanted + further[: max(0, MOST_EXAMPLES - len(wanted))]


def _first(size: int, part: int) -> Queries:
    """Count of the first `size // part` values of an axis of `size`."""
    return Ranges(size, np.zeros(1, dtype=np.int64), np.array([size // part - 1]))


def sparse_items(schema: Schema) -> list[Item]:
    """Default questions for a domain that is too large to lay out."""
    axes = list(schema.domain)
    questions = [(f"COUNT(*) FROM {schema.dataset}", _count(()))]
    questions += [(f"COUNT(*) ... GROUP BY {axis.name}", _count((axis,))) for axis in axes if len(axes) > 1]
    questions.append(("COUNT(*) of one cell", _count(tuple(axes))))
    questions += [(query, select) for query, select, _ in of_measures(schema)]
    return [Item(query, _unit_of(select), None, select, True) for query, select in questions]


def of_measures(schema: Schema) -> list[tuple[str, Select, bool]]:
    """Sum of every measure, and its average where the number of rows is stated; the flag: depends on the data."""
    questions = []
    for name, measure in schema.measures.items():
        everyone = Amount(Predicate.everything(), name)
        summed = _select(Column("sum", (everyone,), scale=schema.count_step, kind="sum"))
        questions.append((f"SUM({name}) FROM {schema.dataset}", summed, False))
        if schema.expected_rows:
            present = name if measure.missing == "keep" else None
            rows = (Amount(Predicate.everything(), None, present=present),)
            bounds = (float(measure.lower), float(measure.upper))
            mean = _select(Column("avg", (everyone,), rows, bounds=bounds, kind="average"))
            questions.append((f"AVG({name}) FROM {schema.dataset}", mean, True))
    return questions


def _in_words(axes: tuple[Axis, ...]) -> str:
    """SQL text of a block of the default workload, with question marks for its constants."""
    ranges = [axis.name for axis in axes if axis.ordered]
    values = [axis.name for axis in axes if not axis.ordered]
    where = " WHERE " + " AND ".join(f"{name} BETWEEN ? AND ?" for name in ranges) if ranges else ""
    return "COUNT(*) ..." + where + (f" GROUP BY {', '.join(values)}" if values else "")


def _count(axes: tuple[Axis, ...]) -> Select:
    """Count of one group of a GROUP BY over the axes; without data any group will do."""
    predicate = Predicate.everything()
    for axis in axes:
        predicate &= Predicate.where(axis.name, axis.values_in(0))
    return _select(Column("count", (Amount(predicate, None),)))


def _select(column: Column) -> Select:
    return Select((column,), (), Predicate.everything())


def _unit_of(select: Select) -> str:
    """Unit of a statement's numbers; "mixed" where they differ."""
    units = {_unit(column) for column in select.aggregates}
    return units.pop() if len(units) == 1 else "mixed"


def _unit(column: Column) -> str:
    if column.kind == "count":
        return "rows"
    of = {amount.of for amount in column.numerator if amount.of is not None}
    return of.pop() if column.kind in ("sum", "average") and len(of) == 1 else column.kind


# -- price

MOST_SAMPLED = 32  # queries of a block that stand for all of them where they are many
AT_ONCE = 2**22  # numbers laid out at a time


@dataclass(frozen=True)
class Line:
    """Error of one question of a plan under one mechanism.

    stderr: the error to expect, root mean square over the question's groups or ranges. within: how far off the worst of
    them is at most, with the plan's confidence; nan where nobody asked. Both in `unit`s. best, worst: stderr on the
    kindest and the unkindest of the public shapes, where the error depends on the data. guess: whether it does.
    """

    query: str
    stderr: float
    within: float
    unit: str
    guess: bool
    epsilon: Fraction | None = None
    best: float | None = None
    worst: float | None = None

    def times(self, factor: float) -> Line:
        """Multiply all errors by a factor."""
        best, worst = (None if end is None else factor * end for end in (self.best, self.worst))
        return replace(self, stderr=factor * self.stderr, within=factor * self.within, best=best, worst=worst)


def price(item: Item, content: Content, confidence: float, known: float | None = None, bounds: bool = True) -> Line:
    """Error of a question in a content without private data (a stand-in).

    known: its root mean square error, if computed already. bounds: whether the bound of the worst answer is needed.
    """
    if item.block is None or not isinstance(content, Cube):
        return _price_select(item, content, confidence)
    if known is not None and not bounds:
        return Line(item.query, known, nan, item.unit, item.guess)
    stderr, worst = _block_errors(item.block, content)
    if not isfinite(stderr):
        return Line(item.query, inf, inf, item.unit, item.guess)
    (found,) = content.linear(item.block[[worst]], confidence)
    within = float(found.high - found.value)
    return Line(item.query, stderr if known is None else known, within, item.unit, item.guess)


def worst_of(item: Item, content: Content) -> Item:
    """Restrict a question's block to its query of largest error; other questions are returned unchanged."""
    if item.block is None or not isinstance(content, Cube):
        return item
    return replace(item, block=item.block[[_block_errors(item.block, content)[1]]])


def sampled(block: Queries, most: int = MOST_SAMPLED) -> NDArray[np.int64]:
    """Sample of a block's rows: all, or evenly spaced ones with the first and the last included.

    >>> from sfumato.queries import Prefix
    >>> sampled(Prefix(3)).tolist(), len(sampled(Prefix(10**5)))
    ([0, 1, 2], 32)
    """
    most = max(2, min(most, AT_ONCE // block.columns))
    if block.rows <= most:
        return np.arange(block.rows, dtype=np.int64)
    return np.concatenate([[0], places_among(block.rows, most - 2), [block.rows - 1]])


def _block_errors(block: Queries, cube: Cube) -> tuple[float, int]:
    """Root mean square error of a block, and the row of largest variance in the sample."""
    chosen = sampled(block)
    rows = np.asarray(block[chosen].dense(), dtype=np.float64)
    if cube.plain:  # noise of one size on every cell: squares of all entries are added up without listing rows
        variance = cube.noises["count"].variance
        mean = float(np.sum(block.column_squares(), dtype=np.float64)) / block.rows
        return sqrt(variance * mean), int(chosen[np.argmax((rows**2).sum(axis=1))])
    errors = cube.fits[0].errors(rows.T)
    if errors.unknown.any():
        return inf, 0
    variances = (errors.weights**2 * errors.design.variances[:, None]).sum(axis=0) + np.diag(errors.model)
    return sqrt(float(variances.mean())), int(chosen[np.argmax(variances)])


def _price_select(item: Item, content: Content, confidence: float) -> Line:
    """Error of a SELECT: root mean square of its numbers' standard errors, and the widest interval."""
    if item.select is None:
        raise QueryError(f"a sparse release cannot be planned for this question, which is no SQL: {item.query}")
    result = content.select(item.select, confidence)
    numbers = [cell for row in result.rows for cell in row if isinstance(cell, Estimate)]
    if not numbers:
        raise QueryError(f"this query has no number in it, so there is no error to plan: {item.query}")
    within = max(max(number.high - number.value, number.value - number.low) for number in numbers)
    squares = [number.stderr**2 for number in numbers]
    stderr = sqrt(sum(squares) / len(squares))
    finite = all(isfinite(square) for square in squares)
    guess = item.guess or not content.answers_linear
    return Line(item.query, stderr if finite else inf, within if finite else inf, item.unit, guess)
