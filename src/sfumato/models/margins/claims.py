"""Claimed error variances of the cells of many sets of attributes, before they are calibrated.

By the error model (table.py) the variance of a cell is a sum over the sets T of the axes of a table:

    variance(cell) = sum over T of  A_T(cell along T) * product over other axes a of b_a(cell)^2

and A_T, the variances of T centred along its axes and those of its blocks, depends on how values of T are grouped and
not on the company in which T is asked for. So it is worked out once for all tables that contain T. The error of the
total shifts every margin by its level: its part is v * (product of b + sum over a of (level_a - b_a) * other b)^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.models.margins.content import Margins
from sfumato.models.margins.joining import level_of
from sfumato.models.margins.scales import LEVELS
from sfumato.models.margins.table import Places, along, spread_out, subsets, sum_kinds, sum_out

ALL = LEVELS  # every value of an attribute by itself, where levels are halves, quarters and so on
At = tuple[int, int]  # an attribute, and the level of blocks that its values are grouped into


@dataclass(frozen=True, eq=False)
class Claims:
    """Claimed variances of counts by the errors of a content of marginals, by set of attributes and level of blocks."""

    content: Margins
    _bases: dict[At, Floats] = field(init=False, default_factory=dict)
    _factors: dict[At, tuple[Floats, Floats]] = field(init=False, default_factory=dict)
    _levels: dict[At, Floats] = field(init=False, default_factory=dict)
    _known: dict[tuple[At, ...], Floats] = field(init=False, default_factory=dict)
    _blocks: dict[tuple[At, ...], Floats] = field(init=False, default_factory=dict)
    _moves: dict[tuple[At, int], Floats] = field(init=False, default_factory=dict)

    def of(self, places: Places, levels: Sequence[int], counts: Floats) -> tuple[Floats, Floats]:
        """Variances by cell from the errors of smaller sets and of blocks, and from the set's own cells.

        levels: of each axis. counts: expected rows by cell. Single cells are without errors of blocks, which hardly
        reach them.
        """
        at, axes = tuple(zip(places, levels, strict=True)), tuple(range(len(places)))
        single = all(level == ALL for level in levels)
        parts: dict[Places, Floats] = {}
        for part in subsets(axes)[1:]:
            key = tuple(at[axis] for axis in part)
            if len(part) == 1:
                parts[part] = self._one_way(key[0])
                continue
            here = [] if part == axes else [self._of_cells(key, part, counts)]
            if not single:
                here.append(self._of_blocks(key))
            if here:
                parts[part] = here[0] if len(here) == 1 else here[0] + here[1]
        sure = self._gathered(parts, at)
        sure += self._of_total(at)
        return np.maximum(sure, 0.0, out=sure), self._of_cells(at, axes, counts)

    def base(self, at: At) -> Floats:
        """Share of each class of values in the rows of an attribute, (classes,)."""
        if at not in self._bases:
            rows = sum_kinds(np.maximum(self.content.tables["count"][at[0],].estimate, 0.0), [self._kind(at)])
            kind, total = self._kind(at), rows.sum()
            self._bases[at] = rows / total if total > 0 else np.bincount(kind) / len(kind)
        return self._bases[at]

    def _kind(self, at: At) -> Codes:
        """Class of every value of an attribute."""
        return self.content.blocks[at[0]][at[1]]

    def _level(self, at: At) -> Floats:
        """Derivative of a one-way margin by the total, by class of values, (classes,)."""
        if at not in self._levels:
            estimate = self.content.tables["count"][at[0],].estimate
            self._levels[at] = sum_kinds(level_of(estimate), [self._kind(at)])
        return self._levels[at]

    def _gathered(self, parts: dict[Places, Floats], at: Sequence[At]) -> Floats:
        """Sum of all parts, each times squared bases: every part is added to one with an axis more, the smallest first.

        So few passes go over all cells.
        """
        axes = tuple(range(len(at)))
        for part in subsets(axes)[1:-1]:
            if part not in parts:
                continue
            axis = next(each for each in axes if each not in part)
            larger = tuple(sorted((*part, axis)))
            spread = spread_out(parts[part], part, larger) * spread_out(self._centring(at[axis])[1], (axis,), larger)
            if larger in parts:
                spread += parts[larger]
            parts[larger] = spread
        return parts[axes]

    def _of_total(self, at: Sequence[At]) -> Floats:
        """Variances of cells from the error of the total."""
        table = self.content.tables["count"][()]
        product, moved = np.ones(1), np.zeros(1)  # of bases, and of its derivative by levels
        for each in at[:-1]:
            base, off = self.base(each), self._level(each) - self.base(each)
            moved = (moved[:, None] * base + product[:, None] * off).reshape(-1)
            product = (product[:, None] * base).reshape(-1)
        last, off = self.base(at[-1]), self._level(at[-1]) - self.base(at[-1])
        shift = np.stack([product + moved, product], axis=1) @ np.stack([last, off])
        np.square(shift, out=shift)
        shift *= float(table.noise) + float(table.model)
        return shift.reshape([len(self.base(each)) for each in at])

    def _one_way(self, at: At) -> Floats:
        """A_T of one attribute: centred by levels; values without rows do not follow the total."""
        if (at,) not in self._known:
            table, level = self.content.tables["count"][at[0],], self._level(at)
            every = table.noise + table.model
            loose = sum_kinds(every * (table.estimate <= 0.0), [self._kind(at)])
            held = sum_kinds(every, [self._kind(at)]) - loose
            self._known[at,] = (1.0 - 2.0 * level) * held + level**2 * held.sum() + loose
        return self._known[at,]

    def _of_cells(self, key: tuple[At, ...], part: Places, counts: Floats) -> Floats:
        """A_T of a set from its cells: of its table, or by its spread if it has none."""
        if key in self._known:
            return self._known[key]
        within = tuple(place for place, _ in key)
        if (table := self.content.tables["count"].get(within)) is not None:
            variances = sum_kinds(table.noise + table.model, [self._kind(each) for each in key])
            self._known[key] = self._centred(variances, key)
            return self._known[key]
        spread = self.content.spreads["count"].of(within)
        return self._centred(spread * sum_out(counts, part, range(counts.ndim)), key)

    def _centred(self, variances: Floats, key: Sequence[At]) -> Floats:
        """Variances of cells after centring along every axis by its base."""
        axes = tuple(range(len(key)))
        for axis, each in enumerate(key):
            kept, shared = self._centring(each)
            summed = np.add.reduce(variances, axis=axis, keepdims=True)
            variances = variances * spread_out(kept, (axis,), axes)
            variances += spread_out(shared, (axis,), axes) * summed
        return variances

    def _centring(self, at: At) -> tuple[Floats, Floats]:
        """Factors 1 - 2 b on a variance and b^2 on the sum of all, by which an axis of base b is centred."""
        if at not in self._factors:
            base = self.base(at)
            self._factors[at] = 1.0 - 2.0 * base, base**2
        return self._factors[at]

    def _of_blocks(self, key: tuple[At, ...]) -> Floats:
        """A_T of a set from errors of its blocks at all scales."""
        if key not in self._blocks:
            result = np.zeros([len(self.base(each)) for each in key])
            for levels, noise, model in self.content.block_variances("count", tuple(place for place, _ in key)):
                variances = noise + model
                for axis, (each, level) in enumerate(zip(key, levels, strict=True)):
                    variances = along(self._move(each, level), variances, axis)
                result += variances
            self._blocks[key] = result
        return self._blocks[key]

    def _move(self, at: At, level: int) -> Floats:
        """Squares of what each class of values is of every block, less what it is of all rows, (classes, blocks)."""
        if (at, level) not in self._moves:
            shares = self.content.share_of_blocks(at[0], self._kind(at), level)
            self._moves[at, level] = (shares.T - self.base(at)[:, None]) ** 2
        return self._moves[at, level]
