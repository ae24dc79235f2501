"""The exact audit finds nothing wrong with what is shipped, and finds what is wrong with what is not."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import inf

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import PrivacyError
from sfumato.kernel import curator as curator_module
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.sampling.noise import draw, gaps_between_hits, sparse_hits
from sfumato.kernel.verbs import thresholds as sifting
from sfumato.kernel.verbs.exponential import choose
from sfumato.kernel.verbs.scores import Rank
from sfumato.lab.audit.attacks.exact import (
    above_threshold,
    counting,
    discrete_laplace,
    exact_findings,
    exact_loss,
    exponential,
    largest_loss,
    neighbours,
    selecting,
)
from sfumato.lab.audit.attacks.tape import Watched, watching
from sfumato.lab.audit.mutants.choices import limited_domain_loss, limited_domain_max
from sfumato.lab.audit.subjects.subject import most_rows
from sfumato.measurement import Laplace

ONE = Fraction(1)
SCALES = st.fractions(min_value=Fraction(1, 5), max_value=20, max_denominator=50)
MEDIAN = Rank(Fraction(1, 2))


def test_nothing_shipped_exceeds_its_claim():
    findings = exact_findings()
    assert all(finding.sound for finding in findings), [f for f in findings if not f.sound]
    assert all(finding.loss <= 1 + 1e-9 for finding in findings)
    names = " ".join(finding.name for finding in findings)
    assert all(word in names for word in ("most rows", "median", "quarter", "parity", "from 3 on", "2 rows"))
    assert all(finding.pairs == (448 if "2 rows" in finding.name else 220) for finding in findings)
    # Noise on cells spends all it claims, so that an audit that always said 0 would be seen.
    assert all(abs(finding.loss - 1) < 1e-12 for finding in findings if "cell" in finding.name)


def test_neighbours_are_all_pairs_once():
    pairs = list(neighbours(2, 2, 1))
    # A table of up to one other row, (0,0), (1,0), (0,1), and one row more in either cell.
    assert sorted(pairs) == sorted(
        ((a + (c == 0), b + (c == 1)), (a, b)) for a, b in ((0, 0), (1, 0), (0, 1)) for c in (0, 1)
    )


# -- closed forms


@given(answer=st.integers(-4, 4), scale=SCALES, threshold=st.integers(-3, 9))
def test_closed_forms_are_those_of_mpmath(answer, scale, threshold):
    with mpmath.workdps(60):
        r = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
        mass = {y: (1 - r) / (1 + r) * r ** abs(y - answer) for y in range(-4, 10)}
        full, cut = discrete_laplace(answer, scale, 9), above_threshold(answer, scale, threshold, 9)
        for y, p in mass.items():
            assert abs(mpmath.mpf(str(full[y])) - p) < mpmath.mpf(10) ** -50
            assert (y in cut) == (y >= threshold) and cut.get(y, full[y]) == full[y]
        # The tail by summing far out: r^400 is below 1e-8 at the largest scale.
        tail = mpmath.nsum(lambda y: (1 - r) / (1 + r) * r ** abs(y - answer), [10, mpmath.inf])
        assert abs(mpmath.mpf(str(full["above"])) - tail) < 1e-12
    for law in (full, cut):
        assert abs(sum(law.values()) - 1) < Decimal("1e-25")


@given(scale=SCALES, threshold=st.integers(1, 12))
def test_an_empty_cell_passes_the_threshold_as_often_as_the_kernel_lets_it(scale, threshold):
    lower, upper = gaps_between_hits(scale, threshold)[0](80)
    passes = 1 - above_threshold(0, scale, threshold, threshold)["hidden"]
    assert lower - 1 <= passes * 2**80 <= upper + 1


def test_loss_of_independent_parts_adds_up():
    noisy = [[discrete_laplace(x, Fraction(2), 5) for x in counts] for counts in ((3, 1), (2, 1), (2, 0))]
    assert exact_loss(noisy[0], noisy[1]) == pytest.approx(0.5, abs=1e-12)
    assert exact_loss(noisy[0], noisy[2]) == pytest.approx(1.0, abs=1e-12)
    assert exact_loss(noisy[0], noisy[0]) == 0


def test_loss_does_not_let_parts_cancel():
    """One count up, the other down: some outcome speaks for the one table in both parts."""
    up, down = ([discrete_laplace(x, Fraction(2), 5) for x in counts] for counts in ((3, 1), (2, 2)))
    assert exact_loss(up, down) == pytest.approx(1.0, abs=1e-12)


def test_loss_is_infinite_where_one_table_gives_itself_away():
    half = {"a": Decimal("0.5"), "b": Decimal("0.5")}
    assert exact_loss([half], [{"a": Decimal(1)}]) == inf
    assert exact_loss([half], [{"a": Decimal(1), "b": Decimal(0)}]) == inf
    assert exact_loss([half], [half, half]) == inf


def test_loss_refuses_what_is_no_distribution():
    half = {"a": Decimal("0.5")}
    with pytest.raises(PrivacyError, match="no probabilities"):
        exact_loss([half], [half])


def test_exponential_mechanism_by_hand():
    law = exponential([2, 0], Fraction(1, 2))
    assert float(law[0] / law[1]) == pytest.approx(2.718281828459045, rel=1e-15)


# -- what must be caught


class WithoutTheTwo(Curator):
    """Forgets that numerator and normaliser move apart."""

    def select(self, score, budget):
        rate = budget.epsilon / (self.charge.contributions * score.sensitivity)
        return choose(score.scores(self._dense("count")), rate, self._entropy)


class OneRowEach(Curator):
    """Forgets that a person has several rows."""

    def select(self, score, budget):
        return choose(score.scores(self._dense("count")), budget.epsilon / (2 * score.sensitivity), self._entropy)

    def _noises(self, queries, unit, budget, scales, which):
        return (noise_for(budget, 1, l1=Fraction(1), l2_squared=Fraction(1)),), None

    def _loads(self, queries, unit, noises, which):
        return []

    def reduce(self, partition):
        view = super().reduce(partition)
        view.__class__ = OneRowEach
        return view


class EarlierThreshold(Curator):
    """Lets empty cells pass one below the threshold."""

    def _sift(self, above, noise):
        sparse_hits(self.domain.size, above + 1, noise, self._entropy)
        draw(noise, len(self._aggregate.cells), self._entropy)
        return self._aggregate.cells, self._aggregate.counts


def test_missing_factor_two_is_caught():
    loss, _ = largest_loss(selecting(MEDIAN, ONE, 1, kind=WithoutTheTwo), (4,), 4, 1)
    assert loss > 1.3
    # Most rows is monotone: a row only ever adds, so that it never needed the two.
    assert largest_loss(selecting(most_rows, ONE, 1, kind=WithoutTheTwo), (4,), 4, 1)[0] <= 1


def test_several_rows_taken_for_one_are_caught():
    assert largest_loss(selecting(MEDIAN, ONE, 2, kind=OneRowEach), (4,), 4, 2)[0] > 1.1
    assert largest_loss(counting(ONE, 2, kind=OneRowEach), (2,), 4, 2)[0] == pytest.approx(2)
    assert largest_loss(counting(ONE, 2, parity=True, kind=OneRowEach), (4,), 4, 2)[0] == pytest.approx(2)
    assert largest_loss(counting(ONE, 2, above=2, kind=OneRowEach), (2,), 4, 2)[0] == pytest.approx(2)


def test_thresholds_that_differ_are_caught():
    assert largest_loss(counting(ONE, 1, above=2, kind=EarlierThreshold), (2,), 2, 1)[0] == inf


def test_the_limited_domain_algorithm_exceeds_its_claim():
    """About 1.8 alpha with the ranges as printed; with disjoint ranges less, and still too much."""
    assert limited_domain_loss(1, cells=4, rows=3) == pytest.approx(1.769147847, abs=1e-8)
    assert limited_domain_loss(1, cells=6, rows=2) == pytest.approx(1.774865117, abs=1e-8)
    assert limited_domain_loss(Fraction(1, 2), cells=6, rows=3) > 1.7 * 0.5
    assert limited_domain_loss(1, cells=4, rows=2, overlap=False) > 1.12


def test_the_limited_domain_algorithm_keeps_its_claim_where_its_proof_holds():
    """A record that comes last, which is all that theorem 4.3 treats, with disjoint ranges."""
    for table in ((3,), (3, 2), (1, 3, 2), (3, 3, 3)):
        laws = [limited_domain_max(rows, ONE, 4, overlap=False) for rows in (table, table[:-1])]
        assert exact_loss([laws[0]], [laws[1]]) <= 1 + 1e-12


def test_the_limited_domain_algorithm_by_hand():
    """Two cells, one row in the upper one, no width: t = min((e - 1) / 2, (1 - 1/e) / 2) moves from the lower."""
    law = limited_domain_max([1], ONE, 2, width=0, overlap=False)
    assert float(law[0]) == pytest.approx(0.18393972058572117)
    assert float(law[1]) == pytest.approx(0.8160602794142788)


# -- watching


def test_watching_touches_nobody_else_and_ends():
    noise = Laplace(Fraction(3))
    before = draw(noise, 100, TestingEntropy(1)).tolist()
    with watching(Curator):
        assert curator_module.draw is not draw
        assert curator_module.draw(noise, 100, TestingEntropy(1)).tolist() == before
        watched = Watched(1)
        assert curator_module.draw(noise, 100, watched).tolist() == before
        assert [len(call.values) for call in watched.log] == [100] and not watched.loose
    assert (curator_module.draw, sifting.sparse_hits, curator_module.choose) == (draw, sparse_hits, choose)
