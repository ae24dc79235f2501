"""What a reader of an answer should know beyond what compiling the question told: in sentences, each once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isnan
from statistics import median

from sfumato.answers.estimate import Estimate

# What notes on cut and suppressed cells, on middles and on ends of bins say: why there is more than noise in an error.
SPREAD = ("the interval allows for any", "interval reaches to the ends of bins")
NO_ROWS = "a number shown as unknown is an average or a share over what may be no rows at all"
OF_WIDTH = "of these error bars is what"  # by which the note on the model is known again
MODEL = "the model of this release may be off by"
MUCH = 1e100  # times the model's part, beyond which the noise's is all
SHARES = ((0.9, "nearly all"), (0.65, "most"), (0.35, "about half"), (0.1, "a part"), (0.0, "a small part"))
MORE = "a larger epsilon narrows it"


def remarks_on(rows: Iterable[Iterable[object]], said: tuple[str, ...]) -> tuple[str, ...]:
    """Notes on the numbers of an answer. said: those that it has, which may explain the same already."""
    found = []
    numbers = [cell for row in rows for cell in row if isinstance(cell, Estimate)]
    if not any("shown as unknown" in note for note in said) and any(isnan(number.value) for number in numbers):
        found.append(NO_ROWS)
    if not any(words in note for note in said for words in SPREAD) and any(number.model > 0 for number in numbers):
        found.append(model_note(numbers))
    return tuple(found)


def model_note(numbers: Sequence[Estimate]) -> str:
    """How much of the error bars is the model's, of the middle number: its share of the variance.

    >>> model_note([Estimate(9.0, 5.0, 0.0, 19.0, 0.95, noise=3.0, model=4.0)])[:43]
    'about half of these error bars is what the '
    """
    told = [one for one in numbers if 0 < one.model < inf and one.noise < inf]
    shares = [1.0 / (1.0 + min(one.noise / one.model, MUCH) ** 2) for one in told]
    middle = median(shares) if shares else 1.0
    much = next(words for least, words in SHARES if middle >= least)
    return f"{much} {OF_WIDTH} {MODEL}, the rest is noise; {MORE}"


def naming(note: str, attributes: Sequence[str]) -> str:
    """The note on the model with the attributes that the largest part of it is about, and what would narrow it."""
    if OF_WIDTH not in note or not attributes:
        return note
    if len(attributes) == 1:
        return note.replace(MODEL, f"this release does not know about how rows are spread over {attributes[0]}")
    listed = f"{', '.join(attributes[:-1])} and {attributes[-1]}"
    measured = f"{MORE}, and a release by residual with them in --workload measures them together"
    return note.replace(MODEL, f"this release does not know about {listed} together").replace(MORE, measured)


def said_once(notes: Iterable[str]) -> tuple[str, ...]:
    """Notes without repetition; of several on the model, the first."""
    listed = list(dict.fromkeys(notes))
    first = next((note for note in listed if OF_WIDTH in note), None)
    return tuple(note for note in listed if OF_WIDTH not in note or note == first)
