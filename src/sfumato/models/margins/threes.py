"""Maximum-entropy tables of three attributes with known pairs, many at once (iterative proportional fitting).

Proportional fitting keeps a table of the form f(a, b) g(a, c) h(b, c) (Deming, Stephan 1940), so its margin along a and
b is f times the matrix product g h': no round goes over all cells. Tables of similar shapes are stacked, filled up with
zeros, and leave the stack when they meet their margins.

A contrast of halves is met by one more number t, a factor 1 + t s(a) s(b) s(c) with the sign of a cell's contrast,
whose margins are two matrix products instead of one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.models.margins.joining import CLOSE, LITTLE, MOST_TILT, ROUNDS, STALLED, TILTS, join_counts
from sfumato.models.margins.table import Places

# Where pairs contradict each other, factors drift apart without end while their product does not: such a table is
# fitted cell by cell. No factor grows by more than 1 / LITTLE in a round.
FAR, LOOKS = 1e150, 8  # that is far, and rounds after which it is looked at
AT_ONCE = 2**16  # numbers of a stack, so that it stays in a processor's cache


class Three(NamedTuple):
    """Known margins of a table of three attributes.

    one_way: of each, with one sum. pairs: of the first and second, of the first and third, of the second and third.
    signs: for a contrast, +-1 for every value of each attribute; wanted: sum of rows with the product of these signs.
    """

    one_way: Sequence[Floats]
    pairs: Sequence[Floats]
    signs: Sequence[Floats] | None = None
    wanted: float = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of values of the attributes."""
        return tuple(len(margin) for margin in self.one_way)


