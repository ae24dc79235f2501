"""How far margins and what is joined from them are off, measured: sums of misfits by kind of question.

The sum over many sets of attributes costs as much as a single misfit and tells their mean, so a few per cent of the
budget give error bars that do not rest on what the estimates assume. Where the budget has room for more, sets are taken
in groups, those that look alike together, down to single ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice
from math import comb, prod

import numpy as np

from sfumato.arrays import Codes, Floats, Whole
from sfumato.frozen import dataclass
from sfumato.inference.margins.calibration import Doubt, scale_of
from sfumato.inference.margins.scales import LEVELS
from sfumato.inference.margins.spreads import Scaled, Spreads
from sfumato.inference.margins.table import Places, Table, sum_kinds
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.misfits import noise_of_margins
from sfumato.measurement import Measurement
from sfumato.releases.contents.margins import Margins
from sfumato.schema import Schema

# Sets of so many attributes that are looked at: their halves and quarters, cell by cell (LEVELS), and shares for each.
LOOKS = {2: {LEVELS: 4}, 3: {0: 2, 1: 2, LEVELS: 3}, 4: {0: 1, LEVELS: 1}}
NONE: Mapping[Places, Scaled] = {}
MOST_SETS = {2: 1000, 3: 240, 4: 48}  # that are looked at
MOST_CELLS = 2**16  # of a set that is looked at
ROUGHLY = 1e-4  # of the rows, to which sets are joined for a look
WIDER = 1.1  # times the measured size, as errors have longer tails than the normal ones they are taken for
GROUPS = (1, 2, 4, 8, 16, 32, 64, 128)  # in which sets are taken, besides each by itself
CLEAR = 0.25  # of what is claimed of a group, as which its noise may be to take sets in more groups
LEAST, MOST = 0.5, 1e4  # factors on the variances of what was measured, and of pairs
BY_CHANCE = 1.0  # the least spread of what nobody measured: that of rows which come independently, in a fitting model


@dataclass(frozen=True, eq=False)
class Checked:
    """Tables with errors of the size that was measured, spreads of what was not measured, and what was handed out."""

    tables: dict[Places, Table]
    spreads: Spreads
    measured: tuple[Measurement, ...]


def check(
    curator: Curator, schema: Schema, tables: Mapping[Places, Table], budget: Budget, pairs: Mapping[Places, Scaled] = NONE
) -> Checked:
    """Measure how far answers along two, three and four attributes are off, and size the errors by it.

    pairs: what is known of how far blocks of pairs are off.
    """
    looked_at, names = looks(schema), schema.domain.names
    # What nobody looks at deviates as rows do that come independently, so that no interval is of noise alone.
    known, spreads = dict(tables), [0.0] + [1.0] * (max(*looked_at, 3) - 1 if looked_at else 2)
    for places, one in tables.items():
        if len(places) == 1:  # its noise is known, and what smoothing does to it is little
            known[places] = replace(one, model=one.model + (WIDER**2 - 1.0) * one.noise)
    if not looked_at:
        return Checked(known, Spreads(tuple(spreads)), ())
    single: dict[Places, float] = {}
    blocks: dict[Places, Scaled] = dict(pairs)
    by_order: dict[int, Scaled] = {}
    measured: list[Measurement] = []
    shares = iter(budget.split(*(weight for order in looked_at for weight in LOOKS[order].values())))
    for order, sets in looked_at.items():
        content = Margins(schema, {"count": known}, {"count": Spreads(tuple(spreads), single, by_order, blocks)})
        answers = {places: _joined(content, places) for places in sets}
        of_blocks: dict[int, list[float]] = {}
        for level in LOOKS[order]:
            share, doubts, guesses = next(shares), [], []
            for places, answer in answers.items():
                kinds = _kinds(content, places, level)
                seen = sum_kinds(answer, list(kinds.values()))
                doubts.append(_doubt(content, kinds, seen))
                parts = None if level == LEVELS else _parts(list(kinds.values()))
                guesses.append(([names[place] for place in places], _whole(seen), parts))
            groups = _groups(doubts, share, curator)
            measured.append(curator.measure_margin_misfits(guesses, share, groups))
            scales = _scales(measured[-1], groups, doubts)
            if level < LEVELS:
                of_blocks[level] = scales
                continue
            for places, scale in zip(sets, scales, strict=True):
                if places in tables:
                    one = known[places]
                    known[places] = replace(one, noise=scale * one.noise, model=scale * one.model)
                else:
                    single[places] = max(scale, BY_CHANCE)
        seen = [single[places] for places in sets if places in single]
        if seen:
            spreads[order - 1] = float(np.mean(seen))
        if of_blocks:
            found = {p: _scaled(p, place, of_blocks, known, single) for place, p in enumerate(sets)}
            blocks |= found
            if unmeasured := [found[places].model for places in sets if places in single]:
                by_order[order] = Scaled((0.0,) * LEVELS, tuple(np.mean(unmeasured, axis=0).tolist()))
    return Checked(known, Spreads(tuple(spreads), single, by_order, blocks), tuple(measured))


def _scales(found: Measurement, groups: Whole, doubts: Sequence[Doubt]) -> list[float]:
    """For every set, the factor on its doubtful variances that its group's misfit asks for."""
    error = float(np.sqrt(found.noise.variance))
    labels, by_group = groups.tolist(), []
    for group, misfit in enumerate(found.answers.tolist()):
        members = [doubt for doubt, label in zip(doubts, labels, strict=True) if label == group]
        by_group.append(scale_of(members, WIDER * misfit, error, LEAST, MOST))
    return [by_group[label] for label in labels]


