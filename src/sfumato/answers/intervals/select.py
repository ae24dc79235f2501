"""A SELECT answered with intervals of the kind that is asked for.

A typical interval T leans on a model, whose errors were measured on average; where most cells are empty and a few are
large it is far wider than most cells need. A guaranteed one G leans on nothing, and is sometimes the narrower of the
two. Then T is G: it is never the wider one. That is G as it stands and not what T and G have in common, which could
miss as often as both do. What is lost by choosing: the answer misses where G does and is chosen, or T does and is
chosen. G misses, chosen or not, in no more than 1 - confidence of all releases, of every table; so a question is missed
more often than by T alone by that much at most. The choice is not blind to noise: an interval of a count ends at 0
below, so that G is narrowest, and chosen most often, where noise was far below 0. docs/intervals.md has what that comes
to: most often nothing.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sfumato.answers.alike import kinds_asked
from sfumato.answers.answer import answer_select
from sfumato.answers.estimate import Estimate
from sfumato.answers.evaluate import Evaluation
from sfumato.answers.groups import Groups
from sfumato.answers.intervals.columns import guaranteed, narrower, sums_tested
from sfumato.answers.intervals.manner import GUARANTEED, MOST_COMPARED, OF_A_SUM, Manner
from sfumato.answers.intervals.many import view_in_tails
from sfumato.answers.intervals.possible import possible
from sfumato.answers.remarks import OF_WIDTH, naming
from sfumato.answers.result import Result
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.sql import Column, Select

if TYPE_CHECKING:
    from sfumato.answers.intervals.source import Source
    from sfumato.releases.contents.content import ContentOfCells


def select_as(content: ContentOfCells, select: Select, confidence: float, manner: Manner) -> Result:
    """Answer a compiled SELECT. manner: typical or guaranteed, not both at once."""
    surely = manner.interval == "guaranteed"
    exact = content.exact_at(confidence)
    source = None if exact is not None else _source(content, select, surely=surely)
    sums = 0 if source is None else _sums(select, content.schema.domain)

    largest: list[tuple[str, ...]] = []

    def rework(column: Column, found: list[Estimate], at: Evaluation) -> list[Estimate]:
        if not surely and not largest and column.numerator and any(one.model > 0.0 for one in found):
            largest.append(at.view.noises.largest_model_part(at.sum_of(column.numerator), at.groups) or ())
        if source is not None:
            if surely:
                found = guaranteed(column, found, at, source)
            elif sums * (OF_A_SUM + source.work + at.view.cells.size) <= MOST_COMPARED:
                found = _no_wider(column, found, at, source)
        return possible(column, found, content.schema) if manner.possible or surely else found

    asked, view = confidence, content.view
    if manner.one_of_many and not (surely and exact is None):
        view = partial(view_in_tails, content, confidence=confidence)
    elif surely and exact is not None:
        asked = exact
    result = answer_select(select, content.schema, view, asked, rework)
    kept = (naming(note, largest[0]) if largest else note for note in result.notes)
    notes = (*(note for note in kept if not (surely and OF_WIDTH in note)), *([GUARANTEED] if surely else []))
    return replace(result, confidence=confidence, notes=notes)


def _sums(select: Select, domain: Domain) -> int:
    """How many sums have their ends worked out where both kinds of intervals are."""
    groups, columns = len(Groups.of(select, domain).present), {replace(one, name="") for one in select.aggregates}
    return sum(sums_tested(column, groups, domain) for column in columns)


def _source(content: ContentOfCells, select: Select, *, surely: bool) -> Source | None:
    """What finds guaranteed ends; None where there are none and none were asked for."""
    try:
        return content.sure(kinds_asked(select, content.schema))
    except QueryError:
        if surely:
            raise
        return None


def _no_wider(column: Column, found: list[Estimate], at: Evaluation, source: Source) -> list[Estimate]:
    """Typical estimates, those with a narrower guaranteed interval with that one.

    Compared is the part of either that is possible, and either holds its value.
    """
    try:
        sure = guaranteed(column, found, at, source)
    except QueryError:  # such a column has no guaranteed interval
        return found
    return narrower(found, sure, *(possible(column, each, at.view.schema) for each in (found, sure)))
