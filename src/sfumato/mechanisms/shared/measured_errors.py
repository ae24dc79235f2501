"""How far a finished estimate is off, measured by kind of question with a small part of the budget.

Any mechanism whose fit leans on a model can do this last: keep `part_of_budget` aside, call `measure_errors` with the
fit and the rest of the budget, and wrap the fit in a MeasuredFit (inference/fits/measured/fit.py) with what comes back.
How each kind is looked at is in `misfits_by_kind.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from math import log2

import numpy as np

from sfumato.domain import Domain
from sfumato.inference.by_kind.scales import BLOCKS, EMPTY, ONE_WAY, TILES, TWO_WAY, Scales
from sfumato.inference.fits.measured.fit import Brought
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.measurement import Measurement
from sfumato.mechanisms.shared.misfits_by_kind import (
    COARSER,
    GROUPS,
    Finished,
    Found,
    of_blocks,
    of_cells,
    of_pairs,
    of_tiles,
    of_values,
    sets_of,
    tiles_of,
)

LEAST_CELLS = 16  # of a table whose tiles are looked at
LARGER = 8  # times as many tiles as blocks, for blocks to be looked at, too
WORTH = 0.1  # of intervals of one kind widened by noise, against the errors of all that a smaller budget widens
MOST_PART = 0.01  # of the budget, for one kind
HIDING = 3  # times as much for cells where none was looked at by itself: rows hide among those that are not empty, too


def part_of_budget(domain: Domain, without: Collection[int] = (), *, seen: bool = True) -> Fraction:
    """What measuring errors may take: as much as its noise, if less, would widen intervals; public.

    without: kinds that need not be measured. seen: whether every cell was looked at.
    """
    return Fraction(sum(_weights(domain, without, seen=seen).values()), 2**20)


def measure_errors(
    curator: Curator,
    brought: Brought,
    budget: Budget,
    whole: Budget,
    without: Collection[int] = (),
    *,
    seen: bool = True,
) -> tuple[Scales, tuple[Measurement, ...]]:
    """Measure by how much errors of every kind differ from what a fit claims.

    brought: the fit, with the counts that it was brought to. budget: for this; whole: what all of the count's
    measurements had. without: kinds that need not be measured. seen: whether every cell was looked at, so that one with
    far more rows than noise cannot be missed.
    """
    unit = noise_for(whole, curator.charge.contributions, l1=Fraction(1), l2_squared=Fraction(1)).variance ** 0.5
    weights = _weights(curator.domain, without, seen=seen)
    finished = Finished(curator, brought, whole, unit, seen)
    found: list[Found] = []
    measured: list[Measurement] = []
    for kind, share in zip(weights, budget.split(*weights.values()), strict=True):
        look = {EMPTY: of_cells, TILES: of_tiles, BLOCKS: of_blocks, ONE_WAY: of_values, TWO_WAY: of_pairs}[kind]
        kinds, looked = look(finished, share)
        found += kinds
        measured += looked
    ends, factors, errors = (np.array([getattr(one, name) for one in found]) for name in ("end", "factor", "error"))
    return Scales(np.array([one.kind for one in found]), ends, factors, errors), tuple(measured)


def _weights(domain: Domain, without: Collection[int], *, seen: bool) -> dict[int, int]:
    """The part of the budget for each kind, in millionths or so."""
    cells, shape = float(domain.size), domain.shape
    # Between a full table, where every cell has its own error, and a sparse one, where hardly any has.
    parts = {EMPTY: (1 if seen else HIDING) * _part(cells**0.5, cells**0.5)}
    if domain.size >= LEAST_CELLS:
        tiles = float(tiles_of(domain).size)
        parts[TILES] = _part(tiles, cells / tiles)
        if tiles >= LARGER * (blocks := float(tiles_of(domain, COARSER).size)):
            parts[BLOCKS] = _part(blocks, cells / blocks)
    for kind, order in ((ONE_WAY, 1), (TWO_WAY, 2)):
        if len(shape) > order:
            values = float(np.mean([np.prod([shape[place] for place in some]) for some in sets_of(domain, order)]))
            # Sets of two attributes differ, so that groups of them are told apart.
            parts[kind] = _part(values / (GROUPS if kind == TWO_WAY else 1), cells / values)
    return {kind: max(1, round(2**20 * part)) for kind, part in parts.items() if kind not in without}


def _part(questions: float, cells: float) -> float:
    """The part of the budget for a kind of so many questions, each a sum of so many cells.

    In units of the noise that all of the budget buys, a measured tree is off by about (1 + log2 cells)^1.5. With a part
    p of the budget the noise is 1 / (p errors) of the sum of errors; intervals grow by its square, and by p.
    """
    errors = questions * (1.0 + log2(max(cells, 1.0))) ** 1.5
    return float(min(MOST_PART, (2.0 * WORTH / errors**2) ** (1.0 / 3.0)))
