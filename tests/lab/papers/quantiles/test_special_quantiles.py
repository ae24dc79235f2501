"""Quantiles: near the truth, within their intervals, better together than apart, refused where they make no sense."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import MechanismError
from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.verbs.scores import Rank
from sfumato.lab.papers.quantiles.content import Quantiles
from sfumato.models import find_mechanism
from sfumato.schema import Schema

VALUES, ROWS = 512, 20_000
DECILES = [Fraction(k, 10) for k in range(1, 10)]
NAME = "quantiles"


def schema_of(values: int = VALUES) -> Schema:
    attributes = {"x": {"type": "integer", "lower": 0, "upper": values - 1}, "g": {"type": "boolean"}}
    return Schema.from_dict({"dataset": "x", "privacy_unit": "row", "budget": {"epsilon": 9}, "attributes": attributes})


def hill(values: int = VALUES, rows: int = ROWS) -> np.ndarray:
    """Rows about as a bell, in either group half of them."""
    x = (np.arange(values) - values / 2) / (values / 8)
    one = np.rint(rows / 2 * np.exp(-x * x / 2) / np.exp(-x * x / 2).sum()).astype(np.int64)
    return np.stack([one, one], axis=1)


def made(counts: np.ndarray, epsilon: Fraction, seed: int, **options: str) -> Quantiles:
    schema, budget = schema_of(len(counts)), Budget.pure(epsilon)
    curator = over_counts(schema, counts, budget, TestingEntropy(seed))
    content = (
        find_mechanism(NAME).with_options({"of": "x", "pieces": "16", **options}).run(curator, schema, budget, None)
    )
    assert curator.charge.fullest == curator.charge.limit
    assert isinstance(content, Quantiles)
    return content


def rank_error(counts: np.ndarray, cell: int, quantile: Fraction) -> float:
    target, up_to = float(quantile) * counts.sum(), counts[: cell + 1].sum()
    return max(0.0, target - up_to, up_to - counts[cell] - target)


def test_999_quantiles_are_in_order_and_near_their_ranks():
    """Ten levels of choices with a tenth of epsilon 20 each: ranks off by 0.6 on average; a fixed seed."""
    counts, wanted = hill(), [Fraction(k, 1000) for k in range(1, 1000)]
    content = made(counts, Fraction(20), 8, quantiles=",".join(f"{float(q):.3f}" for q in wanted))
    (line,) = content.lines
    assert (np.diff(line.cuts[0]) >= 0).all()
    rows = counts.sum(axis=1)
    errors = [rank_error(rows, (int(cut) - 1) // 16, q) for cut, q in zip(line.cuts[0], wanted, strict=True)]
    assert np.mean(errors) < 3.0


@pytest.mark.full
def test_intervals_of_95_percent_hold_as_often_as_they_say():
    """60 releases of 9 quantiles, 540 intervals of a bell; by position, so that whole values do not widen them.

    Quantiles of a release lean on each other. Releases are independent; the share of each has a deviation of at most
    0.16 in trials, so the mean of 60 is within 5 * 0.021 of what is expected with a chance of 1 - 1e-6.
    """
    counts = hill()[:, 0] * 2
    up_to, held, wide = counts.cumsum(), [], []
    for seed in range(60):
        content = made(hill(), Fraction(1, 2), seed, quantiles=",".join(str(float(q)) for q in DECILES))
        for quantile in DECILES:
            found = content.by_attribute["x"][0].find(quantile, 0.95)
            target = float(quantile) * up_to[-1]
            cell = int(np.searchsorted(up_to, target))
            inside = (target - (up_to[cell] - counts[cell])) / counts[cell]
            held.append(found.low <= (cell + inside) * content.lines[0].pieces <= found.high)
            estimate = content.value_of("x", 0, quantile)
            wide.append(estimate.high - estimate.low)
    assert 0.85 <= np.mean(held) <= 1.0
    assert np.mean(wide) < VALUES / 40  # and they are no whole domains


def heaps(values: int, rows: int) -> np.ndarray:
    """As a hill, but that half of the rows lie on every 128th value: up to 10,000 of 200,000 on one."""
    counts = hill(values, rows // 2)
    onto = (np.arange(values) + 64) // 128 * 128
    np.add.at(counts, np.minimum(onto, values - 1), hill(values, rows // 2))
    return counts


@pytest.mark.full
@pytest.mark.parametrize(("shape", "most"), [(hill, 0.75), (heaps, 0.85)])
def test_deciles_at_once_are_better_than_one_by_one(shape, most):
    """20 releases: the means of 180 rank errors differ by about a half; their deviations together are a tenth.

    With 8 pieces to a value, all at once was five times as bad as one by one under these heaps.
    """
    counts, epsilon = shape(4096, 200_000), Fraction(1, 10)
    flat, schema = counts.sum(axis=1), schema_of(4096)
    together, apart = [], []
    for seed in range(20):
        asked = {"quantiles": ",".join(str(float(q)) for q in DECILES), "pieces": "65536"}
        (line,) = made(counts, epsilon, seed, **asked).lines
        cells = [(int(cut) - 1) // line.pieces for cut in line.cuts[0]]
        together += [rank_error(flat, cell, q) for cell, q in zip(cells, DECILES, strict=True)]
        curator = over_counts(schema, counts, Budget.pure(epsilon), TestingEntropy(100 + seed)).margin(["x"])
        parts = Budget.pure(epsilon).evenly(9)
        cells = [curator.select(Rank(q), part) for q, part in zip(DECILES, parts, strict=True)]
        apart += [rank_error(flat, cell, q) for cell, q in zip(cells, DECILES, strict=True)]
    assert np.mean(together) < most * np.mean(apart)


def test_groups_do_not_share_the_budget():
    """One group alone and two groups give choices of the same quality: the noise of counts is the same."""
    one, two = (made(hill(), Fraction(1), 3, by=by) for by in ("", "g"))
    assert one.lines[0].counted.noise == two.lines[0].counted.noise
    assert len(two.lines[0].cuts) == 2 and two.epsilon == one.epsilon


def test_heaps_are_cut_as_finely_as_anything():
    """All rows on two values: every quantile is one of them, whatever the pieces."""
    counts = np.zeros((64, 2), dtype=np.int64)
    counts[10], counts[40] = 4000, 1000
    content = made(counts, Fraction(2), 1, quantiles="0.1,0.5,0.75,0.9")
    values = [content.value_of("x", 0, q).value for q in content.quantiles]
    assert values == [10, 10, 10, 40]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quantiles": "1.5"}, "between 0 and 1"),
        ({"quantiles": "-0.1"}, "between 0 and 1"),
        ({"quantiles": "0.12345"}, "three decimals"),
        ({"quantiles": ""}, "1 to 1000"),
        ({"of": "g"}, "no order"),
        ({"of": "y"}, "no attribute 'y'"),
        ({"of": "x", "by": "x"}, "twice"),
        ({"pieces": "3"}, "1, 2, 4"),
        ({"pieces": "0"}, "1, 2, 4"),
        ({"pieces": str(2**20)}, "up to 65,536"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(options, words):
    with pytest.raises(MechanismError, match=words):
        find_mechanism(NAME).with_options(options).check(schema_of())
