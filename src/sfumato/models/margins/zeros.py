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
from sfumato.domain.structural import Function, Structure
from sfumato.models.margins.table import Noisy, Places, Table, along, guess_of, independent

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


def guess_with_zeros(guessed: Sequence[Floats], pair: Places, structure: Structure) -> Floats:
    """Whole numbers nearest to the quasi-independent table of a pair, as `table.guess_of` without zeros."""
    possible = structure.possible(pair)
    if possible is None:
        return guess_of(guessed, pair)
    margins = [guessed[1 + place] for place in pair]
    product = independent(margins, float(guessed[0][0]))
    return np.asarray(np.rint(fitted_with_zeros(product, margins[0], margins[1], possible)))


def zeros_of_pairs(structure: Structure) -> dict[Places, Flags]:
    """Flags of possible cells of each pair that has impossible ones."""
    axes = sorted(structure.axes)
    pairs = {(a, b): structure.possible((a, b)) for a in axes for b in axes if a < b}
    return {pair: flags for pair, flags in pairs.items() if flags is not None}


def coherent(
    structure: Structure, total: float, margins: Sequence[Floats], unsure: Sequence[Floats]
) -> tuple[list[Floats], list[Floats]]:
    """One-way margins that agree with all rules, and variances of their values.

    unsure: variances by value. Where an attribute follows from another, sums over the finer one's values are pooled
    with the coarser one's counts by precision.
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
        sums = np.bincount(function.image, result[function.fine], len(result[function.coarse]))
        result[function.coarse] = np.asarray(sums, dtype=np.float64)
    return result, errors


def pooled_errors(tables: Mapping[Places, Table], structure: Structure) -> dict[Places, Table]:
    """One-way tables of attributes that follow from others, with their noise pooled with that of the finer sums."""
    result: dict[Places, Table] = {}
    for function in reversed(structure.ordered):  # the finest first
        fine, coarse = (result.get((place,), tables[place,]) for place in (function.fine, function.coarse))
        sums = np.bincount(function.image, fine.noise, len(coarse.noise))  # 0 for a value that nothing leads to
        noise = sums * coarse.noise / np.maximum(sums + coarse.noise, 1e-300)
        result[function.coarse,] = replace(coarse, noise=noise)
    return result


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


def with_zeros(noisy: Noisy, possible: Flags) -> Noisy:
    """Noisy table with 0 in impossible cells, and the mean variance of its cells."""
    numbers, variance = noisy
    return np.where(possible, numbers, 0.0), variance * float(possible.mean())


def respecting(tables: Mapping[Places, Table], structure: Structure) -> dict[Places, Table]:
    """Tables without numbers or errors in impossible cells."""
    result = dict(tables)
    for places, table in tables.items():
        flags = structure.possible(places) if len(places) > 1 else None
        if flags is not None:
            result[places] = replace(table.errors_of(flags), estimate=table.estimate * flags)
    return result


def seen_by_functions(seen: Mapping[Places, Noisy], structure: Structure, axes: int) -> dict[Places, Noisy]:
    """Noisy pairs of attributes that follow from finer ones: what was measured, pooled with sums of the finer one's.

    seen: noisy pairs. A set that is measured never holds an attribute and one that follows from it, so noises of both
    are independent; of several finer pairs the most precise is taken.
    """
    steps, result = {each.coarse: each for each in structure.functions}, dict(seen)
    done: set[Places] = set()

    def of(pair: Places) -> Noisy | None:
        """Noisy table of one pair, with those below it worked out first."""
        if pair in done:
            return result.get(pair)
        done.add(pair)
        candidates: list[Noisy] = []
        for place in pair:
            each, (other,) = steps.get(place), (one for one in pair if one != place)
            if each is None or structure.essential((each.fine, other)) != (each.fine, other):
                continue
            below: Places = (min(each.fine, other), max(each.fine, other))
            noisy = of(below)
            if noisy is not None:
                numbers = _gathered(noisy[0], below.index(each.fine), each.image, each.values)
                numbers = numbers if below.index(each.fine) == pair.index(place) else numbers.T
                candidates.append((numbers, noisy[1] * len(each.image) / max(len(np.unique(each.image)), 1)))
        if candidates:
            best, own = min(candidates, key=lambda one: one[1]), result.get(pair)
            if own is None:
                result[pair] = best
            else:
                weight = best[1] / (best[1] + own[1])
                result[pair] = weight * own[0] + (1.0 - weight) * best[0], own[1] * weight
        return result.get(pair)

    for coarse in steps:
        for other in range(axes):
            pair = (min(coarse, other), max(coarse, other))
            if coarse != other and structure.essential(pair) == pair:
                of(pair)
    return {pair: result[pair] for pair in sorted(result)}


def by_functions(tables: Mapping[Places, Table], structure: Structure, told: Sequence[Places]) -> dict[Places, Table]:
    """Pairs of finer attributes, fitted to those of what follows from them; the pair of both follows from the finer.

    told: pairs of which cells were measured, or sums of them. A pair of a finer attribute that was not is independent
    within each value of the coarser.
    """
    result, measured = dict(tables), {*told}
    for function in structure.ordered:  # the coarsest first
        fine, coarse = function.fine, function.coarse
        for other in (places[0] for places in tables if len(places) == 1):
            pair: Places = (min(fine, other), max(fine, other))
            above: Places = (min(coarse, other), max(coarse, other))
            if other == coarse:
                flags, margin = function.possible(), result[fine,].estimate
                diagonal = flags * (margin[:, None] if fine < coarse else margin)
                result[pair] = Table(pair, diagonal, np.zeros(flags.shape), np.zeros(flags.shape))
            elif other != fine and structure.essential(above) == above and structure.essential(pair) == pair:
                if pair not in measured and above in measured:
                    result[pair] = _below(result, function, pair, above)
                    measured.add(pair)
                result[pair] = _fitted_to(result, function, pair, above)
    for function in reversed(structure.ordered):  # of two steps in a row, such as county and country
        for coarse, fine in ((pair, each) for pair in structure.above(function.coarse) for each in (function.fine,)):
            pair = (min(coarse, fine), max(coarse, fine))
            image = structure.behind(coarse, (fine,))[1]
            flags = image[:, None] == np.arange(structure.shape[coarse])
            diagonal = flags * result[fine,].estimate[:, None]
            diagonal = diagonal if fine < coarse else diagonal.T
            result[pair] = Table(pair, diagonal, np.zeros(diagonal.shape), np.zeros(diagonal.shape))
    return result


def _gathered(table: Floats, axis: int, image: Codes, values: int) -> Floats:
    """Sums of a table over the values of one axis that a function takes together."""
    member = np.zeros((values, len(image)))
    member[image, np.arange(len(image))] = 1.0
    return along(member, table, axis)


def _below(tables: Mapping[Places, Table], function: Function, pair: Places, above: Places) -> Table:
    """Pair of a finer attribute from that of the coarser: independent within each value of the coarser.

    Errors of the coarser pair are shared out so that those of a group's values add up to them.
    """
    table, margin, image = tables[above], tables[function.fine,].estimate, function.image
    parts = [part if above[0] == function.coarse else part.T for part in (table.estimate, table.noise, table.model)]
    rows = np.maximum(np.bincount(image, margin, len(parts[0])), 1e-300)
    share = (margin / rows[image])[:, None]
    estimate, noise, model = (part[image] * share for part in parts)
    made = (estimate, noise, model + estimate)
    return Table(pair, *(made if pair[0] == function.fine else (part.T for part in made)))


def _fitted_to(tables: Mapping[Places, Table], function: Function, pair: Places, above: Places) -> Table:
    """Pair of a finer attribute, fitted to that of the coarser and to its own margin."""
    table, image = tables[pair], function.image
    fitted = (table.estimate if pair[0] == function.fine else table.estimate.T).copy()
    wanted = tables[above].estimate if above[0] == function.coarse else tables[above].estimate.T
    margin = tables[function.fine,].estimate
    for _ in range(ROUNDS):
        now = _gathered(fitted, 0, image, len(wanted))
        fitted *= np.where(now > 0.0, wanted / np.maximum(now, 1e-300), 0.0)[image]
        rows = fitted.sum(axis=1)
        if float(np.abs(rows - margin).sum()) <= CLOSE * max(float(margin.sum()), 1e-9):
            break
        fitted *= np.where(rows > 0.0, margin / np.maximum(rows, 1e-300), 0.0)[:, None]
    return replace(table, estimate=fitted if pair[0] == function.fine else fitted.T)
