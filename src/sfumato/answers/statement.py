"""Answer a statement with the kind of interval asked for: single, simultaneous, or adjusted for selection.

Simultaneous intervals of m numbers hold together if each has confidence 1 - (1 - c) / m (Bonferroni). With independent
noises c^(1 / m) is exact (Sidak); with shared noises that are near normal their joint distribution gives the level
(joint_confidence.py). m counts all numbers that could have been shown: LIMIT and HAVING select those that noise made
large, and intervals that hold for all hold for the selected ones too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log10
from typing import TYPE_CHECKING

from sfumato.answers.answer import check_confidence, of_each, said_once
from sfumato.answers.noise_sum import NONE
from sfumato.answers.question import Groups, Manner
from sfumato.answers.results import Estimate, Result
from sfumato.answers.tables import Answered, Choices, Chosen, chosen_by, confidence_of_each, run_tables
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.sql import Select, selects_of

if TYPE_CHECKING:
    from sfumato.releases.contents.content import Content
    from sfumato.sql.statements import Statement


UNBIASED = "counts and sums are as measured: noise is all that they are off by, and they may be negative"
JOINT = ", as the noises that they share allow"


def run_in_manner(statement: Statement, content: Content, confidence: float, manner: Manner) -> Result:
    """Answer a compiled statement with intervals of the kind in `manner`."""
    check_confidence(confidence)
    level, note = confidence, tuple[str, ...]()
    if manner.simultaneous:
        selects = selects_of(statement)
        numbers = sum(_numbers(select, content.domain) for select in selects)
        apart = len(selects) == 1 and _one_each(selects[0]) and content.independent
        level = of_each(confidence, numbers, apart=apart)
        joint = content.together(selects[0], confidence) if len(selects) == 1 and not apart else None
        level, by_joint = (joint, True) if joint is not None and joint < level else (level, False)
        note = (_said(numbers, confidence, level) + (JOINT if by_joint else ""),)

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
        by_select = {id(part.select): choices for table, choices in listed for part in table.parts}
        return run_tables(statement, content.domain, lambda select: ask(select, by_select[id(select)]), level)

    kind = "typical" if manner.interval == "both" else manner.interval
    allowed = manner.selected and not manner.simultaneous
    if isinstance(statement, Select):  # how many rows LIMIT leaves is known beforehand
        choice = chosen_by(statement, content.domain)
        chosen: Choices = ((choice,),) if choice is not None else ()
        result = run(kind, chosen if allowed else ()).result
    else:
        result, chosen = run(kind)
        if allowed and any(chosen):
            result = run(kind, chosen).result
    if manner.interval == "both":
        result = _side_by_side(result, run("guaranteed", chosen if allowed else ()).result)
    choices = dict.fromkeys(choice for listed in chosen for choice in listed)
    said = [one.note(confidence, allowed=allowed, together=manner.simultaneous) for one in choices]
    said += [UNBIASED] if manner.unbiased else []
    return replace(result, confidence=confidence, notes=(*result.notes, *said, *note))


def text_in_manner(sql: str, content: Content, confidence: float, manner: Manner) -> Result | None:
    """Answer of a content that parses statements itself; None where it does not accept this one."""
    own = content.answer_text(sql, confidence)
    if own is None:
        return None
    if manner.interval != "typical":
        raise QueryError(NONE)
    if not manner.simultaneous:
        return own
    numbers = sum(isinstance(cell, Estimate) for row in own.rows for cell in row)
    level = of_each(confidence, numbers)
    result = content.answer_text(sql, level) or own
    return replace(result, confidence=confidence, notes=(*result.notes, _said(numbers, confidence, level)))


def _numbers(select: Select, domain: Domain) -> int:
    """Number of estimates of a SELECT, shown or not."""
    return len(Groups.of(select, domain).present) * max(1, len(set(select.aggregates)))


def _one_each(select: Select) -> bool:
    """Whether each group has one number that depends on its own cells alone, so that noises are independent."""
    return len(set(select.aggregates)) == 1 and all(amount.grouped for amount in select.amounts)


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
