"""The confidence of each of many intervals that hold together: where answers, comparisons and reports have it from.

Chances of missing add up to no more than was asked (Bonferroni), or multiply to it where every number has noise of its
own (Sidak). Many intervals together are about tails, and some contents take noise there for more normal than it is:
these are asked at the confidence at which their intervals reach as far as the noise does.
"""

from __future__ import annotations

from math import expm1, log1p

from sfumato.releases.contents.content import Content, ContentOfCells

NEARLY_SURE = 1.0 - 2.0**-50


def of_each(confidence: float, numbers: int, *, apart: bool = False) -> float:
    """What each of so many intervals promises. apart: each number has noise of its own.

    >>> round(of_each(0.95, 10), 4), round(of_each(0.95, 10, apart=True), 4)
    (0.995, 0.9949)
    """
    numbers = max(1, numbers)
    if apart:
        return 1.0 + expm1(log1p(confidence - 1.0) / numbers)
    return 1.0 - (1.0 - confidence) / numbers


def far_enough(content: Content, confidence: float, interval: str = "typical") -> float:
    """The confidence to ask for intervals at which keep that promise in tails as well.

    Where typical ones take noise for normal, a single Laplace noise reaches further at a high confidence; the content
    says how far (`exact_at`). Where they lean on a model nothing is known beyond it; guaranteed ones go by the noise.
    """
    if interval != "typical" or not isinstance(content, ContentOfCells):
        return confidence
    return min(max(content.exact_at(confidence) or confidence, confidence), NEARLY_SURE)
