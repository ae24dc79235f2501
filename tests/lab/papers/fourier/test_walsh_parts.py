"""Margins from coefficients: the closed form is least squares, whatever the attributes' sizes."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.lab.papers.fourier.content import (
    downward_closure,
    least_raise,
    margin_of,
    parts_of,
    walsh_table,
    written_out,
)


@pytest.mark.parametrize(
    "sizes, wanted", [((2, 2, 2), [(0, 1), (1, 2)]), ((3, 2, 5), [(0, 1), (0, 2)]), ((4, 1, 3), [(0, 2)])]
)
def test_the_closed_form_is_least_squares_with_its_covariance(sizes, wanted):
    sets = downward_closure(wanted, sizes)
    rows = written_out(sets, sizes)
    answers = np.random.default_rng(3).normal(0, 10, len(rows))
    backs, start = {}, 0
    for places in sets:
        queries = walsh_table(tuple(sizes[place] for place in places))
        back = queries.T @ answers[start : start + queries.rows]
        backs[places] = back.reshape([sizes[place] for place in places])
        start += queries.rows
    parts = parts_of(backs, sizes, 7.0)
    inverse = np.linalg.pinv(rows)
    fitted = (inverse @ answers).reshape(sizes)
    for places in wanted:
        others = tuple(axis for axis in range(len(sizes)) if axis not in places)
        margin = margin_of(parts, places, sizes)
        assert np.allclose(margin, fitted.sum(axis=others))
        sums = np.stack([np.bincount(_along(sizes, places), column) for column in inverse.T], axis=1)
        claimed = sum(
            part.noise.flat[0]
            * np.prod([1 - 1 / sizes[place] for place in of])
            / np.prod([sizes[place] for place in places if place not in of]) ** 2
            for of, part in parts.items()
            if set(of) <= set(places)
        )
        assert np.allclose(7.0 * (sums**2).sum(axis=1), claimed)


def _along(sizes, places):
    codes = np.indices(sizes).reshape(len(sizes), -1)
    return np.ravel_multi_index(tuple(codes[list(places)]), [sizes[place] for place in places])


def test_the_raise_is_the_least_that_leaves_no_margin_negative():
    sizes = (2, 2)
    margins = {(): np.array(4.0), (0,): np.array([[4.0], [0.0]]), (0, 1): np.array([[5.0, -1.0], [1.0, -1.0]])}
    sets = downward_closure([(0, 1)], sizes)
    cells = margins[0, 1].reshape(-1)
    backs, rows, start = {}, written_out(sets, sizes) @ cells, 0
    for places in sets:
        queries = walsh_table(tuple(sizes[place] for place in places))
        backs[places] = (queries.T @ rows[start : start + queries.rows]).reshape([sizes[place] for place in places])
        start += queries.rows
    parts = parts_of(backs, sizes, 1.0)
    assert np.allclose(margin_of(parts, (0, 1), sizes), margins[0, 1])
    assert least_raise(parts, sizes) == pytest.approx(4.0)  # each of four cells by 1
