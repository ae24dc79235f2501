"""Exact audit: compute both output distributions where outcomes are few, and compare them.

No sampling, so no doubt: the loss of a pair of neighbouring tables is the largest |log P(y) - log P'(y)| over all
outcomes y. Scores, rates and noise scales are taken from the curator at work, not from its documentation; the
distributions are closed forms, computed here with 60 decimal digits and independently of the kernel's arithmetic. Every
step rounds correctly and none cancels more than a few digits, so losses are right far beyond the TOLERANCE.

Unbounded outputs need no cutting off. Beyond the true answers of both tables, discrete Laplace probabilities fall by
the same factor exp(-1 / b) from one outcome to the next whatever the table, so the ratio is the same on the whole tail;
the tail, gathered into one outcome, has the ratio that each of its members has.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement
from math import inf

import numpy as np

from sfumato.domain import Axis, Domain, Partition
from sfumato.errors import PrivacyError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.curator import Curator
from sfumato.kernel.lines import Lines
from sfumato.kernel.verbs.scores import Rank, Score
from sfumato.lab.audit.attacks.tape import Chosen, ChosenPiece, Draw, Drawn, Sifted, Watched, watching
from sfumato.lab.audit.subjects.subject import most_rows
from sfumato.measurement import Laplace
from sfumato.queries import Identity

DIGITS = 60
TOLERANCE = 1e-9  # what a loss may exceed its claim by

Distribution = Mapping[Hashable, Decimal]
Counts = tuple[int, ...]
Law = Callable[[Counts, int], Sequence[Distribution]]  # (counts, the last outcome not gathered) -> independent parts


@dataclass(frozen=True)
class ExactFinding:
    """Result of the exact audit: the largest privacy loss over all pairs of neighbouring tables tried."""

    name: str
    claimed: Fraction
    loss: float
    pairs: int

    @property
    def sound(self) -> bool:
        """Whether the privacy loss stays within the claim on every pair."""
        return self.loss <= float(self.claimed) + TOLERANCE


def exact_loss(one: Sequence[Distribution], other: Sequence[Distribution]) -> float:
    """Privacy loss max over y of |log P(y) - log P'(y)|, for outcomes of independent parts.

    A part's logarithms lie between a lowest and a highest value, each reached; as the parts are independent there is an
    outcome that reaches all the highest, or all the lowest. Infinite if one table can produce what the other cannot.

    >>> exact_loss([{"yes": Decimal("0.75"), "no": Decimal("0.25")}], [{"yes": Decimal("0.25"), "no": Decimal("0.75")}])
    1.0986122886681098
    """
    if len(one) != len(other):
        return inf
    lowest = highest = Decimal(0)
    with localcontext(prec=DIGITS):
        for mine, its in zip(one, other, strict=True):
            for part in (mine, its):
                if min(part.values()) < 0 or abs(sum(part.values(), Decimal(-1))) > Decimal("1e-40"):
                    raise PrivacyError("the exact audit was given numbers that are no probabilities: they sum to 1")
            possible = {y for y, p in mine.items() if p}
            if possible != {y for y, p in its.items() if p}:
                return inf
            ratios = [mine[y] / its[y] for y in possible]
            lowest, highest = lowest + min(ratios).ln(), highest + max(ratios).ln()
        return float(max(highest, -lowest))


# -- closed forms


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def exponential(scores: Sequence[int], rate: Fraction) -> Distribution:
    """Output distribution of the exponential mechanism: P(i) proportional to exp(rate * scores[i])."""
    with localcontext(prec=DIGITS):
        weights = [_decimal(rate * (score - max(scores))).exp() for score in scores]
        total = sum(weights)
        return {i: weight / total for i, weight in enumerate(weights)}


def discrete_laplace(answer: int, scale: Fraction, last: int) -> Distribution:
    """Distribution of answer + discrete Laplace noise on -last .. last, each tail gathered into one outcome."""
    with localcontext(prec=DIGITS):
        ratio = _decimal(-1 / scale).exp()
        top = (1 - ratio) / (1 + ratio)
        inside: dict[Hashable, Decimal] = {y: top * ratio ** abs(y - answer) for y in range(-last, last + 1)}
        ends = {side: ratio ** (last + 1 - sign * answer) / (1 + ratio) for side, sign in (("below", -1), ("above", 1))}
        return inside | ends


def above_threshold(answer: int, scale: Fraction, threshold: int, last: int) -> Distribution:
    """Distribution of a noisy answer that is published from a threshold on, and otherwise "hidden"."""
    with localcontext(prec=DIGITS):
        ratio = _decimal(-1 / scale).exp()
        if answer < threshold:
            hidden = 1 - ratio ** (threshold - answer) / (1 + ratio)
        else:
            hidden = ratio ** (answer - threshold + 1) / (1 + ratio)
        full = discrete_laplace(answer, scale, max(last, threshold))
        seen: dict[Hashable, Decimal] = {
            y: p for y, p in full.items() if y == "above" or (isinstance(y, int) and y >= threshold)
        }
        return seen | {"hidden": hidden}


# -- what is shipped


def neighbours(cells: int, rows: int, contributions: int) -> Iterator[tuple[Counts, Counts]]:
    """Neighbouring tables: all of up to `rows` rows, with and without a person of up to `contributions` rows."""
    for size in range(1, contributions + 1):
        for rest in range(rows - size + 1):
            for others in combinations_with_replacement(range(cells), rest):
                counts = tuple(others.count(cell) for cell in range(cells))
                for own in combinations_with_replacement(range(cells), size):
                    yield tuple(count + own.count(cell) for cell, count in enumerate(counts)), counts


def largest_loss(distribution: Law, cells: Sequence[int], rows: int, contributions: int) -> tuple[float, int]:
    """Largest privacy loss of a distribution over all neighbouring tables, and the number of pairs."""
    distribution = cache(distribution)
    worst, pairs = 0.0, 0
    for size in cells:
        for one, other in neighbours(size, rows, contributions):
            worst = max(worst, exact_loss(distribution(one, rows), distribution(other, rows)))
            pairs += 1
    return worst, pairs


def watched(
    act: Callable[[Curator, Budget], object],
    counts: Counts,
    epsilon: Fraction,
    contributions: int,
    kind: type[Curator] = Curator,
    domain: Domain | None = None,
) -> list[Draw]:
    """Noise and choices that a curator of class `kind` draws for `act`, on given counts and with its whole budget."""
    domain = domain or Domain((Axis("cell", "integer", np.arange(len(counts) + 1.0)),))
    vector, entropy, budget = np.array(counts, dtype=np.int64), Watched(0), Budget.pure(epsilon)
    held = np.flatnonzero(vector)
    charge = Charge(budget, contributions, domain.size)
    with watching(kind, Lines):
        act(kind(domain, Aggregate(held, vector[held]), {"count": 1}, charge, entropy), budget)
    return entropy.log


def selecting(
    score: Score | Callable[[int], Score], epsilon: Fraction, contributions: int, *, kind: type[Curator] = Curator
) -> Law:
    """Output distribution of `Curator.select`, with the scores and rate recorded from the curator.

    score: a score, or a function that makes one from the number of cells.
    """

    def distribution(counts: Counts, last: int) -> Sequence[Distribution]:
        chosen = score(len(counts)) if callable(score) else score
        log = watched(lambda curator, budget: curator.select(chosen, budget), counts, epsilon, contributions, kind)
        (choice,) = (call for call in log if isinstance(call, Chosen))
        return [exponential(choice.scores.tolist(), choice.rate)]

    return distribution


def cutting(quantile: Fraction, epsilon: Fraction, contributions: int, *, pieces: int = 2) -> Law:
    """Output distribution of `Lines.cut`, with the scores and rate recorded from the lines."""

    def cut(curator: Curator, budget: Budget) -> int:
        lines = curator.lines(curator.domain.names, budget, pieces=pieces)
        return lines.cut(0, quantile, budget, first=0, end=lines.length)

    def distribution(counts: Counts, last: int) -> Sequence[Distribution]:
        (choice,) = (call for call in watched(cut, counts, epsilon, contributions) if isinstance(call, ChosenPiece))
        return [exponential(choice.scores.tolist(), choice.rate)]

    return distribution


def counting(
    epsilon: Fraction,
    contributions: int,
    *,
    above: int | None = None,
    parity: bool = False,
    kind: type[Curator] = Curator,
) -> Law:
    """Output distribution of noisy counts: of all cells, of cells above a threshold, or by parity of cell numbers."""

    def distribution(counts: Counts, last: int) -> Sequence[Distribution]:
        bits = np.array([cell.bit_count() % 2 if parity else cell for cell in range(len(counts))])
        answers = np.bincount(bits, weights=counts).astype(np.int64)

        def measure(curator: Curator, budget: Budget) -> object:
            seen = curator.reduce(Partition(curator.domain, bits)) if parity else curator
            return seen.measure(Identity(len(answers)), budget, above=above)

        log = watched(measure, counts, epsilon, contributions, kind)
        own = next((call.noise for call in log if isinstance(call, Drawn)), None)
        sifted = next((call for call in log if isinstance(call, Sifted)), None)
        if not isinstance(own, Laplace) or (above is not None and (sifted is None or sifted.noise != own)):
            raise PrivacyError("the noise drawn is not Laplace noise, the same for every cell, so no closed form holds")
        if above is None or sifted is None:
            return [discrete_laplace(answer, own.scale, last) for answer in answers.tolist()]
        # Cells that hold rows are compared with the threshold asked for, empty ones with the one their hits came from.
        thresholds = [above if answer else sifted.threshold for answer in answers]
        return [above_threshold(x, own.scale, t, last) for x, t in zip(answers.tolist(), thresholds, strict=True)]

    return distribution


def found(name: str, epsilon: Fraction, contributions: int, result: tuple[float, int]) -> ExactFinding:
    """Finding from (largest loss, number of pairs), with the contribution bound added to its name."""
    return ExactFinding(f"{name}, {contributions} row{'s' * (contributions > 1)} per person", epsilon, *result)


def exact_findings(epsilon: Fraction = Fraction(1), *, rows: int = 4) -> list[ExactFinding]:
    """Audit every primitive whose outcomes are few, over all tables of up to `rows` rows on 2 to 4 cells."""
    findings = []
    for k in (1, 2):
        distributions: dict[str, Law] = {"most rows": selecting(most_rows, epsilon, k)}
        for name, quantile in (("median", "1/2"), ("quarter", "1/4"), ("smallest", "0"), ("largest", "1")):
            distributions[name] = selecting(Rank(Fraction(quantile)), epsilon, k)
            distributions[f"{name} of pieces"] = cutting(Fraction(quantile), epsilon, k)
        distributions["every cell"] = counting(epsilon, k)
        distributions["parity cells"] = counting(epsilon, k, parity=True)
        for threshold in (1, 2, 3, 6):
            distributions[f"cells from {threshold} on"] = counting(epsilon, k, above=threshold)
        findings += [
            found(name, epsilon, k, largest_loss(law, (2, 3, 4), rows, k)) for name, law in distributions.items()
        ]
    return findings
