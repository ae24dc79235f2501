"""Estimates of marginals with structural zeros: impossible combinations, and functions of finer attributes.

One-way margins are made to agree with the rules (`coherent`): a coarser attribute's margin is the sum of the finer
one's, both pooled by precision; margins that no table with these zeros has are moved to the nearest that one has.
Pairs start from quasi-independence (Goodman 1968), the product of margins with zeros, fitted to the margins. A coarser
attribute's tables are sums of the finer one's where that was measured; where only the coarser was, the finer one is
independent of the rest within each value of the coarser (`by_functions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain.structural import Structure
from sfumato.models.margins.table import Noisy, Places, Table, along

ROUNDS = 500  # of fitting a table with zeros to its margins, which takes more than one without
CLOSE = 1e-7  # of the rows: nearer than this margins agree
SWEEPS = 20  # over the pairs whose margins do not agree with their zeros


def fitted_with_zeros(table: Floats, rows: Floats, columns: Floats, possible: Flags) -> Floats:
    """Proportional fitting of a pair with zeros to its margins, as far as they allow it (Deming, Stephan 1940)."""
    fitted: Floats = np.maximum(table, 0.0) * possible
    empty = possible & (fitted <= 0.0) & (rows > 0.0)[:, None] & (columns > 0.0)
    fitted = fitted + 1e-9 * max(float(rows.sum()), 1.0) / table.size * empty
    for _ in range(ROUNDS):
        now = fitted.sum(axis=1)
        fitted *= np.where(now > 0.0, rows / np.maximum(now, 1e-300), 0.0)[:, None]
        now = fitted.sum(axis=0)
        if float(np.abs(now - columns).sum()) <= CLOSE * float(rows.sum()):
            break
        fitted *= np.where(now > 0.0, columns / np.maximum(now, 1e-300), 0.0)
    return fitted


def zeros_of_pairs(structure: Structure) -> dict[Places, Flags]:
    """Flags of possible cells of each pair that has impossible ones."""
    axes = sorted(structure.axes)
    pairs = {(a, b): structure.possible((a, b)) for a in axes for b in axes if a < b}
    return {pair: flags for pair, flags in pairs.items() if flags is not None}


def coherent(
    structure: Structure, total: float, margins: Sequence[Floats], unsure: Sequence[Floats]
) -> tuple[list[Floats], list[Floats]]:
    """One-way margins that agree with all rules, and variances of their values.

    unsure: variances by value. Where an attribute follows from another, sums over the finer one's values are pooled with
    the coarser one's counts by precision.
    """
    result, errors = [each.copy() for each in margins], [each.copy() for each in unsure]
    for place in structure.axes:
        flags = structure.possible((place,))
        if flags is not None:
            held = np.where(flags, result[place], 0.0)
            result[place] = held * (total / held.sum()) if held.sum() > 0 else flags * total / flags.sum()
            errors[place] = errors[place] * flags
    for function in structure.ordered:  # the coarsest first
        fine, coarse, image = result[function.fine], result[function.coarse], function.image
        sums, number = np.bincount(image, fine, len(coarse)), np.bincount(image, minlength=len(coarse))
        mine = np.bincount(image, errors[function.fine], len(coarse))
        its = errors[function.coarse]
        weight = np.where(mine + its > 0, its / np.maximum(mine + its, 1e-300), 1.0)  # of the sums
        pooled = np.maximum(weight * sums + (1.0 - weight) * coarse, 0.0) * (number > 0)
        pooled *= total / pooled.sum() if pooled.sum() > 0 else 1.0
        even = pooled[image] / np.maximum(number, 1)[image]
        result[function.fine] = np.where(sums[image] > 0, fine * (pooled / np.maximum(sums, 1e-300))[image], even)
        # Within a group values keep their errors; those of the group's sum are shared out.
        ratio = np.where(mine > 0, weight, 1.0)
        errors[function.fine] = errors[function.fine] * (1.0 - (1.0 - ratio[image]) / np.maximum(number, 1)[image])
        errors[function.coarse] = weight * mine
        result[function.coarse] = pooled
    _made_feasible(structure, result)
    for function in reversed(structure.ordered):
        result[function.coarse] = np.bincount(function.image, result[function.fine], len(result[function.coarse]))
    return result, errors


def _made_feasible(structure: Structure, margins: list[Floats]) -> None:
    """Move margins, in place, to those of a table with the zeros of each pair, where there is none with theirs."""
    zeros = {pair: flags for pair, flags in zeros_of_pairs(structure).items() if structure.essential(pair) == pair}
    for _ in range(SWEEPS):
        moved = 0.0
        for (a, b), flags in zeros.items():
            rows, columns = margins[a], margins[b]
            total = max(float(rows.sum()), 1e-9)
            table = fitted_with_zeros(np.outer(rows, columns) / total, rows, columns, flags)
            now = table.sum(axis=1)
            off = float(np.abs(now - rows).sum() + np.abs(table.sum(axis=0) - columns).sum())
            if off > 1e-5 * total and table.sum() > 0:
                other = table * np.where(now > 0.0, rows / np.maximum(now, 1e-300), 0.0)[:, None]
                middle = table / table.sum() + other / max(float(other.sum()), 1e-300)
                margins[a], margins[b] = (middle.sum(axis=axis) * total / 2.0 for axis in (1, 0))
                moved = max(moved, off / total)
        if moved <= 1e-5:
            break


def with_zeros(noisy: Noisy, possible: Flags | None) -> Noisy:
    """Noisy table with 0 in impossible cells, and the mean variance of its cells."""
    numbers, variance = noisy
    return noisy if possible is None else (np.where(possible, numbers, 0.0), variance * float(possible.mean()))


def respecting(tables: Mapping[Places, Table], structure: Structure) -> dict[Places, Table]:
    """Tables without numbers or errors in impossible cells."""
    result = dict(tables)
    for places, table in tables.items():
        flags = structure.possible(places) if len(places) > 1 else None
        if flags is not None:
            result[places] = replace(table.errors_of(flags), estimate=table.estimate * flags)
    return result


def by_functions(tables: Mapping[Places, Table], structure: Structure, told: Sequence[Places]) -> dict[Places, Table]:
    """Pairs of attributes that follow from others: sums of the finer one's, or the finer one's by the coarser.

    told: pairs of which cells were measured.
    """
    result, measured = dict(tables), {*told}
    pairs = [places for places in tables if len(places) == 2]
    sizes = {places[0]: table.estimate.size for places, table in tables.items() if len(places) == 1}
    for function in structure.ordered:  # the coarsest first: downwards, where only the coarser was measured
        for pair in pairs:
            if function.fine in pair and pair not in measured and structure.essential(pair) == pair:
                other = pair[0] if pair[1] == function.fine else pair[1]
                above = tuple(sorted((other, function.coarse)))
                if function.coarse != other and above in measured:
                    result[pair] = _below(result, function.image, pair, above, function.fine)
                    measured.add(pair)
    for function in reversed(structure.ordered):  # the finest first: upwards
        for pair in pairs:
            if function.coarse in pair:
                other = pair[0] if pair[1] == function.coarse else pair[1]
                below = tuple(sorted((other, function.fine)))
                if function.fine == other:
                    flags, margin = function.possible(), result[function.fine,].estimate
                    diagonal = flags * (margin[:, None] if function.fine < function.coarse else margin)
                    result[pair] = Table(pair, diagonal, np.zeros(flags.shape), np.zeros(flags.shape))
                elif below in result:
                    result[pair] = _above(result[below], function.image, pair, below.index(function.fine), sizes)
    return result


def _above(table: Table, image: Codes, pair: Places, axis: int, sizes: Mapping[int, int]) -> Table:
    """Pair of a coarser attribute: sums of the finer one's, which is an axis of `table`."""
    (other,) = (place for place in pair if place in table.places)
    coarse = next(place for place in pair if place != other)
    member = np.zeros((sizes[coarse], len(image)))
    member[image, np.arange(len(image))] = 1.0
    parts = (along(member, part, axis) for part in (table.estimate, table.noise, table.model))
    return Table(pair, *(part if axis == pair.index(coarse) else part.T for part in parts))


def _below(tables: Mapping[Places, Table], image: Codes, pair: Places, above: Places, fine: int) -> Table:
    """Pair of a finer attribute from that of the coarser: independent within each value of the coarser."""
    table, margin = tables[above], tables[fine,].estimate
    coarse_first = above[0] not in pair
    parts = [part if coarse_first else part.T for part in (table.estimate, table.noise, table.model)]
    rows = np.maximum(np.bincount(image, margin, len(parts[0])), 1e-300)
    share = (margin / rows[image])[:, None]
    estimate = parts[0][image] * share
    noise, model = parts[1][image] * share**2, parts[2][image] * share**2 + estimate
    made = (estimate, noise, model) if pair[0] == fine else (estimate.T, noise.T, model.T)
    return Table(pair, *made)
