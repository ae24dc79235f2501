"""A SELECT answered with intervals of the kind that is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.releases.answers.alike import kinds_asked
from sfumato.releases.answers.answer import answer_select
from sfumato.releases.answers.estimate import Estimate
from sfumato.releases.answers.evaluate import Evaluation
from sfumato.releases.answers.intervals.columns import guaranteed
from sfumato.releases.answers.intervals.manner import GUARANTEED, Manner
from sfumato.releases.answers.intervals.possible import possible
from sfumato.releases.answers.remarks import MODEL
from sfumato.releases.answers.result import Result
from sfumato.sql import Column, Select

if TYPE_CHECKING:
    from sfumato.releases.contents.content import ContentOfCells


def select_as(content: ContentOfCells, select: Select, confidence: float, manner: Manner) -> Result:
    """Answer a compiled SELECT. manner: typical or guaranteed, not both at once."""
    surely = manner.interval == "guaranteed"
    exact = content.exact_at(confidence) if surely else confidence
    source = content.sure(kinds_asked(select, content.schema)) if exact is None else None

    def rework(column: Column, found: list[Estimate], at: Evaluation) -> list[Estimate]:
        if source is not None:
            found = guaranteed(column, found, at, source)
        return possible(column, found, content.schema) if manner.possible or surely else found

    result = answer_select(select, content.schema, content.view, exact or confidence, rework)
    notes = (*(note for note in result.notes if not (surely and note == MODEL)), *([GUARANTEED] if surely else []))
    return replace(result, confidence=confidence, notes=notes)
