"""The replay audit of misfits, first answers and partitions: what is shipped passes, what is broken is named."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.noise import draw
from sfumato.kernel.verbs import partitioning
from sfumato.kernel.verbs.scores import Misfit
from sfumato.lab.audit.attacks.replay import replay
from sfumato.lab.audit.subjects.subject import Row, neighbouring_tables, small_schema, square_schema
from sfumato.measurement import Laplace, Measurement
from sfumato.queries import AllRanges, Identity, Prefix

FOUR = small_schema(4, 1, measured=False)
TABLE, WITHOUT = [Row(0, 2), Row(1, 0), Row(2, 0)], [Row(1, 0), Row(2, 0)]


def sums(curator, schema, budget):
    """The sum of all misfits of prefixes, and those of the cells by group."""
    size = curator.domain.size
    less, more = budget.split(1, 3)
    rest = np.arange(size) % 2
    return (
        curator.measure_misfit(Misfit(Prefix(size), np.arange(size)), less),
        curator.measure_misfit(Misfit(Identity(size), np.zeros(size, dtype=int)), more, rest),
    )


def firsts(curator, schema, budget):
    """The first range that is off by more than 1, and the next one after it."""
    size = curator.domain.size
    once, again = budget.split(1, 1)
    misfit = Misfit(AllRanges(size), np.zeros(size * (size + 1) // 2, dtype=int))
    place = curator.first_above(misfit, 1, once)
    return place, curator.first_above(misfit, 1, again, start=0 if place is None else place)


def cuts(curator, schema, budget):
    """Two partitions, one from each end."""
    size = curator.domain.size
    once, again = budget.split(1, 1)
    back = curator.best_partition(once, order=np.arange(size)[::-1], price=Fraction(1, 3))
    return back, curator.best_partition(again, order=np.arange(size), price=[Fraction(2), Fraction(1, 2)], longest=2)


def worst(curator, schema, budget):
    """The prefix that is answered worst, then measured with rows of two noises."""
    size = curator.domain.size
    once, again = budget.split(1, 1)
    place = curator.select(Misfit(Prefix(size), np.arange(size)), once)
    which = (np.arange(size) == place).astype(np.int64)
    scale = schema.privacy_unit.contributions / again.epsilon
    return place, curator.measure(Identity(size), scales=[scale, 2 * scale], which=which)


def largest(run, budget: Budget, contributions: int) -> float:
    """The largest loss over all tables of up to 2 rows on 3 cells; nothing may be complained about."""
    schema, losses = small_schema(3, contributions, measured=False), []
    for seed, (one, other) in enumerate(neighbouring_tables(3, 2, contributions)):
        found = replay(run, schema, one, other, budget, seed=seed)
        assert not found.complaints, found.complaints[0]
        losses.append(found.loss)
    return max(losses)


@pytest.mark.parametrize("contributions", [1, 2])
@pytest.mark.parametrize(("run", "least"), [(sums, 6.5), (firsts, 8), (cuts, 8), (worst, 6)])
def test_the_verbs_pass_on_all_small_tables(run, least, contributions):
    """And what they lose comes close to what is claimed, so that nothing is overlooked."""
    assert least <= largest(run, Budget.pure(8), contributions) <= 8 + 1e-9


def test_sums_pass_in_rho():
    assert 0.7 < largest(sums, Budget.zcdp(1), 2) <= 1


@pytest.mark.parametrize("contributions", [1, 2])
@pytest.mark.parametrize("budget", [Budget.pure(8), Budget.zcdp(1)], ids=["epsilon", "rho"])
def test_margins_pass_on_all_small_squares(budget, contributions):
    """Both margins, the total, and misfits of all three in two groups, one of parts, each with an even share."""

    def run(curator, schema, share):
        first, *others = share.evenly(4)
        guesses = [(names, np.zeros(2, dtype=int)) for names in (["a"], ["b"])]
        guesses.append((["a", "b"], np.zeros(2, dtype=int), np.array([0, 1, 1, 0])))
        found = [curator.measure_margin_misfits(guesses, first, np.array([0, 1, 1]))]
        for names, part in zip((["a"], ["b"], []), others, strict=True):
            found.append(curator.margin(names).measure(Identity(2 ** len(names)), part))
        return found

    losses = []
    for seed, (one, other) in enumerate(neighbouring_tables(4, 2, contributions)):
        found = replay(run, square_schema(contributions), one, other, budget, seed=seed)
        assert not found.complaints, found.complaints[0]
        losses.append(found.loss)
    assert max(losses) == pytest.approx(float(budget.amount))


# -- what must be caught


def complaints(run, kind: type[Curator] = Curator) -> str:
    found = replay(run, FOUR, TABLE, WITHOUT, curator=kind).complaints
    found += replay(run, FOUR, WITHOUT, TABLE, curator=kind).complaints
    return "; ".join(complaint.what for complaint in found)


class Noiseless(Curator):
    """Draws noise, and does not add it."""

    def measure_misfit(self, misfit, budget, groups=None):
        found = super().measure_misfit(misfit, budget, groups)
        return Measurement(
            found.of, found.queries, np.array([int(misfit.scores(self._dense("count")).sum())]), found.noises
        )


class Mistaken(Curator):
    """Names the row before the one it found, or the last one."""

    def first_above(self, misfit, threshold, budget, *, start=0):
        found = super().first_above(misfit, threshold, budget, start=start)
        return found - 1 if found else misfit.queries.rows - 1


class ShortOfNoise(Curator):
    """Half the noise on what is compared."""

    def _above_noises(self, epsilon, misfit):
        return Laplace(2 * misfit.sensitivity / epsilon), Laplace(2 * misfit.sensitivity / epsilon)


class SameNoise(Curator):
    """One noise for all buckets of a partition."""

    def best_partition(self, budget, *, order, price, longest=None):
        self._charge_all(budget)
        draw(Laplace(2 / budget.epsilon), 1, self._entropy)
        return np.zeros(self.domain.size, dtype=np.int64)


class EvenOnes(Curator):
    """Puts cells together by what they hold."""

    def best_partition(self, budget, *, order, price, longest=None):
        super().best_partition(budget, order=order, price=price, longest=longest)
        return np.cumsum(self._dense("count") > 0)


def one_sum(curator, schema, budget):
    return curator.measure_misfit(Misfit(Prefix(4), np.arange(4)), budget)


def one_first(curator, schema, budget):
    return curator.first_above(Misfit(Prefix(4), np.arange(4)), 1, budget)


def one_cut(curator, schema, budget):
    return curator.best_partition(budget, order=np.arange(4), price=Fraction(1))


@pytest.mark.parametrize(
    ("run", "kind", "what"),
    [
        (one_sum, Noiseless, "plus the noise drawn"),
        (one_first, Mistaken, "not the first"),
        (one_first, ShortOfNoise, "more than what was charged"),
        (one_cut, SameNoise, "not fresh for every bucket"),
        (one_cut, EvenOnes, "not the cheapest"),
    ],
)
def test_broken_verbs_are_named(run, kind, what):
    assert complaints(run) == ""
    assert what in complaints(run, kind)


def test_too_little_noise_on_a_partition_is_named(monkeypatch):
    genuine = partitioning.cutting
    monkeypatch.setattr(
        partitioning,
        "cutting",
        lambda cells, price, longest, epsilon, k: genuine(cells, price, longest, 2 * epsilon, k),
    )
    assert "more than what was charged" in complaints(one_cut)


def test_targets_and_thresholds_that_follow_the_table_are_named():
    def targets(curator, schema, budget):
        return curator.measure_misfit(Misfit(Identity(4), curator._Recorder__inner._dense("count")), budget)

    def threshold(curator, schema, budget):
        level = int(curator._Recorder__inner._dense("count").sum())
        return curator.first_above(Misfit(Identity(4), np.zeros(4, dtype=int)), level, budget)

    def price(curator, schema, budget):
        rows = int(curator._Recorder__inner._dense("count").sum())
        return curator.best_partition(budget, order=np.arange(4), price=Fraction(rows))

    for run in (targets, threshold, price):
        assert "depend on the table" in complaints(run)
