"""One noisy observation of a number that is normal beforehand."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import log_ndtr

from sfumato.domain.binary_tree import BinaryTree
from sfumato.measurement import Gaussian, Laplace, Measurement
from sfumato.models.tree.observation import QUICK, counts_by_level, log_phi, observe, split_variances
from sfumato.queries import Ranges
from sfumato.schema import Schema


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("answer", [-40.0, 3.0, 11.0, 300.0])
def test_an_observation_agrees_with_integration(laplace, answer):
    mean, variance, scale = 5.0, 90.0, 4.0
    x = np.linspace(mean - 400, mean + 400, 2_000_001)
    noise = np.exp(-np.abs(answer - x) / scale) / (2 * scale)
    if not laplace:
        noise = np.exp(-((answer - x) ** 2) / (2 * scale**2)) / np.sqrt(2 * np.pi * scale**2)
    density = noise * np.exp(-((x - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    whole = density.sum() * (x[1] - x[0])
    middle = (density * x).sum() / density.sum()
    spread = (density * (x - middle) ** 2).sum() / density.sum()
    one = np.array([1.0])
    found = observe(mean * one, variance * one, answer * one, scale * one, laplace=laplace)
    assert [float(part[0]) for part in found] == pytest.approx([np.log(whole), middle, spread], rel=1e-5)


def test_the_normal_distribution_is_the_same_with_few_numbers_and_with_many():
    places = np.concatenate([np.linspace(-60.0, 12.0, 999), -(10.0 ** np.arange(9))])
    assert log_phi(places) == pytest.approx(log_ndtr(places), rel=1e-11, abs=1e-15)
    many = np.resize(places, QUICK + 1)
    assert log_phi(many).tolist() == log_ndtr(many).tolist()


@pytest.mark.parametrize("laplace", [False, True])
def test_variances_of_splits_are_those_of_least_squares_given_the_rows_of_the_node(laplace):
    """Against the explicit normal equations of all counts below each node, with the node's own rows known."""
    axis = {"x": {"type": "integer", "lower": 0, "upper": 5}}
    tree = BinaryTree.over(Schema(dataset="t", privacy_unit="row", attributes=axis).domain)
    nodes = sorted({(int(low), int(end) - 1) for each in tree.begins for low, end in pairwise(each)})
    lows, highs = (
        np.array(each) for each in zip(*(node for node in nodes if node not in [(0, 0), (1, 1)]), strict=True)
    )
    scale = Fraction(3, 2)
    noise = Laplace(scale) if laplace else Gaussian(scale**2)
    measured = Measurement("count", Ranges(6, lows, highs), np.zeros(len(lows), dtype=np.int64), (noise,))
    found = split_variances(tree, counts_by_level(measured, tree))
    variance, place = float(scale) ** 2 * (2 if laplace else 1), 0
    for level in range(tree.height):
        begins, halves = tree.begins[level], tree.halves[level]
        for node in range(tree.nodes(level)):
            low, high = begins[node], begins[node + 1]
            if halves[node + 1] - halves[node] == 2:
                middle = tree.begins[level + 1][halves[node] + 1]
                pairs = zip(lows.tolist(), highs.tolist(), strict=True)
                inside = [(a, b) for a, b in pairs if low <= a <= b < high and b - a + 1 < high - low]
                leaves = np.arange(low, high)
                design = np.array([(leaves >= a) & (leaves <= b) for a, b in inside], dtype=float).reshape(
                    -1, len(leaves)
                )
                # Of two numbers that add up to what is known, the first is all that is free, but for the parts of each.
                first, free = (
                    (leaves < middle).astype(float),
                    np.vstack([np.eye(len(leaves))[1:] - np.eye(len(leaves))[0]]).T,
                )
                gram = (design @ free).T @ (design @ free) / variance
                weights = first @ free
                known = np.linalg.matrix_rank(np.vstack([gram, weights])) == np.linalg.matrix_rank(gram)
                expected = weights @ np.linalg.pinv(gram) @ weights if known else np.inf
                assert found[place] == pytest.approx(expected, rel=1e-5)
            place += 1
    assert place == len(found)
