"""What the pictures share: an SVG with a title and a description, nice steps of an axis, numbers in short."""

from __future__ import annotations

from math import ceil, floor, isfinite, log10

from sfumato.answers.estimate import Estimate
from sfumato.public.report.markup import Inside, Markup, tag


def picture(name: str, title: str, about: str, height: float, *inside: Inside) -> Markup:
    """An SVG as wide as its place. name: unique on the page, for those who listen to it."""
    labelled = f"{name}-title {name}-desc"
    heads = (tag("title", title, id=f"{name}-title"), tag("desc", about, id=f"{name}-desc"))
    return tag(
        "svg", heads, *inside, role="img", aria_labelledby=labelled, width="100%", height=height, class_="picture"
    )


def percent(share: float) -> str:
    """A place or a width along the picture.

    >>> percent(0.12345678)
    '12.346%'
    """
    return f"{share * 100:.3f}%"


def nice_step(top: float, steps: int) -> float:
    """The least of 1, 2 or 5 times a power of ten by which so many steps reach the top.

    >>> nice_step(1234.0, 4), nice_step(0.7, 3)
    (500.0, 0.5)
    """
    least = top / steps
    if not isfinite(least) or least <= 0:
        return 1.0
    power = 10.0 ** floor(log10(least))
    return next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= least * 0.999999)


def ticks(top: float, steps: int = 3) -> list[float]:
    """Places of gridlines from zero to the first at or above the top."""
    step = nice_step(top, steps)
    return [step * place for place in range(ceil(top / step - 1e-9) + 1)]


def short(number: float) -> str:
    """A number for the margin of a picture.

    >>> short(1200000), short(2500), short(40), short(0.5)
    ('1.2 M', '2,500', '40', '0.5')
    """
    if abs(number) >= 1e6:
        return f"{number / 1e6:,.4g} M"
    return f"{number:,.0f}" if number == round(number) else f"{number:,.3g}"


def with_error(one: Estimate) -> str:
    """A count and half of its interval."""
    half = (one.high - one.low) / 2.0
    if not isfinite(one.value):
        return "unknown"
    return f"{one.value:,.0f} ± {half:,.0f}" if isfinite(half) else f"{one.value:,.0f} ± unknown"
