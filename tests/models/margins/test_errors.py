"""The errors of joined tables, against the covariance of all cells written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from sfumato.models.margins.joining import level_of, onto_total
from sfumato.models.margins.table import Coarse, JoinedErrors, subsets

SHAPE = (3, 4, 2)


def drawn(seed: int) -> JoinedErrors:
    rng = np.random.default_rng(seed)
    bases = tuple(rng.dirichlet(np.ones(size)) for size in SHAPE)
    return JoinedErrors(bases, {part: rng.uniform(0, 2, [SHAPE[a] for a in part]) for part in subsets((0, 1, 2))})


def levelled(seed: int) -> JoinedErrors:
    """The same with margins that were brought to their total evenly, over some of their values."""
    rng, plain = np.random.default_rng(seed), drawn(seed)
    held = [rng.integers(0, 2, size) + (np.arange(size) == 1) > 0 for size in SHAPE]
    apart = {axis: np.where(held[axis], 0.0, rng.uniform(0, 2, SHAPE[axis])) for axis in range(3)}
    return JoinedErrors(plain.bases, plain.variances, tuple(each / each.sum() for each in held), apart)


def product(factors) -> np.ndarray:
    found = np.ones((1, 1))
    for factor in factors:
        found = np.kron(found, factor if factor.ndim == 2 else factor[:, None])
    return found


def written_out(errors: JoinedErrors) -> np.ndarray:
    """The covariance of all cells: for each set of axes, spread by the base, and centred along its own axes."""
    covariance, bases = np.zeros((24, 24)), errors.bases

    def centred(axis: int, part: tuple[int, ...]) -> np.ndarray:
        centre = bases[axis] if errors.levels is None or len(part) > 1 else errors.levels[axis]
        return np.eye(len(centre)) - np.outer(centre, np.ones(len(centre)))

    for part, variances in errors.variances.items():
        spread = product(centred(axis, part) if axis in part else base for axis, base in enumerate(bases))
        if not part and errors.levels is not None:
            for moved, level in enumerate(errors.levels):
                spread = spread + product(level - base if a == moved else base for a, base in enumerate(bases))
        covariance += spread @ np.diag(variances.reshape(-1)) @ spread.T
    for own, variances in errors.apart.items():
        spread = product(np.eye(len(base)) if axis == own else base for axis, base in enumerate(bases))
        covariance += spread @ np.diag(variances) @ spread.T
    return covariance


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("made", [drawn, levelled])
def test_single_cells(seed, made):
    errors = made(seed)
    assert np.allclose(errors.of_cells().reshape(-1), np.diag(written_out(errors)))


@pytest.mark.parametrize("groups", [(), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("made", [drawn, levelled])
def test_sums_by_group_beside_sums_over_all_cells(groups, made):
    errors, rng = made(7), np.random.default_rng(1)
    split, whole = (
        [rng.normal(size=SHAPE), rng.normal(size=SHAPE), None],
        [None, rng.normal(size=SHAPE), np.ones(SHAPE)],
    )
    found = errors.covariances(split, whole, groups)
    covariance = written_out(errors)
    for group in np.ndindex(*(SHAPE[axis] for axis in groups)):
        inside = np.zeros(SHAPE)
        inside[tuple(group[groups.index(axis)] if axis in groups else slice(None) for axis in range(3))] = 1.0
        weights = np.array(
            [
                ((0.0 if s is None else s * inside) + (0.0 if w is None else w) + np.zeros(SHAPE)).reshape(-1)
                for s, w in zip(split, whole, strict=True)
            ]
        )
        assert np.allclose(found[group], weights @ covariance @ weights.T)


def test_a_total_carries_the_error_of_the_total_alone():
    errors = drawn(3)
    ones = np.ones((1, 1, 1))
    assert errors.covariances([ones], [None], ())[0, 0] == pytest.approx(float(errors.variances[()]))
    by_first = errors.covariances([ones], [None], (0,))[:, 0, 0]
    alone = JoinedErrors(errors.bases[:1], {part: errors.variances[part] for part in ((), (0,))})
    assert np.allclose(by_first, alone.of_cells())


def test_margins_brought_to_their_total_are_as_sure_as_they_are():
    """Noise of variance 4 on 6 values, all rows known to within 9: the covariance of 20,000 such margins, to 6 %.

    In proportion to rows the first value, with most of them, would be said to be off by three times as much.
    """
    rng, rows = np.random.default_rng(5), np.array([900.0, 20.0, 20.0, 20.0, 20.0, 20.0])
    noisy = rows + rng.normal(0, 2.0, (20_000, 6))
    totals = rows.sum() + rng.normal(0, 3.0, 20_000)
    errors = np.array([onto_total(one, total) - rows for one, total in zip(noisy, totals, strict=True)])
    variances = {(): np.array(9.0), (0,): np.full(6, 4.0)}
    told = JoinedErrors((rows / rows.sum(),), variances, (level_of(rows),))
    assert np.allclose(told.of_cells(), errors.var(axis=0), rtol=0.06)
    assert JoinedErrors((rows / rows.sum(),), variances).of_cells()[0] > 5.0 * errors[:, 0].var()


# -- errors of blocks

BLOCKS = ((0, 0, 1), (0, 1, 1, 2), (0, 0))  # of every value; the last axis is one block


def by_block(errors: JoinedErrors, blocks: Sequence[Sequence[int]], seed: int, sign: float = 1.0) -> Coarse:
    """Variances for every block of every set of two and three axes."""
    rng, shares = np.random.default_rng(seed), []
    for base, of in zip(errors.bases, blocks, strict=True):
        held = np.array([np.where(np.equal(of, block), base, 0.0) for block in range(max(of) + 1)])
        shares.append(held / held.sum(axis=1, keepdims=True))
    sizes = [max(of) + 1 for of in blocks]
    parts = [part for part in subsets((0, 1, 2)) if len(part) > 1]
    return Coarse(tuple(shares), {part: sign * rng.uniform(0, 2, [sizes[axis] for axis in part]) for part in parts})


def blocks_written_out(errors: JoinedErrors, coarse: Coarse, blocks: Sequence[Sequence[int]]) -> np.ndarray:
    """The covariance of all cells, block by block.

    The error of a block is spread over its cells in proportion to the base; along each axis of the set what would
    change the margin is taken away in proportion to the base, and along the others it is spread by the base.
    """
    covariance = np.zeros((24, 24))
    for part, variances in coarse.variances.items():
        for block, variance in np.ndenumerate(variances):
            spread = np.ones((1, 1))
            for axis, base in enumerate(errors.bases):
                if axis in part:
                    inside = np.equal(blocks[axis], block[part.index(axis)])
                    spread = np.kron(spread, (base * inside / base[inside].sum() - base)[:, None])
                else:
                    spread = np.kron(spread, base[:, None])
            covariance += variance * spread @ spread.T
    return covariance


@pytest.mark.parametrize("seed", range(3))
def test_errors_of_blocks_of_single_cells(seed):
    plain = drawn(seed)
    coarse = by_block(plain, BLOCKS, seed + 10)
    errors = replace(plain, coarse=(coarse,))
    covariance = written_out(plain) + blocks_written_out(plain, coarse, BLOCKS)
    assert np.allclose(errors.of_cells().reshape(-1), np.diag(covariance))
    twice = errors + errors
    assert np.allclose(twice.of_cells(), 2.0 * errors.of_cells())


@pytest.mark.parametrize("groups", [(), (0,), (1,), (2,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("stretched", [False, True])
def test_errors_of_blocks_of_sums_by_group_beside_sums_over_all_cells(groups, stretched):
    """At two scales, one of which takes away; weights on all cells, and such as are stretched along some axes."""
    plain, rng = drawn(7), np.random.default_rng(1)
    fine = (tuple(range(3)), tuple(range(4)), tuple(range(2)))
    scales = [(by_block(plain, BLOCKS, 3), BLOCKS), (by_block(plain, fine, 4, -0.1), fine)]
    errors = replace(plain, coarse=tuple(each for each, _ in scales))
    covariance = written_out(plain) + sum(blocks_written_out(plain, each, blocks) for each, blocks in scales)
    shapes = [(3, 1, 2), (1, 4, 1), (1, 1, 2)] if stretched else [SHAPE] * 3
    split = [rng.normal(size=shapes[0]), rng.normal(size=shapes[1]), None]
    whole = [None, rng.normal(size=shapes[2]), np.ones(SHAPE)]
    found = errors.covariances(split, whole, groups)
    for group in np.ndindex(*(SHAPE[axis] for axis in groups)):
        inside = np.zeros(SHAPE)
        inside[tuple(group[groups.index(axis)] if axis in groups else slice(None) for axis in range(3))] = 1.0
        weights = np.array(
            [
                ((0.0 if s is None else s * inside) + (0.0 if w is None else w) + np.zeros(SHAPE)).reshape(-1)
                for s, w in zip(split, whole, strict=True)
            ]
        )
        assert np.allclose(found[group], weights @ covariance @ weights.T)


def test_kinds_that_cut_across_blocks_meet_the_errors_of_their_parts():
    """Values 0 and 3 of the second axis are one kind, 1 and 2 another: each has parts of several blocks."""
    plain, kinds = drawn(5), np.array([0, 1, 1, 0])
    coarse = by_block(plain, BLOCKS, 6)
    merge = np.eye(2)[:, kinds]
    bases = (plain.bases[0], merge @ plain.bases[1], plain.bases[2])
    shares = (coarse.shares[0], coarse.shares[1] @ merge.T, coarse.shares[2])
    errors = JoinedErrors(bases, {}, coarse=(Coarse(shares, coarse.variances),))
    onto = np.kron(np.kron(np.eye(3), merge), np.eye(2))
    covariance = onto @ blocks_written_out(plain, coarse, BLOCKS) @ onto.T
    assert np.allclose(errors.of_cells().reshape(-1), np.diag(covariance)) and covariance.max() > 0.01
    weights = np.random.default_rng(2).normal(size=(3, 2, 2))
    ((found,),) = errors.covariances([weights], [None], ())
    assert found == pytest.approx(weights.reshape(-1) @ covariance @ weights.reshape(-1))


def test_errors_of_blocks_leave_margins_alone():
    plain = drawn(9)
    errors = JoinedErrors(plain.bases, {}, coarse=(by_block(plain, BLOCKS, 1),))
    assert errors.of_cells().min() > 0
    for axis in range(3):
        assert np.allclose(errors.covariances([np.ones((1, 1, 1))], [None], (axis,)), 0.0)
