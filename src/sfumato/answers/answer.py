"""Answer a compiled SELECT: an estimate with an interval for every group and aggregate, and notes in words.

The interval is of the kind asked for (question.py, `Manner`). Where the guaranteed interval G is narrower than the
typical one T, it is reported in place of T: as it stands, not intersected with T, whose miss rates would add up. P(G
misses) <= 1 - confidence for every table, so the choice raises the miss rate of T by at most that (measured rates:
docs/intervals.md).

Simultaneous intervals of m numbers: each at 1 - (1 - confidence) / m (Bonferroni), or confidence^(1 / m) where all
noises are independent (Sidak). They lie in the tails, so a sum that is taken as normal elsewhere gets the distribution
of the noise that was drawn, and a model error gets Student's t distribution (fieller.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import expm1, inf, isnan, log1p, prod
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.answers.bivariate import refuse_bins
from sfumato.answers.distinct import check_settled
from sfumato.answers.evaluate import Evaluation, Shown, View
from sfumato.answers.formulas import estimates_by_rule
from sfumato.answers.guaranteed_columns import guaranteed, narrower, possible, sums_tested
from sfumato.answers.noise_sum import check_confidence
from sfumato.answers.question import (
    GUARANTEED,
    MOST_COMPARED,
    OF_A_SUM,
    ByClass,
    CountsBySet,
    Groups,
    Kinds,
    Manner,
    kinds_asked,
)
from sfumato.answers.results import OF_WIDTH, Estimate, Result
from sfumato.domain import Domain, Label
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql import Column, Formula, Key, Select
from sfumato.sql.plan import CRAMERS_V, Bivariate, Distinct, Extreme, Quantile

if TYPE_CHECKING:
    from sfumato.answers.guaranteed_columns import Source
    from sfumato.measurement import Noise

MOST_NAMED = 6  # rows that a note lists
ENOUGH = 1.0 + 1e-9  # times a number, which no rounding exceeds


def difference_notes(
    columns: Sequence[Key | Column], rows: Sequence[Sequence[Label | Estimate]], confidence: float
) -> Iterator[str]:
    """Note on each column that is a difference: the rows where it is significant (the interval excludes zero)."""
    percent = f"{confidence * 100:.6g} %"
    for place, column in enumerate(columns):
        if not isinstance(column, Column) or not column.difference or not rows:
            continue
        real = [row for row in rows if isinstance(cell := row[place], Estimate) and cell.real]
        if len(rows) == 1:
            said = (
                f"is real at {percent}: its interval excludes zero, so the privacy noise alone did not make it"
                if real
                else f"could be chance: its interval at {percent} holds zero, so the privacy noise may have made it"
            )
            yield f"{column.name}: the difference {said}"
            continue
        keys = [at for at, one in enumerate(columns) if isinstance(one, Key)]
        named = [", ".join(str(row[at]) for at in keys) for row in real]
        listed = f" ({'; '.join(named)})" if keys and 0 < len(real) <= MOST_NAMED and len(real) < len(rows) else ""
        others = "" if len(real) == len(rows) else ", elsewhere it could be chance"
        yield (
            f"{column.name}: the difference is real at {percent} in {len(real)} of {len(rows)} rows{listed}{others}; "
            f"the privacy noise alone makes about {(1.0 - confidence) * len(rows):.2g} of {len(rows)} look real"
        )


# What notes on cut and suppressed cells, on middles and on ends of bins say: why there is more than noise in an error.
SPREAD = ("the interval allows for any", "interval reaches to the ends of bins")
NO_ROWS = "a number shown as unknown is an average or a share over what may be no rows at all"
MODEL = "the model of this release may be off by"
MUCH = 1e100  # times the model's part, beyond which the noise's is all
SHARES = ((0.9, "nearly all"), (0.65, "most"), (0.35, "about half"), (0.1, "a part"), (0.0, "a small part"))
MORE = "a larger epsilon narrows it"


def remarks_on(rows: Iterable[Iterable[object]], said: tuple[str, ...]) -> tuple[str, ...]:
    """Notes on unknown values and on model error in the numbers of an answer.

    said: notes that the answer has already; a remark that one of them explains is left out.
    """
    remarks = []
    numbers = [cell for row in rows for cell in row if isinstance(cell, Estimate)]
    if not any("shown as unknown" in note for note in said) and any(isnan(number.value) for number in numbers):
        remarks.append(NO_ROWS)
    if not any(words in note for note in said for words in SPREAD) and any(number.model > 0 for number in numbers):
        remarks.append(model_note(numbers))
    return tuple(remarks)


def model_note(numbers: Sequence[Estimate]) -> str:
    """Note on the share of the variance that is model error: the median over the numbers of model^2 / stderr^2.

    >>> model_note([Estimate(9.0, 5.0, 0.0, 19.0, 0.95, noise=3.0, model=4.0)])[:43]
    'about half of these error bars is what the '
    """
    told = [one for one in numbers if 0 < one.model < inf and one.noise < inf]
    shares = [1.0 / (1.0 + min(one.noise / one.model, MUCH) ** 2) for one in told]
    middle = median(shares) if shares else 1.0
    much = next(words for least, words in SHARES if middle >= least)
    return f"{much} {OF_WIDTH} {MODEL}, the rest is noise; {MORE}"


def naming(note: str, attributes: Sequence[str]) -> str:
    """Name in the note on model error the attributes that contribute most of it, and the remedy."""
    if OF_WIDTH not in note or not attributes:
        return note
    if len(attributes) == 1:
        return note.replace(MODEL, f"this release does not know about how rows are spread over {attributes[0]}")
    listed = f"{', '.join(attributes[:-1])} and {attributes[-1]}"
    measured = f"{MORE}, and a release by residual with them in --workload measures them together"
    return note.replace(MODEL, f"this release does not know about {listed} together").replace(MORE, measured)


def said_once(notes: Iterable[str]) -> tuple[str, ...]:
    """Remove repeated notes; of several notes on model error keep the first."""
    listed = list(dict.fromkeys(notes))
    first = next((note for note in listed if OF_WIDTH in note), None)
    return tuple(note for note in listed if OF_WIDTH not in note or note == first)


def of_each(confidence: float, numbers: int, *, apart: bool = False) -> float:
    """Confidence of each of several simultaneous intervals (Bonferroni); apart: the noises are independent (Sidak).

    >>> round(of_each(0.95, 10), 4), round(of_each(0.95, 10, apart=True), 4)
    (0.995, 0.9949)
    """
    numbers = max(1, numbers)
    if apart:
        return 1.0 + expm1(log1p(confidence - 1.0) / numbers)
    return 1.0 - (1.0 - confidence) / numbers


class Viewed(Shown, Protocol):
    """Interface of a content with cells and error models for a query; `ContentOfCells` documents each method."""

    def measured_view(self, kinds: Kinds, sets: Iterable[frozenset[str]]) -> View: ...

    def exact_at(self, confidence: float) -> float | None: ...

    def drawn(self, confidence: float) -> tuple[Noise, int] | None: ...

    def sure(self, kinds: Kinds) -> Source: ...


Reworked = Callable[[Column, list[Estimate], Evaluation], list[Estimate]]


def answer_select(
    select: Select,
    schema: Schema,
    view: Callable[[Kinds], View],
    confidence: float,
    rework: Reworked | None = None,
    asked: tuple[Groups, Kinds] | None = None,
) -> Result:
    """Estimate every aggregate of a compiled SELECT for every group.

    view: the content's cells along the attributes of the query, values of the same class merged (`kinds_asked`).
    rework: replaces the estimates of a column, as for guaranteed intervals. asked: groups and value classes, if known.
    """
    check_confidence(confidence)
    domain = schema.domain
    groups, kinds = asked or (Groups.of(select, domain), kinds_asked(select, schema))
    evaluation = Evaluation(view(kinds), groups, confidence)
    computed: dict[Column, list[Estimate]] = {}  # what two columns ask under two names is worked out once
    estimates: dict[Column, list[Estimate]] = {}
    for column in dict.fromkeys(select.aggregates):
        nameless = replace(column, name="")
        if nameless not in computed:
            typical = estimates_of(column, evaluation)
            computed[nameless] = typical if rework is None else rework(column, typical, evaluation)
        estimates[column] = computed[nameless]
    return result_of(select, groups, domain, estimates, confidence, _notes(select, evaluation))


def estimates_of(column: Column, evaluation: Evaluation) -> list[Estimate]:
    """Estimate a column of any kind for every present group; for a difference, also whether it is significant."""
    estimates = evaluation.evaluate(column) if column.rule is None else estimates_by_rule(column, evaluation)
    return [replace(one, real=one.excludes_zero) for one in estimates] if column.difference else estimates


def result_of(
    select: Select,
    groups: Groups,
    domain: Domain,
    estimates: Mapping[Column, Sequence[Estimate]],
    confidence: float,
    further: tuple[str, ...],
) -> Result:
    """Assemble the result table from the estimates of every aggregate in every group. further: notes."""
    shown = rows_shown(select, domain, groups, estimates)
    names_shown = tuple(column.name for column in select.columns)
    numbers = frozenset(column.name for column in select.columns if isinstance(column, Column))
    notes = (*select.notes, *further, *difference_notes(select.columns, shown, confidence))
    dated = {column.name: by for column in select.columns if (by := moment_of(column, domain)) is not None}
    return Result(names_shown, shown, confidence, (*notes, *remarks_on(shown, notes)), numbers=numbers, dated=dated)


def moment_of(column: Key | Column, domain: Domain) -> str | None:
    """Time unit of a column of dates: "day" for single days, "hour" for times of day, None for any other column."""
    if isinstance(column, Column):
        one_day = isinstance(column.rule, Quantile) and column.scale == 1.0  # times -1 it is a number
        axis = domain[column.rule.of] if one_day and isinstance(column.rule, Quantile) else None
        return None if axis is None or axis.kind != "date" else "hour" if axis.timed else "day"
    axis = domain[column.attribute]
    return axis.by if axis.kind == "date" and axis.by in ("day", "hour") else None


def rows_shown(
    select: Select, domain: Domain, groups: Groups, estimates: Mapping[Column, Sequence[Estimate]]
) -> tuple[tuple[Label | Estimate, ...], ...]:
    """Order and cut the rows of an answer by ORDER BY, LIMIT and OFFSET.

    estimates: by column, one for each present group.
    """
    codes = {name: groups.code(name).tolist() for name in select.group_by}
    keys = {column.attribute: domain[column.attribute] for column in select.columns if isinstance(column, Key)}
    labels = {name: {code: axis.label(code) for code in dict.fromkeys(codes[name])} for name, axis in keys.items()}

    def rank(by: Any, row: int, missing: float) -> float:
        column = select.columns[by] if isinstance(by, int) else by
        if isinstance(column, Column):
            value = estimates[column][row].value
            return -np.inf if np.isnan(value) else value
        code: int = codes[column.attribute][row]
        return missing if code == domain[column.attribute].places else code

    rows = list(range(len(groups.present)))
    for by, descending, nulls_first in reversed(select.order_by):
        missing = -np.inf if nulls_first != descending else np.inf
        rows.sort(key=lambda row, by=by, missing=missing: rank(by, row, missing), reverse=descending)  # type: ignore[misc]
    end = None if select.limit is None else select.offset + select.limit
    rows = rows[select.offset : end]
    columns: list[Iterable[Label | Estimate]] = []
    for column in select.columns:
        if isinstance(column, Column):
            columns.append(map(estimates[column].__getitem__, rows))
        else:
            columns.append(map(labels[column.attribute].__getitem__, map(codes[column.attribute].__getitem__, rows)))
    return tuple(zip(*columns, strict=True))


def _notes(select: Select, evaluation: Evaluation) -> tuple[str, ...]:
    """Notes on numbers that are not determined by the measurements, and on suppressed cells."""
    if evaluation.undetermined:
        return ("what this release measured does not determine the numbers shown as unknown",)
    asked = (select.where, *(amount.predicate for amount in select.amounts))
    if evaluation.view.suppressed is None or not (select.group_by or any(part.names for part in asked)):
        return ()
    return (evaluation.view.suppressed.note,)


def select_as(
    content: Viewed, select: Select, confidence: float, manner: Manner, classes: Kinds | None = None
) -> Result:
    """Answer a compiled SELECT with typical or with guaranteed intervals, one kind at a time.

    classes: by which to group in place of the values of the attributes in GROUP BY, for aggregates of all rows.
    """
    domain, surely = content.schema.domain, manner.interval == "guaranteed"
    if manner.population and any(map(_has_no_law, select.aggregates)):
        raise QueryError(
            "COUNT(DISTINCT ...), MIN, MAX and CRAMERS_V of a sample say little about its population; ask about this "
            "table"
        )
    if classes is None and (counts := CountsBySet.of(select, domain)) is not None:
        return _by_set(content, select, counts, confidence, manner)
    if classes is None and (parts := _parts(select, content.schema)):
        return _in_parts(content, select, parts, confidence, manner)
    groups = Groups.of(select, domain) if classes is None else ByClass.of_classes(classes)
    kinds = {**kinds_asked(select, content.schema), **(classes or {})}
    exact = content.exact_at(confidence)
    without = exact is not None or manner.population or not (surely or manner.compared)
    source = None if without else _source(content, kinds, surely=surely)
    sums = 0 if source is None else _sums(select, groups, domain)
    largest: list[tuple[str, ...]] = []

    def rework(column: Column, estimates: list[Estimate], at: Evaluation) -> list[Estimate]:
        if surely:
            refuse_bins(column, content.schema)
        if not surely and not largest and column.numerator and any(one.model > 0.0 for one in estimates):
            largest.append(at.view.noises.largest_model_part(at.sum_of(column.numerator), at.groups) or ())
        if source is not None:
            if surely:
                estimates = guaranteed(column, estimates, at, source)
            elif sums * (OF_A_SUM + source.work + at.view.cells.size) <= MOST_COMPARED:
                estimates = _no_wider(column, estimates, at, source)
        if isinstance(column.rule, Distinct):
            check_settled(column.rule, estimates, at)
        return possible(column, estimates, content.schema) if manner.possible or surely else estimates

    many = manner.one_of_many or any(_counts_values(column) for column in select.aggregates)
    far = many and not (surely and exact is None)

    def view(kinds: Kinds) -> View:
        shown = replace(content.view(kinds), sampled=True) if manner.population else content.view(kinds)
        return replace(shown, far=True, drawn=content.drawn(confidence)) if far else shown

    level = exact if surely and exact is not None and not far else confidence
    result = answer_select(select, content.schema, view, level, rework, (groups, kinds))
    kept = (naming(note, largest[0]) if largest else note for note in result.notes)
    notes = (*(note for note in kept if not (surely and OF_WIDTH in note)), *([GUARANTEED] if surely else []))
    return replace(result, confidence=confidence, notes=notes)


def _by_set(content: Viewed, select: Select, counts: CountsBySet, confidence: float, manner: Manner) -> Result:
    """Answer counts by many sets of values of an attribute as groups, all at once."""
    domain, answer = content.schema.domain, select_as(content, counts.select, confidence, manner, counts.classes)
    estimates: dict[Column, list[Any]] = {column: [answer.rows[place][0]] for column, place in counts.places.items()}
    return result_of(select, Groups.of(select, domain), domain, estimates, confidence, answer.notes)


def _parts(select: Select, schema: Schema) -> list[Select]:
    """Split a query into one for each set of attributes that its columns need, where that takes fewer cells.

    None at all if one query is less work. Ten correlations of five attributes need ten tables of two, not one of five.
    """
    columns: dict[frozenset[str], list[Column]] = {}
    for column in dict.fromkeys(select.aggregates):
        names = {
            name
            for amount in column.amounts
            for name in (*amount.predicate.names, amount.of or "")
            if name in schema.domain
        }
        columns.setdefault(frozenset(names), []).append(column)
    if len(columns) < 2 or not len(Groups.of(select, schema.domain).present):
        return []
    parts = [replace(select, columns=tuple(some), order_by=(), limit=None, offset=0) for some in columns.values()]
    whole, *each = (prod(int(kind.max()) + 1 for kind in kinds_asked(one, schema).values()) for one in (select, *parts))
    return parts if whole > OF_A_SUM * len(parts) + sum(each) else []


def _in_parts(content: Viewed, select: Select, parts: list[Select], confidence: float, manner: Manner) -> Result:
    """Answer a query by the answers to its parts."""
    domain, estimates, notes = content.schema.domain, dict[Column, Sequence[Any]](), list[str]()
    for part in parts:
        answer = select_as(content, part, confidence, manner)
        estimates.update(zip(part.aggregates, zip(*answer.rows, strict=True), strict=True))
        notes += answer.notes
    result = result_of(select, Groups.of(select, domain), domain, estimates, confidence, tuple(notes))
    told = [note for note in result.notes if OF_WIDTH not in note or manner.interval != "guaranteed"]
    return replace(result, notes=said_once((*notes, *told)))


def _has_no_law(column: Column) -> bool:
    """Whether a statistic's sampling error is unknown: it does not follow from covariances of sums."""
    rules = [one.rule for one in (column.rule.columns if isinstance(column.rule, Formula | Extreme) else (column,))]
    return isinstance(column.rule, Extreme) or any(
        isinstance(rule, Distinct)
        or (isinstance(rule, Quantile) and rule.share in (0.0, 1.0))
        or (isinstance(rule, Bivariate) and rule.statistic == CRAMERS_V)
        for rule in rules
    )