def looks(schema: Schema) -> dict[int, list[Places]]:
    """Which sets of attributes are looked at, by their number; none where there is one attribute."""
    return {order: sets for order in LOOKS if (sets := _sets(schema.domain.shape, order))}


def _sets(shape: Sequence[int], order: int) -> list[Places]:
    """Sets of so many axes, evenly taken from all that are not too large to look at."""
    number, most = comb(len(shape), order), MOST_SETS[order]
    step = max(1, number // (4 * most))
    every = islice(combinations(range(len(shape)), order), 0, None, step)
    small = [places for places in every if prod(shape[place] for place in places) <= MOST_CELLS]
    return small[:: -(-len(small) // most)] if small else []


def _joined(content: Margins, places: Places) -> Floats:
    return content.joined({place: np.arange(content.domain.shape[place]) for place in places}, ROUGHLY)["count"]


def _whole(answer: Floats) -> Whole:
    return np.rint(answer).astype(np.int64).reshape(-1)


def _kinds(content: Margins, places: Places, level: int) -> dict[int, Codes]:
    """The blocks of a level along some axes, or all values."""
    every = content.every(places)
    return every if level == LEVELS else {place: content.blocks(place)[level] for place in places}


def _parts(kinds: Sequence[Codes]) -> Codes:
    """The block of every cell, in the order of cells."""
    found: Codes = np.zeros(1, dtype=np.int64)
    for kind in kinds:
        found = (found[:, None] * (int(kind.max()) + 1) + kind).reshape(-1)
    return found


def _doubt(content: Margins, kinds: Mapping[int, Codes], answer: Floats) -> Doubt:
    """What is claimed of the cells of one set: the errors of smaller sets as sized by now, its own in doubt."""
    counts, axes = np.maximum(answer, 0.0), tuple(range(len(kinds)))
    found = content.errors("count", kinds, {"count": counts})
    errors = found.noise + found.model
    sure, own = errors.without(axes).of_cells(), errors.alone(axes).of_cells()
    return Doubt(np.maximum(sure, 0.0), own, counts + np.rint(counts))


def _scaled(
    places: Places,
    place: int,
    scales: Mapping[int, Sequence[float]],
    known: Mapping[Places, Table],
    single: Mapping[Places, float],
) -> Scaled:
    """The spreads of a set's blocks, by the factors that were found; as cells have them, where none was.

    place: of the set among those that were looked at.
    """
    factors = [scales[level][place] if level in scales else None for level in range(LEVELS)]
    if places not in known:
        spread = single[places]
        return Scaled((0.0,) * LEVELS, tuple(spread if each is None else each for each in factors))
    one = known[places]
    rows = max(float(one.estimate.sum()), 1.0)
    noise, model = float(one.noise.sum()) / rows, float(one.model.sum()) / rows
    return Scaled(*(tuple(of * (1.0 if each is None else each) for each in factors) for of in (noise, model)))


def _groups(doubts: Sequence[Doubt], share: Budget, curator: Curator) -> Whole:
    """As many groups as the noise allows, of sets whose errors look alike."""
    sizes = np.array([doubt.size(1.0) for doubt in doubts])
    order = np.argsort(sizes, kind="stable")
    best: Whole = np.zeros(len(doubts), dtype=np.int64)
    for number in (*GROUPS, len(doubts)):
        if number > len(doubts):
            continue
        groups = np.empty(len(doubts), dtype=np.int64)
        groups[order] = np.arange(len(doubts)) * number // len(doubts)
        noise, _ = noise_of_margins(groups, number, share, curator.charge.contributions)
        if np.sqrt(noise.variance) <= CLEAR * np.bincount(groups, sizes).min():
            best = groups
    return best
