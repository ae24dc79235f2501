from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.answers.evaluate import signs_of_rows
from sfumato.domain.binary_tree import BinaryTree
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.sampling.noise import draw
from sfumato.measurement import Gaussian, Laplace, Measurement
from sfumato.models.tree.fit import fit_tree
from sfumato.queries import Ranges

LOWS, HIGHS = np.array([0, 0, 4, 0, 2, 6]), np.array([7, 3, 7, 1, 3, 7])  # of a line of eight cells


def fitted(answers, noise):
    measured = Measurement("count", Ranges(8, LOWS, HIGHS), np.array(answers), (noise,))
    return fit_tree(measured, BinaryTree.line(8))


def test_only_what_lies_wholly_inside_speaks():
    """Of the first three cells two were counted; the next count reaches beyond them, and so do the larger ones."""
    fit = fitted([100, 40, 60, 4, 36, 50], Laplace(Fraction(1)))
    within = np.arange(8)[:, None] < np.array([1, 3, 4, 8])
    nothing, some, half, every = signs_of_rows(fit, within)
    assert nothing.terms == () and not nothing.is_sure(0.975)
    assert some.value == 4 / 2 and some.terms[0][2] == 1 and half.terms[0][2] == 3 and every.terms[0][2] == 6
    assert some.is_sure(0.975) and not some.is_sure(0.999) and half.is_sure(0.999999)


@pytest.mark.parametrize("noise", [Laplace(Fraction(3, 2)), Gaussian(Fraction(9))])
def test_of_an_empty_set_one_is_sure_as_seldom_as_was_asked(noise):
    """2000 draws, at most 2.5 % of them sure: 90 or more have a chance below 1e-6 (binomial)."""
    within, entropy, sure = np.arange(8)[:, None] < np.array([4]), TestingEntropy(3), 0
    fit = fitted([100, 0, 0, 0, 0, 0], noise)
    for _ in range(2000):
        object.__setattr__(fit.measurement, "answers", draw(noise, 6, entropy))
        (sign,) = signs_of_rows(fit, within)
        sure += sign.is_sure(0.975)
    assert 10 < sure < 90
