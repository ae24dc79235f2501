"""What may be concluded, for somebody who never met noise on purpose: three rules, each with this release's numbers."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.public.report.distributions import Distribution
from sfumato.public.report.examples import Examples, Known, examples
from sfumato.public.report.markup import Markup, joined, name_of, shortened, tag, unbroken
from sfumato.public.report.pictures.drawing import with_error
from sfumato.public.report.sections.pieces import part

MOST_LETTERS = 32


def reading(found: Sequence[Distribution], confidence: float) -> Markup | None:
    """The part; None where there is no number to show."""
    shown = examples(found)
    if shown is None:
        return None
    about = "Every number here is off by a little, on purpose and by chance, so that nobody's presence shows. "
    about += "How far it is likely to be off stands beside it."
    columns = [_range(shown, confidence), _difference(shown), _small(shown)]
    return part("reading", "What you may conclude", about, tag("div", columns, class_="reading"))


def _range(shown: Examples, confidence: float) -> Markup:
    one, times = shown.sure.count, max(2, round(1.0 / (1.0 - confidence)))
    return _rule(
        "A number is a range",
        tag("p", _named(shown.sure), " is given as ", tag("b", _unparted(with_error(one))), "."),
        tag(
            "p",
            unbroken(
                f"You may say that there are between {max(0.0, one.low):,.0f} and {one.high:,.0f} such rows. Of "
                f"{times} statements like this about one is wrong ({confidence * 100:.6g} % are right)."
            ),
        ),
    )


def _difference(shown: Examples) -> Markup:
    found = []
    if shown.differ is not None:
        more, fewer = shown.differ
        found.append(tag("p", "You may say that ", _counted(more), " is more than ", _counted(fewer), "."))
    if shown.alike is not None:
        more, fewer = shown.alike
        found.append(
            tag("p", "You may not say which is more of ", _counted(more), " and ", _counted(fewer), ": they overlap.")
        )
    return _rule("Two numbers differ if their ranges lie apart", *found)


def _small(shown: Examples) -> Markup:
    lost = shown.lost
    said = None
    if lost is not None:
        low, high = max(0.0, lost.count.low), max(0.0, lost.count.high)
        words = f": anything from {low:,.0f} to {high:,.0f}. You may say that it is no more than that, and little else."
        said = tag("p", _counted(lost), words)
    rest = (
        "Nothing follows about any one person: with or without their data, this page would have looked much the same."
    )
    return _rule("What is small is hidden", said, tag("p", rest))


def _rule(heading: str, *inside: Markup | None) -> Markup:
    return tag("div", tag("h3", heading), *inside)


def _named(one: Known) -> Markup:
    return joined(
        name_of(shortened(one.attribute, MOST_LETTERS)), " “", name_of(shortened(one.label, MOST_LETTERS)), "”"
    )


def _counted(one: Known) -> Markup:
    return joined(_named(one), f" ({_unparted(with_error(one.count))})")


def _unparted(number: str) -> str:
    return number.replace(" ", "\u00a0")
