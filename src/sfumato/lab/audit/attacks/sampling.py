"""Sampling audit: run a mechanism many times on two neighbouring inputs and bound its epsilon from below.

An event that has probability p on one input and q on the other proves epsilon >= log(p / q), and so does its
complement. Together: p (1 - q) <= exp(2 epsilon) q (1 - p). Pair the runs on either input; among the pairs in which the
event happened exactly once, it then happened on the first input with odds of at most exp(2 epsilon). That takes one
bound in place of two and is tighter where the event is neither rare nor certain.

A quarter of the runs chooses the event and the direction; the others, which had no say in the choice, bound p from
below and q from above by Clopper-Pearson, whose error is never more than stated. So a subject that keeps its promise is
flagged with a probability of at most `confidence_miss`, whatever its outputs are and however the event was chosen.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.audit.attacks.events import Event, build_events, occurrences
from sfumato.lab.audit.subjects.subject import Outputs, Subject

BLOCK = 25_000  # runs whose outputs are held at once, besides those that choose the event
MOST_HELD = 2**23  # numbers of either input that choose the event: fewer than a quarter of the runs if runs are wide
SCREENED = 30_000  # runs on which all candidates are looked at; the best of them then compete on all choosing runs
FINALISTS = 60
FEWEST_RUNS = 100
LESS_CERTAIN = (1e-3, 0.02)
SHARES = (0.5, 0.3, 0.1)  # of the allowed error, spent on the numerator


@dataclass(frozen=True)
class Finding:
    """Result of the sampling audit. bound: lower bound of epsilon, wrong with probability `confidence_miss`."""

    subject: str
    claimed: Fraction
    bound: float
    runs: int  # on each input
    event: str
    violated: bool


@dataclass(frozen=True)
class _Choice:
    event: Event
    numerator: int  # the input on which the event is more likely
    share: float | None  # of the allowed error, spent on the numerator; None: bounded by pairs


def audit(subject: Subject, runs: int, entropy: Entropy, confidence_miss: float = 1e-6) -> Finding:
    """Bound the epsilon of a subject from below by `runs` runs on each of its two inputs."""
    if runs < FEWEST_RUNS:
        raise QueryError(f"an audit of {runs} runs shows nothing; ask for at least {FEWEST_RUNS}")

    def sample(which: int, count: int) -> Outputs:
        return subject.run(which, count, entropy)

    def blocks(count: int) -> list[int]:
        return [min(BLOCK, count - start) for start in range(0, count, BLOCK)]

    first = sample(0, min(BLOCK, runs // 4))
    choosing = min(runs // 4, max(len(first), MOST_HELD // first.shape[1]))
    zero = np.concatenate([first, *(sample(0, size) for size in blocks(choosing - len(first)))])
    one = np.concatenate([sample(1, size) for size in blocks(choosing)])
    choice = _choose(zero, one, runs - choosing, confidence_miss)
    del first, zero, one
    more = less = only_more = only_less = 0
    for size in blocks(runs - choosing):
        zero, one = (choice.event.holds(sample(which, size)) for which in (0, 1))
        high, low = (one, zero) if choice.numerator else (zero, one)
        more, less = more + int(high.sum()), less + int(low.sum())
        only_more, only_less = only_more + int((high & ~low).sum()), only_less + int((low & ~high).sum())
    if choice.share is None:
        bound = float(paired_bound(only_more, only_less, confidence_miss))
    else:
        bound = float(epsilon_bound(more, less, runs - choosing, confidence_miss, choice.share))
    name = f"{choice.event}, more likely on input {choice.numerator}"
    return Finding(subject.name, subject.epsilon, bound, runs, name, bound > float(subject.epsilon))


def epsilon_bound(more: ArrayLike, less: ArrayLike, runs: int, miss: float, share: float = 0.5) -> NDArray[np.float64]:
    """Lower confidence bound of log(p / q), at least 0, wrong with probability at most `miss`.

    more, less: in how many of `runs` runs the event happened on the input of the numerator and on the other one.
    share: the part of `miss` that the bound of p may use up.
    """
    return np.maximum(_log_ratio(more, less, runs, miss, share), 0.0)


def paired_bound(only_more: ArrayLike, only_less: ArrayLike, miss: float) -> NDArray[np.float64]:
    """Lower confidence bound of epsilon from pairs of runs, at least 0, wrong with probability at most `miss`.

    only_more, only_less: pairs in which the event happened only on the one input, and only on the other.
    """
    only_more, only_less = np.asarray(only_more, dtype=np.float64), np.asarray(only_less, dtype=np.float64)
    lower = clopper_pearson(only_more, only_more + only_less, miss)[0]
    return np.maximum(0.5 * (np.log(np.maximum(lower, 1e-300)) - np.log1p(-np.minimum(lower, 1 - 1e-16))), 0.0)


def _log_ratio(more: ArrayLike, less: ArrayLike, runs: int, miss: float, share: float) -> NDArray[np.float64]:
    lower = clopper_pearson(more, runs, miss * share)[0]
    upper = clopper_pearson(less, runs, miss * (1 - share))[1]
    return np.asarray(np.log(np.maximum(lower, 1e-300)) - np.log(upper))


def clopper_pearson(happened: ArrayLike, runs: ArrayLike, miss: float) -> tuple[Floats, Floats]:
    """One-sided Clopper-Pearson bounds of a probability, each wrong with probability at most `miss`.

    >>> lower, upper = clopper_pearson([0, 10], 10, 0.05)
    >>> (float(lower[0]), round(float(upper[0]), 4)), (round(float(lower[1]), 4), float(upper[1]))
    ((0.0, 0.2589), (0.7411, 1.0))
    """
    from scipy.special import betainccinv, betaincinv

    k, runs = np.asarray(happened, dtype=np.float64), np.asarray(runs, dtype=np.float64)
    inside = np.maximum(k, 1), np.minimum(k, runs - 1)  # the ends have no beta distribution
    lower = np.where(k > 0, betaincinv(inside[0], runs - inside[0] + 1, miss), 0.0)
    upper = np.where(k < runs, betainccinv(inside[1] + 1, runs - inside[1], miss), 1.0)
    return lower, upper


def _choose(zero: Outputs, one: Outputs, runs: int, miss: float) -> _Choice:
    """Choose the event with the highest expected lower bound of epsilon.

    A third of the runs builds the candidates and the rest compares them, because a score looks too good on the runs it
    was fitted to. What is compared is the lower bound, not the ratio, so a rare event must be very telling to win.
    """
    fitting = len(zero) // 3
    events = build_events(zero[:fitting], one[:fitting])
    zero, one = zero[fitting:], one[fitting:]
    promises = _promises(events, zero[:SCREENED], one[:SCREENED], miss)[0]
    best = np.argsort(-promises.max(axis=(0, 1)), kind="stable")[:FINALISTS]
    rare = [place for place, event in enumerate(events) if event.rare]  # a few runs cannot tell what they promise
    finalists = [events[place] for place in np.union1d(best, rare).astype(np.int64)]
    promises, counts, certainty = _promises(finalists, zero, one, miss, runs)
    numerator, negated, place = np.unravel_index(int(np.argmax(promises)), promises.shape)
    event = replace(finalists[place], negated=bool(negated))
    more, less = counts[numerator, negated, place], counts[1 - numerator, negated, place]
    scaled = (np.round(np.array([more, less]) * (runs / len(zero)))).astype(np.int64)
    share = max(SHARES, key=lambda share: float(_log_ratio(scaled[0], scaled[1], runs, miss, share)))
    rates = counts / len(zero)
    only_more, only_less = (np.round(runs * x * (1 - x[::-1])) for x in (rates, rates[::-1]))
    paired = paired_bound(only_more, only_less, certainty)
    if paired.max() > promises.max():
        numerator, negated, place = np.unravel_index(int(np.argmax(paired)), paired.shape)
        return _Choice(replace(finalists[place], negated=bool(negated)), int(numerator), None)
    return _Choice(event, int(numerator), share)


def _promises(
    events: list[Event], zero: Outputs, one: Outputs, miss: float, runs: int | None = None
) -> tuple[Floats, NDArray[np.int64], float]:
    """Expected lower bounds of epsilon and counts, both (input, complement or not, event), and the error probability.

    runs: how many will bound the event later; the counts of the runs given are scaled up to that number.
    The error probability is miss^3 at first: at a larger one, a rarer event with the same ratio wins too often by luck.
    If no bound is then above 0, larger ones are tried, since otherwise an event that always happens would be as good.
    """
    happened = np.stack([occurrences(events, zero), occurrences(events, one)])
    counts = np.stack([happened, len(zero) - happened], axis=1)  # input, complement or not, event
    runs = runs or len(zero)
    expected = np.round(counts * (runs / len(zero)))
    for certainty in (miss**3, miss, *LESS_CERTAIN):
        promises = _log_ratio(expected, expected[::-1], runs, certainty, SHARES[0])
        if promises.max() > 0:
            break
    return promises, counts, certainty