def join_threes(tables: Sequence[Three], close: float = CLOSE) -> list[Floats]:
    """Maximum-entropy tables with given margins and contrasts. close: as `joining.join_counts` has it."""
    stacks: dict[tuple[bool, tuple[int, ...]], list[int]] = defaultdict(list)
    for index, table in enumerate(tables):
        stacks[table.signs is None, tuple(_rounded_up(size) for size in table.shape)].append(index)
    result: dict[int, Floats] = {}
    for members in stacks.values():
        a, b, c = (max(sizes) for sizes in zip(*(tables[index].shape for index in members), strict=True))
        together = max(1, AT_ONCE // (a * b + a * c + b * c))
        for start in range(0, len(members), together):
            some = members[start : start + together]
            result |= zip(some, _Stack([tables[index] for index in some], (a, b, c)).joined(close), strict=True)
    return [result[index] for index in range(len(tables))]


def _rounded_up(size: int) -> int:
    """Size that an axis is filled up to: 4, 16 and powers of two beyond, so that there are few different shapes."""
    return 4 if size <= 4 else max(16, 1 << (size - 1).bit_length())


SIDES: tuple[Places, ...] = ((0, 1), (0, 2), (1, 2))  # axes of the pairs


class _Stack:
    """Tables of one padded shape, being fitted."""

    def __init__(self, tables: Sequence[Three], shape: tuple[int, int, int]) -> None:
        self.tables = tables
        self.wanted = [np.zeros((len(tables), shape[a], shape[b])) for a, b in SIDES]
        self.signs = [np.ones((len(tables), size)) for size in shape]
        self.totals = np.array([max(float(table.one_way[0].sum()), LITTLE) for table in tables])
        self.tilts = np.zeros(len(tables))
        self.contrast = np.array([table.wanted for table in tables])
        self.tilted = tables[0].signs is not None
        margins = [np.zeros((len(tables), size)) for size in shape]
        for index, table in enumerate(tables):
            for place, pair in enumerate(table.pairs):
                self.wanted[place][index, : pair.shape[0], : pair.shape[1]] = pair
            for place, size in enumerate(table.shape):
                margins[place][index, :size] = table.one_way[place]
                if table.signs is not None:
                    self.signs[place][index, :size] = table.signs[place]
        along = list(zip(self.signs[:1] * 2, self.signs[1:], strict=True)) if self.tilted else []
        self.products = [one[:, :, None] * other[:, None, :] for one, other in along]
        first, second, third = margins
        over = self.totals[:, None, None]
        self.factors = [
            first[:, :, None] * second[:, None, :] / over,
            (first[:, :, None] > 0.0) * third[:, None, :] / over,
            ((second[:, :, None] > 0.0) & (third[:, None, :] > 0.0)).astype(np.float64),
        ]

    def joined(self, close: float) -> list[Floats]:
        """Fit until every margin is met to within this share of the rows, and lay the tables out."""
        with np.errstate(over="ignore", invalid="ignore"):  # see FAR
            return self._fitted(close)

    def _fitted(self, close: float) -> list[Floats]:
        result: dict[int, Floats] = {}
        left: Codes = np.arange(len(self.tables))
        before: list[Floats] = []  # what margins were off by, round by round
        for number in range(ROUNDS):
            products = self._tilt() if self.tilted and number < TILTS else None
            open_end = not self.tilted or number >= TILTS - 1
            off = np.max([self._fit(pair, products if not pair else None, open_end) for pair in range(3)], axis=0)
            done = (off <= close * self.totals) & open_end
            before.append(off)
            if number >= 2 * TILTS:
                done |= off > STALLED * before[-1 - TILTS]
            if number % LOOKS == LOOKS - 1:
                done |= ~self._near
            if number == ROUNDS - 1:
                done[:] = True
            if done.any():
                for index in np.flatnonzero(done).tolist():
                    result[int(left[index])] = self._laid_out(int(left[index]), index, close)
                left = left[~done]
                if not len(left):
                    break
                self._keep(~done)
                before = [each[~done] for each in before[-TILTS:]]
        return [result[index] for index in range(len(self.tables))]

    @property
    def _near(self) -> Flags:
        """Whether all factors of a table are far from what numbers can hold, (tables,)."""
        return np.asarray(np.all([each.max(axis=(1, 2)) < FAR for each in self.factors], axis=0), dtype=np.bool_)

    def _keep(self, these: Flags) -> None:
        """Leave tables out of the stack."""
        self.wanted, self.factors, self.signs, self.products = (
            [each[these] for each in listed] for listed in (self.wanted, self.factors, self.signs, self.products)
        )
        self.totals, self.contrast, self.tilts = self.totals[these], self.contrast[these], self.tilts[these]

    def _products(self, pair: int) -> tuple[Floats, Floats]:
        """Margins along a pair but for its own factor and tilt: of all rows, and by the signs of first and third axis.

        The third axis is the one that is summed over, and the last pair has its second axis in place of the first.
        """
        f, g, h = self.factors
        first, second = ((g, h.transpose(0, 2, 1)), (f, h), (f.transpose(0, 2, 1), g))[pair]
        if not self.tilted:
            return first @ second, self.totals
        signed = g * self.products[1] if pair == 0 else f * self.products[0]
        return first @ second, (signed.transpose(0, 2, 1) if pair == 2 else signed) @ second

    def _fit(self, pair: int, products: tuple[Floats, Floats] | None, looked_at: bool) -> Floats:
        """Scale to the wanted margin of a pair; sums of absolute errors before, (tables,), if they are looked at."""
        (now, odd), wanted, factors = products or self._products(pair), self.wanted[pair], self.factors[pair]
        if self.tilted:
            odd *= (self.tilts[:, None] * self.signs[SIDES[pair][1]])[:, None, :]
            now += odd
        now *= factors
        np.copyto(factors, 0.0, where=now <= LITTLE)
        factors *= wanted
        factors /= np.maximum(now, LITTLE)
        if not looked_at:
            return self.totals
        now -= wanted
        return np.asarray(np.abs(now, out=now).sum(axis=(1, 2)))

    def _tilt(self) -> tuple[Floats, Floats]:
        """Bring all tables nearer to their contrasts; products of the first pair, which do not change by it."""
        even, odd = self._products(0)
        level = np.einsum("tab,tab->t", even, self.factors[0])
        slope = np.einsum("tb,tb->t", np.einsum("tab,tab->tb", odd, self.factors[0]), self.signs[1])
        rows, signed = level + self.tilts * slope, self.tilts * level + slope
        factors = [
            (1.0 + sign * self.tilts)
            * np.clip(
                np.maximum(rows + sign * self.contrast, 0.0) / np.maximum(rows + sign * signed, LITTLE),
                1.0 - MOST_TILT,
                1.0 + MOST_TILT,
            )
            for sign in (1.0, -1.0)
        ]
        mean = (factors[0] + factors[1]) / 2.0
        self.tilts = (factors[0] - factors[1]) / (2.0 * mean)
        self.factors[0] *= mean[:, None, None]
        return even, odd

    def _laid_out(self, number: int, index: int, close: float) -> Floats:
        """Cells of one table: its number among all, and its index in the stack."""
        table = self.tables[number]
        if not self._near[index]:
            contrasts: dict[Places, tuple[Sequence[Floats], float]] = {}
            if table.signs is not None:
                contrasts[0, 1, 2] = table.signs, table.wanted
            return join_counts(table.one_way, dict(zip(SIDES, table.pairs, strict=True)), close, contrasts)
        a, b, c = table.shape
        f, g, h = (each[index] for each in self.factors)
        cells = f[:a, :b, None] * g[:a, None, :c]
        cells *= h[:b, :c]
        if table.signs is not None:
            first, second, third = table.signs
            cells *= 1.0 + np.multiply.outer(np.outer(first, second), self.tilts[index] * third)
        return np.asarray(cells, dtype=np.float64)
