"""Many intervals that hold together are about tails, and some contents take noise there for more normal than it is."""

from __future__ import annotations

from sfumato.releases.contents.content import Content, ContentOfCells

NEARLY_SURE = 1.0 - 2.0**-50


def far_enough(content: Content, confidence: float) -> float:
    """The confidence to ask typical intervals at, so that they reach as far as tails of the noise itself do.

    Where intervals take noise for normal, a single Laplace noise reaches further at a high confidence; the content says
    how far (`exact_at`). Where they lean on a model nothing is known beyond it.
    """
    exact = content.exact_at(confidence) if isinstance(content, ContentOfCells) else None
    return confidence if exact is None else min(max(exact, confidence), NEARLY_SURE)
