"""Views: the whole table where that is best, nothing that is useless, and the whole budget."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.models.margins.views import MOST_ATTRIBUTES, MOST_CELLS, NOISES, Foretold, Misfits, Search, foretell


def best(margins: list[np.ndarray], misfits: dict, budget: float, pure: bool = True, elsewhere: float = 0.0):
    """misfits: of pairs, in rows; elsewhere: of all others."""
    told = {pair: misfits.get(pair, elsewhere) for pair in combinations(range(len(margins)), 2)}
    foretold = foretell(margins, unsure(margins), Misfits(told, 20.0), None, pure)
    known = np.array([1.0 / 400.0 if len(places) == 1 else 0.0 for places in foretold.sets])
    return Search(foretold, [len(margin) for margin in margins], known, budget, pure).best()


def unsure(margins: list[np.ndarray]) -> list[np.ndarray]:
    return [np.full(len(margin), 400.0) for margin in margins]


def rows(total: float, *sizes: int) -> list[np.ndarray]:
    return [np.full(size, total / size) for size in sizes]


def test_of_few_cells_the_whole_table_is_measured_under_pure_epsilon():
    """Three dependent attributes of two values: three pairs would have three times the noise, for the same cells."""
    margins = rows(5000.0, 2, 2, 2)
    found = best(margins, {}, 1.0, elsewhere=2500.0).listed()
    assert max(found, key=found.__getitem__) == (0, 1, 2) and found[0, 1, 2] > 0.5


def test_what_tells_nothing_is_dropped():
    """One pair of six depends; the others are independent but for the scatter of their rows."""
    found = best(rows(20_000.0, 10, 10, 10, 10), {(0, 1): 15_000.0}, 0.5, elsewhere=1000.0).listed()
    assert [places for places in found if len(places) > 1] == [(0, 1)]


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("sizes", [(7,), (3, 4), (5, 4, 3, 6), (6, 5, 4, 3, 7, 8)])
def test_the_whole_budget_is_shared_and_twice_alike(pure, sizes):
    margins, budget = rows(8000.0, *sizes), 0.7
    found, again = (best(margins, {(0, 1): 3000.0}, budget, pure, 800.0) for _ in range(2))
    assert found.shares.sum() == pytest.approx(budget) and (found.shares > 0).all()
    assert sum(found.listed().values()) == pytest.approx(1.0) and found.listed() == again.listed()
    assert len({row.tobytes() for row in found.sets}) == len(found.sets)


def test_more_budget_means_less_error():
    errors = [best(rows(8000.0, 5, 4, 3, 6), {}, budget, elsewhere=2000.0).error for budget in (0.1, 1.0, 10.0)]
    assert errors == sorted(errors, reverse=True) and errors[2] < 0.3 * errors[0]


def written_out(foretold: Foretold, sizes: list[int], known: np.ndarray, views: dict, pure: bool) -> float:
    """The error of views: every foretold set has the information of the views that hold it, cell by cell."""
    each = []
    for places, errors, before in zip(foretold.sets, foretold.errors, known, strict=True):
        information = before
        for view, share in views.items():
            if set(places) <= set(view):
                cells = np.prod([sizes[place] for place in view if place not in places])
                information += (share**2 / 2 if pure else 2 * share) / cells
        noise = -0.5 * np.log(max(information, 1e-14))
        each.append(np.interp(noise, np.log(NOISES), errors))
    return float(np.exp(foretold.worth @ np.log(foretold.weights @ each)))


@pytest.mark.parametrize("pure", [True, False])
def test_its_error_is_that_of_its_views_and_no_worse_than_that_of_all_pairs_alike(pure):
    margins = rows(8000.0, 5, 4, 3, 6, 2)
    told = dict(zip(combinations(range(5), 2), np.linspace(200, 4000, 10).tolist(), strict=True))
    foretold = foretell(margins, unsure(margins), Misfits(told, 20.0), None, pure)
    sizes, known = [len(margin) for margin in margins], np.zeros(len(foretold.sets))
    found = Search(foretold, sizes, known, 0.5, pure).best()
    taken = {places: 0.5 * share for places, share in found.listed().items()}
    assert found.error == pytest.approx(written_out(foretold, sizes, known, taken, pure), rel=1e-6)
    alike = dict.fromkeys(combinations(range(5), 2), 0.05)
    assert found.error < 0.9 * written_out(foretold, sizes, known, alike, pure)


def test_large_sets_are_left_out():
    found = best(rows(8000.0, 400, 300, 200), {}, 1.0, elsewhere=4000.0)
    cells = [np.prod([(400, 300, 200)[place] for place in places]) for places in found.listed()]
    assert max(cells) <= MOST_CELLS
    many = best(rows(8000.0, *[2] * (MOST_ATTRIBUTES + 2)), {}, 1.0, elsewhere=3000.0)
    assert many.sets.sum(axis=1).max() <= MOST_ATTRIBUTES


def test_three_attributes_that_interact_are_measured_together():
    """A sum modulo 6: no pair depends, three attributes do. The misfit of the three is what tells it."""
    margins = rows(20_000.0, 6, 6, 6, 12, 12)
    threes = {(0, 1, 2): 18_000.0, (0, 1, 3): 300.0, (0, 2, 3): 300.0, (1, 2, 3): 300.0}
    pairs = Misfits(dict.fromkeys(combinations(range(5), 2), 200.0), 20.0)
    found = []
    for of_threes in (None, Misfits(threes, 50.0)):
        foretold = foretell(margins, unsure(margins), pairs, of_threes, False)
        known = np.array([1.0 / 400.0 if len(places) == 1 else 0.0 for places in foretold.sets])
        listed = Search(foretold, [6, 6, 6, 12, 12], known, 0.001, False).best().listed()
        found.append(sum(share for places, share in listed.items() if {0, 1, 2} <= {*places} and len(places) < 5))
    assert found[1] > 0.2 and found[1] > 2 * found[0]
