"""DESCRIBE as a statement: the columns of a release as the rows of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.answers.result import Result
from sfumato.schema.columns import HEADERS, columns_of
from sfumato.schema.what_is_counted import counted_in_short

if TYPE_CHECKING:
    from sfumato.releases.release import Release


def describe_columns(release: Release, confidence: float) -> Result:
    """A row for each column; the guarantee and what is counted stand under it."""
    rows = tuple(column.row for column in columns_of(release.schema))
    made = f"{release.content.about.extent}, mechanism {release.mechanism}"
    notes = (made, release.guarantee.statement)
    return Result(HEADERS, rows, confidence, notes, counted_in_short(release.schema), frozenset())
