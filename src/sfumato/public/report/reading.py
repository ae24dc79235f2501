"""Report section on how to read noisy numbers: three rules, each with examples from this release.

The examples are a count that is well known, two that surely differ, two that may not, and one that noise has drowned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isfinite

from sfumato.answers.results import Estimate
from sfumato.frozen import dataclass
from sfumato.public.report.distributions import ROUGH, Distribution, half_width
from sfumato.public.report.markup import Markup, joined, name_of, part, said, shortened, tag, unbroken
from sfumato.public.report.pictures import with_error
from sfumato.public.report.tongue import figure, share, t


@dataclass(frozen=True)
class Known:
    """One count with its interval. attribute and label: its cell."""

    attribute: str
    label: str
    count: Estimate

    @property
    def looseness(self) -> float:
        """Half-width of the interval relative to the count; infinite unless the count is above zero."""
        return half_width(self.count) / self.count.value if self.count.value > 0 else float("inf")

    def apart(self, other: Known) -> bool:
        """Whether the two intervals are disjoint.

        Then the counts surely differ, however their noises are related: the error of a difference is at most the sum of
        theirs.
        """
        return self.count.low > other.count.high or self.count.high < other.count.low


@dataclass(frozen=True)
class Examples:
    """Example counts. sure: of least relative error. differ, alike: pairs that noise does and does not explain."""

    sure: Known
    differ: tuple[Known, Known] | None
    alike: tuple[Known, Known] | None
    lost: Known | None


def examples(found: Sequence[Distribution]) -> Examples | None:
    """Choose example counts from the distributions; None where no count is known."""
    sorted_counts = [sorted(_known(one), key=lambda one: -one.count.value) for one in found]
    every = [one for counts in sorted_counts for one in counts]
    if not every:
        return None
    neighbours = [pair for counts in sorted_counts for pair in pairwise(counts) if pair[1].count.value > 0]
    return Examples(
        sure=min(every, key=lambda one: one.looseness),
        differ=next((pair for pair in neighbours if pair[0].apart(pair[1])), None),
        alike=next((pair for pair in neighbours if not pair[0].apart(pair[1])), None),
        lost=next((one for one in every if one.looseness > ROUGH), None),
    )


def _known(one: Distribution) -> Iterator[Known]:
    for label, count in zip(one.cut.labels, one.counts, strict=True):
        if isfinite(count.low) and isfinite(count.high):
            yield Known(one.cut.title, label, count)


MOST_LETTERS = 32


def reading(found: Sequence[Distribution], confidence: float) -> Markup | None:
    """Build the section; None where there is no number to show."""
    shown = examples(found)
    if shown is None:
        return None
    about = t(
        "Every number here is off by a little, on purpose and by chance, so that nobody's presence shows. How far it "
        "is likely to be off stands beside it."
    )
    columns = [_range(shown, confidence), _difference(shown), _small(shown)]
    return part("reading", t("What you may conclude"), about, tag("div", columns, class_="reading"))


def _range(shown: Examples, confidence: float) -> Markup:
    one, times = shown.sure.count, max(2, round(1.0 / (1.0 - confidence)))
    return _rule(
        t("A number is a range"),
        tag("p", said("{0} is given as {1}.", _named(shown.sure), tag("b", _unparted(with_error(one))))),
        tag(
            "p",
            unbroken(
                t(
                    "You may say that there are between {0} and {1} such rows. Of {2} statements like this about one "
                    "is wrong ({3} are right).",
                    *(figure(end) for end in (max(0.0, one.low), one.high, times)),
                    share(confidence),
                )
            ),
        ),
    )


def _difference(shown: Examples) -> Markup:
    found = []
    if shown.differ is not None:
        more, fewer = shown.differ
        found.append(tag("p", said("You may say that {0} is more than {1}.", _counted(more), _counted(fewer))))
    if shown.alike is not None:
        more, fewer = shown.alike
        words = said("You may not say which is more of {0} and {1}: they overlap.", _counted(more), _counted(fewer))
        found.append(tag("p", words))
    return _rule(t("Two numbers differ if their ranges lie apart"), *found)


def _small(shown: Examples) -> Markup:
    lost = shown.lost
    least = None
    if lost is not None:
        words = "{0}: anything from {1} to {2}. You may say that it is no more than that, and little else."
        count = [figure(max(0.0, end)) for end in (lost.count.low, lost.count.high)]
        least = tag("p", said(words, _counted(lost), *count))
    rest = t(
        "Nothing follows about any one person: with or without their data, this page would have looked much the same."
    )
    return _rule(t("What is small is hidden"), least, tag("p", rest))


def _rule(heading: str, *inside: Markup | None) -> Markup:
    return tag("div", tag("h3", heading), *inside)


def _named(one: Known) -> Markup:
    names = (name_of(shortened(name, MOST_LETTERS)) for name in (one.attribute, one.label))
    return said("{0} “{1}”", *names)


def _counted(one: Known) -> Markup:
    return joined(_named(one), f" ({_unparted(with_error(one.count))})")


def _unparted(number: str) -> str:
    return number.replace(" ", "\u00a0")