def _counts_values(column: Column) -> bool:
    """Whether a column has a COUNT(DISTINCT): its many counts must hold together, so their far tails matter."""
    parts = column.rule.columns if isinstance(column.rule, Formula | Extreme) else (column,)
    return any(isinstance(part.rule, Distinct) for part in parts)


def _sums(select: Select, groups: Groups, domain: Domain) -> int:
    """Number of weighted sums that need guaranteed bounds in this query: the work of computing both kinds."""
    columns = {replace(one, name="") for one in select.aggregates}
    return sum(sums_tested(column, len(groups.present), domain) for column in columns)


def _source(content: Viewed, kinds: Kinds, *, surely: bool) -> Source | None:
    """Source of guaranteed bounds; None where the content has none and typical intervals were asked for."""
    try:
        return content.sure(kinds)
    except QueryError:
        if surely:
            raise
        return None


def _no_wider(column: Column, estimates: list[Estimate], at: Evaluation, source: Source) -> list[Estimate]:
    """Replace typical intervals by the guaranteed ones where these are narrower.

    Both contain the value; compared are their intersections with the possible range of the column.
    """
    typical = possible(column, estimates, at.view.schema)
    # Both contain the value: a guaranteed one that reaches this far above it cannot be the narrower one.
    beyond = [
        (max(one.value, 0.0) + each.high - each.low) * ENOUGH for one, each in zip(estimates, typical, strict=True)
    ]
    try:
        sure = guaranteed(column, estimates, at, source, beyond)
    except QueryError:  # such a column has no guaranteed interval
        return estimates
    return narrower(estimates, sure, typical, possible(column, sure, at.view.schema))
