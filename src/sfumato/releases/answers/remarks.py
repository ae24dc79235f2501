"""What a reader of an answer should know beyond what compiling the question told: in sentences, each once."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan

from sfumato.releases.answers.estimate import Estimate

# What notes on cut and suppressed cells, on middles and on ends of bins say: why there is more than noise in an error.
SPREAD = ("the interval allows for any", "interval reaches to the ends of bins")
NO_ROWS = "a number shown as unknown is an average or a share over what may be no rows at all"
MODEL = "the errors include what the model of this release may be off by"


def remarks_on(rows: Iterable[Iterable[object]], said: tuple[str, ...]) -> tuple[str, ...]:
    """Notes on the numbers of an answer. said: those that it has, which may explain the same already."""
    found = []
    numbers = [cell for row in rows for cell in row if isinstance(cell, Estimate)]
    if not any("shown as unknown" in note for note in said) and any(isnan(number.value) for number in numbers):
        found.append(NO_ROWS)
    if not any(words in note for note in said for words in SPREAD) and any(number.model > 0 for number in numbers):
        found.append(MODEL)
    return tuple(found)
