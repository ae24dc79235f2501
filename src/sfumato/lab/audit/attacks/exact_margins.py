"""The exact audit of margins: what is measured along them, and how far they lie from guesses.

A square of two attributes of two values each is the smallest table with margins. A row lies in one cell of each margin,
so two margins tell of it twice; the noise must be made for both. True answers are added up here, from the counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.domain import Axis, Domain
from sfumato.errors import PrivacyError
from sfumato.kernel.aggregate import Aggregate
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.misfits import Guess
from sfumato.lab.audit.attacks import twins
from sfumato.lab.audit.attacks.exact import (
    Counts,
    Distribution,
    ExactFinding,
    Law,
    discrete_laplace,
    exponential,
    largest_loss,
)
from sfumato.lab.audit.attacks.watching import Chosen, Drawn, Watched, watching
from sfumato.measurement import Laplace
from sfumato.queries import Identity

Asked = tuple[Sequence[str], Sequence[int], Sequence[int] | None]  # the last: the part of each cell
SQUARE = Domain((Axis("a", "integer", np.arange(3.0)), Axis("b", "integer", np.arange(3.0))))
GUESSES = ((("a",), (2, 0)), (("b",), (0, 1)), (("a", "b"), (0, 1, 0, 2)))  # of its margins
BY_CELL: Sequence[Asked] = [(names, guess, None) for names, guess in GUESSES]
IN_PARTS: Sequence[Asked] = ((("a",), (2, 0), None), (("b",), (1,), (0, 0)), (("a", "b"), (0, 2), (0, 1, 1, 0)))
GROUPINGS = {"each by itself": (0, 1, 2), "in two groups": (0, 1, 1), "in one group": (0, 0, 0)}
PENALTIES = (0, 1, -1)  # public, on what is chosen between
FAR = 60  # beyond all sums of misfits, so that what lies further out is one outcome


def square_over(counts: Counts, epsilon: Fraction, contributions: int, kind: type[Curator]) -> tuple[Curator, Watched]:
    """A curator of this kind over the square, and its random bits."""
    vector = np.array(counts, dtype=np.int64)
    held, entropy = np.flatnonzero(vector), Watched(0)
    charge = Charge(Budget.pure(epsilon), contributions, SQUARE.size)
    return kind(SQUARE, Aggregate(held, vector[held]), {"count": 1}, charge, entropy), entropy


def summing_margins(
    labels: Sequence[int],
    epsilon: Fraction,
    contributions: int,
    *,
    kind: type[Curator] = Curator,
    guesses: Sequence[Asked] = BY_CELL,
) -> Law:
    """Noisy sums of the misfits of three margins, by group; cell by cell or part by part."""

    def distribution(counts: Counts, last: int) -> Sequence[Distribution]:
        curator, entropy = square_over(counts, epsilon, contributions, kind)
        asked: list[Guess] = [(n, np.array(g), None if parts is None else np.array(parts)) for n, g, parts in guesses]
        with watching(kind):
            curator.measure_margin_misfits(asked, Budget.pure(epsilon), np.array(labels))
        (scale,) = _scales(entropy)
        misfits = [twins.margin_misfit(SQUARE, names, guess, counts, parts) for names, guess, parts in guesses]
        return [discrete_laplace(each, scale, FAR) for each in twins.sums_by_group(misfits, labels)]

    return distribution


def measuring_margins(
    margins: Sequence[Sequence[str]], epsilon: Fraction, contributions: int, *, kind: type[Curator] = Curator
) -> Law:
    """Noisy counts along several margins, each with an even share of the budget."""

    def distribution(counts: Counts, last: int) -> Sequence[Distribution]:
        curator, entropy = square_over(counts, epsilon, contributions, kind)
        found: list[Distribution] = []
        for names, share in zip(margins, Budget.pure(epsilon).evenly(len(margins)), strict=True):
            entropy.log.clear()
            truth = twins.margin(SQUARE, names, counts)
            with watching(kind):
                curator.margin(names).measure(Identity(len(truth)), share)
            (scale,) = _scales(entropy)
            found += [discrete_laplace(each, scale, FAR) for each in truth]
        return found

    return distribution


def choosing_margins(epsilon: Fraction, contributions: int, *, kind: type[Curator] = Curator) -> Law:
    """Which of three margins lies farthest from its guess, by the curator's own rate on scores added up here."""

    def distribution(counts: Counts, last: int) -> Sequence[Distribution]:
        curator, entropy = square_over(counts, epsilon, contributions, kind)
        with watching(kind):
            curator.select_margin([(n, np.array(g)) for n, g in GUESSES], PENALTIES, Budget.pure(epsilon))
        rates = [call.rate for call in entropy.log if isinstance(call, Chosen)]
        misfits = [twins.margin_misfit(SQUARE, names, guess, counts) for names, guess in GUESSES]
        scores = tuple(misfit - fine for misfit, fine in zip(misfits, PENALTIES, strict=True))
        return [exponential(scores, rate) for rate in rates]

    return distribution


def margin_findings(epsilon: Fraction = Fraction(4)) -> list[ExactFinding]:
    """Margins and their misfits, over all tables of up to 4 rows on the square."""
    findings = []
    for k in (1, 2):
        laws = {f"misfits of margins, {how}": summing_margins(g, epsilon, k) for how, g in GROUPINGS.items()}
        laws["misfits of margins in parts"] = summing_margins((0, 1, 1), epsilon, k, guesses=IN_PARTS)
        laws["a choice of margins"] = choosing_margins(epsilon, k)
        laws["both margins"] = measuring_margins([["a"], ["b"]], epsilon, k)
        laws["both margins and the total"] = measuring_margins([["a"], ["b"], []], epsilon, k)
        for name, law in laws.items():
            loss, pairs = largest_loss(law, (SQUARE.size,), 4, k)
            findings.append(ExactFinding(f"{name}, {k} row{'s' * (k > 1)} per person", epsilon, loss, pairs))
    return findings


def _scales(entropy: Watched) -> list[Fraction]:
    noises = [call.noise if isinstance(call, Drawn) else None for call in entropy.log]
    scales = [noise.scale for noise in noises if isinstance(noise, Laplace)]
    if len(scales) != len(noises):
        raise PrivacyError("the noise drawn is not Laplace noise, so no closed form holds")
    return scales
