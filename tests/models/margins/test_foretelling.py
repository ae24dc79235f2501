"""Errors are foretold about as they turn out."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

from sfumato.models.margins.table import independent
from sfumato.models.margins.views import MOST_IN_THREES, MOST_TESTED, NOISES, WHOLE, Misfits, foretell, threes_to_test

MARGINS = [np.array([600.0, 300.0, 100.0]), np.full(4, 250.0), np.array([900.0, 100.0])]


def unsure(margins, noise: float) -> list[np.ndarray]:
    return [np.full(len(margin), noise**2) for margin in margins]


def foretold(misfit: float | None, margins=MARGINS, noise: float = 1.0, pure: bool = True):
    of_pairs = None if misfit is None else Misfits(dict.fromkeys(combinations(range(len(margins)), 2), misfit), 5.0)
    return foretell(margins, unsure(margins, noise), of_pairs, None, pure)


@pytest.mark.parametrize("pure", [True, False])
def test_more_noise_means_more_error_up_to_what_was_known_before(pure):
    found = foretold(200.0, pure=pure)
    assert (np.diff(found.errors, axis=1) >= 0).all()
    assert (found.errors[:, 0] < 0.01).all()  # a tenth of a row on each of at most 24 cells, of a thousand
    assert np.allclose(found.errors[:, -1], found.errors[:, -2], rtol=0.01)


def test_a_pair_that_is_not_measured_is_off_by_its_misfit():
    """Within a quarter: spreads are a grid by factors of 1.8, which belief in two of them bridges."""
    for misfit in (150.0, 300.0, 600.0):
        found = foretold(misfit)
        pairs = [place for place, places in enumerate(found.sets) if len(places) == 2]
        assert found.errors[pairs, -1] * 1000 == pytest.approx(misfit, rel=0.25)


def test_small_noise_is_foretold_to_the_letter():
    """Far below any deviation, errors are the mean size of the noise on every cell."""
    found, at = foretold(600.0), 5
    for errors, places in zip(found.errors, found.sets, strict=True):
        cells = np.prod([len(MARGINS[place]) for place in places])
        assert errors[at] * 1000 == pytest.approx(cells * NOISES[at] * np.sqrt(2 / np.pi), rel=0.05)


def test_all_pairs_teach_each_other_what_a_noisy_misfit_means():
    """Of 45 pairs that are all independent none is believed to depend, however noisy its misfit."""
    margins, rng = [np.full(5, 2000.0)] * 10, np.random.default_rng(1)
    usual = float(np.sqrt(independent(margins[:2], 1e4)).sum()) * np.sqrt(2 / np.pi)
    misfits = usual + rng.laplace(0.0, 400.0, 45)
    of_pairs = Misfits(dict(zip(combinations(range(10), 2), misfits.tolist(), strict=True)), 400.0 * np.sqrt(2.0))
    found = foretell(margins, unsure(margins, 1.0), of_pairs, None, True)
    pairs = found.errors[[len(places) == 2 for places in found.sets], -1] * 1e4
    assert pairs.max() < 0.5 * misfits.max()


def test_a_misfit_that_rough_margins_explain_is_not_taken_for_dependence():
    """Margins of 10,000 give or take 4000 leave products off by half: a misfit of 0.35 of the rows says nothing."""
    margins = [np.full(10, 10_000.0)] * 4
    rough, sure = (foretold(35_000.0, margins, noise).errors[4:10, -1] for noise in (4000.0, 100.0))
    assert rough.max() < 0.1 and sure.min() > 0.2


def test_single_attributes_are_worth_more_than_their_number():
    worth = foretold(200.0, [np.full(3, 100.0)] * 7).worth
    assert worth / worth[2] == pytest.approx([comb(5, 1) / comb(5, 3), 1.0, 1.0])


@pytest.mark.parametrize("axes", [1, 2, 3, 5, 8, MOST_IN_THREES + 2])
def test_sets_of_every_order_and_their_weights(axes):
    found = foretold(100.0, [np.full(3, 100.0)] * axes)
    orders = [k for k in (1, 2, 3) if k <= axes and (k < 3 or axes <= MOST_IN_THREES)] + [axes] * (axes in WHOLE)
    assert list(found.sets) == [places for k in orders for places in combinations(range(axes), k)]
    assert found.weights.shape == (len(orders), len(found.sets)) and found.errors.shape == (len(found.sets), 36)
    assert found.worth.sum() == pytest.approx(1.0) and np.isfinite(found.errors).all()


def test_nothing_known_and_no_rows_are_no_trouble():
    assert np.isfinite(foretold(None).errors).all()
    assert np.isfinite(foretold(0.0, [np.zeros(3), np.zeros(2)]).errors).all()


def test_threes_whose_misfit_their_pairs_do_not_explain_are_dense():
    """Pairs off by 0.3 of the rows make three attributes off by 0.52 of them; 0.8 is an interaction, of about 0.6."""
    margins = [np.full(4, 2500.0)] * 5
    of_pairs = Misfits(dict.fromkeys(combinations(range(5), 2), 3000.0), 50.0)
    of_threes = Misfits({**dict.fromkeys(combinations(range(5), 3), 5200.0), (0, 2, 3): 8000.0}, 50.0)
    found = foretell(margins, unsure(margins, 1.0), of_pairs, of_threes, False)
    assert found.dense == ((0, 2, 3),)
    without = {places: errors[-1] for places, errors in zip(found.sets, found.errors, strict=True) if len(places) == 3}
    assert without.pop((0, 2, 3)) == pytest.approx(0.6, rel=0.35)  # spreads are a grid by factors of 1.8
    assert max(without.values()) < 0.15


def test_threes_of_few_cells_are_tested_and_no_more_than_noise_allows():
    shape = [2, 3, 40, 50, 60, 4, 1, *[3] * 10]
    found = threes_to_test(shape, 50_000.0, 0.01, 0.02)
    cells = [np.prod([shape[place] for place in places]) for places in found]
    assert cells == sorted(cells) and 0 < len(found) <= MOST_TESTED and 6 not in np.unique(found)
    assert (2, 3, 4) not in found
    assert not threes_to_test(shape, 300.0, 0.01, 0.02)
