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
from sfumato.models.margins.table import Places, along, spread_out, sum_kinds, sum_out

ALL = LEVELS  # every value of an attribute by itself, where levels are halves, quarters and so on
At = tuple[int, int]  # an attribute, and the level of blocks that its values are grouped into


@dataclass(frozen=True, eq=False)
class Claims:
    """Claimed variances of counts by the errors of a content of marginals, by set of attributes and level of blocks.

    single: in single precision.
    """

    content: Margins
    single: bool = False
    _bases: dict[At, Floats] = field(init=False, default_factory=dict)
    _factors: dict[At, tuple[Floats, Floats]] = field(init=False, default_factory=dict)
    _levels: dict[At, Floats] = field(init=False, default_factory=dict)
    _known: dict[tuple[At, ...], Floats] = field(init=False, default_factory=dict)
    _blocks: dict[tuple[At, ...], Floats] = field(init=False, default_factory=dict)
    _moves: dict[tuple[At, int], Floats] = field(init=False, default_factory=dict)
    _pairs: dict[tuple[tuple[At, ...], int], Floats] = field(init=False, default_factory=dict)
    _shifts: dict[tuple[At, ...], Floats] = field(init=False, default_factory=dict)

    def of(self, places: Places, levels: Sequence[int], counts: Floats) -> tuple[Floats, Floats]:
        """Variances by cell from the errors of smaller sets and of blocks, and from the set's own cells.

        levels: of each axis. counts: expected rows by cell. Single cells are without errors of blocks, which hardly
        reach them.
        """
        at, counts = tuple(zip(places, levels, strict=True)), self._rounded(counts)
        last, off = self.base(at[-1]), self._level(at[-1]) - self.base(at[-1])
        total = self.content.tables["count"][()]
        variance = float(total.noise) + float(total.model)
        within = self._closed(at[:-1], len(at) - 1, at, counts).reshape(-1, 1)
        left = np.concatenate([within, self._shifted(at[:-1])], axis=1)  # of the last axis, and of the total
        right = np.stack([last**2, variance * last**2, 2.0 * variance * last * off, variance * off**2])
        sure = (left @ right).reshape(counts.shape)
        self._add_smaller(sure, at, len(at) - 1, at, counts)
        if any(level != ALL for level in levels):
            sure += self._of_blocks(at)
        return np.maximum(sure, 0.0, out=sure), self._of_cells(at, at, counts)

    def _rounded(self, values: Floats) -> Floats:
        """Numbers in the precision that is kept."""
        return np.asarray(values, dtype=np.float32 if self.single else np.float64)

    def _closed(self, key: tuple[At, ...], ahead: int, at: tuple[At, ...], counts: Floats) -> Floats:
        """A_T of a set, and of the sets without one of its first axes, times squared bases, and so on.

        A set without its axis x counts sets in which an axis before x is left out. So each set inside one is there
        once, and what many tables share is worked out once.
        """
        if len(key) == 1:
            return self._one_way(key[0])
        if (key, ahead) in self._pairs:
            return self._pairs[key, ahead]
        result = self._of_cells(key, at, counts)
        if any(level != ALL for _, level in at):
            result = result + self._of_blocks(key)
        elif ahead:
            result = result.copy()
        self._add_smaller(result, key, ahead, at, counts)
        if len(key) == 2:
            self._pairs[key, ahead] = result
        return result

    def _add_smaller(self, result: Floats, key: tuple[At, ...], ahead: int, at: tuple[At, ...], counts: Floats) -> None:
        """Add what sets without one of the first axes have, each times the squared base of that axis."""
        axes = tuple(range(len(key)))
        for axis in range(ahead):
            inside = self._closed(key[:axis] + key[axis + 1 :], axis, at, counts)
            others = axes[:axis] + axes[axis + 1 :]
            result += spread_out(inside, others, axes) * spread_out(self._centring(key[axis])[1], (axis,), axes)

    def base(self, at: At) -> Floats:
        """Share of each class of values in the rows of an attribute, (classes,)."""
        if at not in self._bases:
            rows = sum_kinds(np.maximum(self.content.tables["count"][at[0],].estimate, 0.0), [self._kind(at)])
            kind, total = self._kind(at), rows.sum()
            self._bases[at] = self._rounded(rows / total if total > 0 else np.bincount(kind) / len(kind))
        return self._bases[at]

    def _kind(self, at: At) -> Codes:
        """Class of every value of an attribute."""
        return self.content.blocks[at[0]][at[1]]

    def _level(self, at: At) -> Floats:
        """Derivative of a one-way margin by the total, by class of values, (classes,)."""
        if at not in self._levels:
            estimate = self.content.tables["count"][at[0],].estimate
            self._levels[at] = self._rounded(sum_kinds(level_of(estimate), [self._kind(at)]))
        return self._levels[at]

    def _shifted(self, key: tuple[At, ...]) -> Floats:
        """Products that the total shifts cells by: squared, crossed and squared, (cells, 3); see `of`.

        They are the product of bases with its derivative by levels, and that product alone.
        """
        if key not in self._shifts:
            product, moved = np.ones(1), np.zeros(1)
            for each in key:
                base, off = self.base(each), self._level(each) - self.base(each)
                moved = (moved[:, None] * base + product[:, None] * off).reshape(-1)
                product = (product[:, None] * base).reshape(-1)
            moved += product
            self._shifts[key] = self._rounded(np.stack([moved**2, moved * product, product**2], axis=1))
        return self._shifts[key]

    def _one_way(self, at: At) -> Floats:
        """A_T of one attribute: centred by levels; values without rows do not follow the total."""
        if (at,) not in self._known:
            table, level = self.content.tables["count"][at[0],], self._level(at)
            every = table.noise + table.model
            loose = sum_kinds(every * (table.estimate <= 0.0), [self._kind(at)])
            held = sum_kinds(every, [self._kind(at)]) - loose
            self._known[at,] = self._rounded((1.0 - 2.0 * level) * held + level**2 * held.sum() + loose)
        return self._known[at,]

    def _of_cells(self, key: tuple[At, ...], at: tuple[At, ...], counts: Floats) -> Floats:
        """A_T of a set from its cells: of its table, or by its spread if it has none. counts: along the axes `at`."""
        if key in self._known:
            return self._known[key]
        within = tuple(place for place, _ in key)
        if (table := self.content.tables["count"].get(within)) is not None:
            variances = sum_kinds(table.noise + table.model, [self._kind(each) for each in key])
            self._known[key] = self._centred(self._rounded(variances), key)
            return self._known[key]
        axes = tuple(axis for axis, each in enumerate(at) if each in key)
        rows = counts if key == at else sum_out(counts, axes, range(counts.ndim))
        return self._centred(self.content.spreads["count"].of(within) * rows, key)

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
            self._blocks[key] = self._rounded(result)
        return self._blocks[key]

    def _move(self, at: At, level: int) -> Floats:
        """Squares of what each class of values is of every block, less what it is of all rows, (classes, blocks)."""
        if (at, level) not in self._moves:
            shares = self.content.share_of_blocks(at[0], self._kind(at), level)
            self._moves[at, level] = (shares.T - self.base(at)[:, None]) ** 2
        return self._moves[at, level]
