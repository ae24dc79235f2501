"""Maximum-entropy tables of three or four attributes with known pairs, many at once (iterative proportional fitting).

Proportional fitting keeps a table of the form F(a, b, c) U(a, b, d) M(c, d), where F and U are products of factors of
pairs (Deming, Stephan 1940). So its margin along a, b and c is F times the matrix product U M', and no round goes over
all cells. A table of three attributes has one value of a. Tables of similar shapes are stacked, filled up with zeros,
and leave the stack when they meet their margins.

Contrasts of halves are met by a factor 1 + t s for each set of three attributes, s the sign of a cell's contrast. Those
of a, b and one more attribute are part of F and of U; the others make a factor

    (1 + p s(acd)) (1 + q s(bcd)) = 1 + p q s(ab) + s(cd) (p s(a) + q s(b)),

so margins are two matrix products instead of one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.models.margins.joining import CLOSE, LITTLE, MOST_TILT, ROUNDS, STALLED, TILTS, join_counts
from sfumato.models.margins.table import Places, spread_out

# Where pairs contradict each other, factors drift apart without end while their product does not: such a table is
# fitted cell by cell. No factor grows by more than 1 / LITTLE in a round.
FAR, LOOKS = 0.5, 8  # of the exponents of numbers, that is far, and rounds after which it is looked at
SINGLE = 1e-5  # of the rows: where nothing nearer is asked for, single precision does
AT_ONCE = 2**17  # numbers of a stack, so that it stays in a processor's cache


class Few(NamedTuple):
    """Known margins of a table of three or four attributes.

    one_way: of each, with one sum. pairs: of all pairs of axes. signs: for contrasts, +-1 for every value of each
    attribute; contrasts: by three axes, the wanted sum of rows with the product of their signs.
    """

    one_way: Sequence[Floats]
    pairs: Mapping[Places, Floats]
    signs: Sequence[Floats] = ()
    contrasts: Mapping[Places, float] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of values of the attributes."""
        return tuple(len(margin) for margin in self.one_way)

    def alone(self, close: float) -> Floats:
        """Join the table cell by cell."""
        contrasts = {axes: ([self.signs[axis] for axis in axes], each) for axes, each in self.contrasts.items()}
        return join_counts(self.one_way, self.pairs, close, contrasts)


def join_few(tables: Sequence[Few], close: float = CLOSE) -> list[Floats]:
    """Maximum-entropy tables with given margins and contrasts. close: as `joining.join_counts` has it."""
    orders, stacks = [_order(table.shape) for table in tables], defaultdict[tuple[object, ...], list[int]](list)
    sizes = [[table.shape[axis] for axis in order] for table, order in zip(tables, orders, strict=True)]
    for index, table in enumerate(tables):
        stacks[len(sizes[index]), bool(table.contrasts), *map(_rounded_up, sizes[index])].append(index)
    result, kind = dict[int, Floats](), np.float32 if close >= SINGLE else np.float64
    for members in stacks.values():
        turned = ([1] * (4 - len(sizes[index])) + sizes[index] for index in members)
        a, b, c, d = (max(along) for along in zip(*turned, strict=True))
        together = max(1, AT_ONCE // (a * b * c + a * b * d + c * d))
        for start in range(0, len(members), together):
            some = members[start : start + together]
            stack = _Stack([tables[index] for index in some], [orders[index] for index in some], (a, b, c, d), kind)
            result |= zip(some, stack.joined(close), strict=True)
    return [result[index] for index in range(len(tables))]


def _order(shape: tuple[int, ...]) -> Places:
    """Axes in the order in which they are laid out: of four the two shortest first."""
    return (2, 0, 1) if len(shape) == 3 else tuple(np.argsort(shape, kind="stable").tolist())


def _rounded_up(size: int) -> int:
    """Size that an axis is filled up to: 4, 16 and powers of two beyond, so that there are few different shapes."""
    return 4 if size <= 4 else max(16, 1 << (size - 1).bit_length())


A, B, C, D = range(4)
AXES: dict[str, Places] = {"F": (A, B, C), "U": (A, B, D)}
# Pairs that a factor is fitted to, and the place of its third axis behind that of the tables.
FITS: dict[str, dict[Places, int]] = {"F": {(A, B): 3, (A, C): 2, (B, C): 1}, "U": {(A, D): 2, (B, D): 1}}


class _Stack:
    """Tables of one padded shape, being fitted. orders: of each table, its axes as they are laid out."""

    def __init__(
        self, tables: Sequence[Few], orders: Sequence[Places], shape: tuple[int, int, int, int], kind: type[np.floating]
    ) -> None:
        number, ahead = len(tables), 4 - len(orders[0])
        self.tables, self.orders, self.four = tables, orders, not ahead
        self.totals = np.array([max(float(table.one_way[0].sum()), LITTLE) for table in tables], dtype=kind)
        self.tilted = bool(tables[0].contrasts)
        self.p, self.q = np.zeros(number, kind), np.zeros(number, kind)
        self.signs = [np.ones((number, size), kind) for size in shape]
        margins = [np.zeros((number, size), kind) for size in shape]
        margins[A][:, 0] = 1.0
        pairs: list[Places] = [pair for pair in combinations(range(4), 2) if pair[0] >= ahead]
        self.wanted = {pair: np.zeros((number, shape[pair[0]], shape[pair[1]]), kind) for pair in pairs}
        threes: list[Places] = list(combinations(range(4), 3)) if self.four else [(B, C, D)]
        self.contrast = {three: np.full(number, np.nan, kind) for three in threes} if self.tilted else {}
        for index, (table, order) in enumerate(zip(tables, orders, strict=True)):
            at = dict(zip(range(ahead, 4), order, strict=True))
            for place, axis in at.items():
                margins[place][index, : table.shape[axis]] = table.one_way[axis]
                if self.tilted:
                    self.signs[place][index, : table.shape[axis]] = table.signs[axis]
            for pair in pairs:
                axes = tuple(at[place] for place in pair)
                known = table.pairs[axes] if axes in table.pairs else table.pairs[axes[::-1]].T
                self.wanted[pair][index, : known.shape[0], : known.shape[1]] = known
            for three, wanted in self.contrast.items():
                wanted[index] = table.contrasts.get(tuple(sorted(at[place] for place in three)), np.nan)
        first, second, third, fourth = margins
        over = self.totals[:, None]
        ones = [np.asarray(margin > 0.0, dtype=kind) for margin in margins]
        self.factors = {
            "F": np.einsum("ta,tb,tc->tabc", first / over if self.four else first, second, third / over),
            "U": np.einsum("ta,tb,td->tabd", ones[A], ones[B], fourth / over),
            "M": np.einsum("tc,td->tcd", ones[C], ones[D]),
        }
        self.products = {}
        if self.tilted:
            a, b, c, d = self.signs
            self.products = {"M": c[:, :, None] * d[:, None, :], "F": a, "U": a}
            if self.four:
                both = a[:, :, None, None] * b[:, None, :, None]
                self.products |= {"F": both * c[:, None, None, :], "U": both * d[:, None, None, :]}

    def joined(self, close: float) -> list[Floats]:
        """Fit until every margin is met to within this share of the rows, and lay the tables out."""
        with np.errstate(over="ignore", invalid="ignore"):  # see FAR
            return self._fitted(close)

    def _fitted(self, close: float) -> list[Floats]:
        result: dict[int, Floats] = {}
        left: Codes = np.arange(len(self.tables))
        before: list[Floats] = []  # what margins were off by, round by round
        for number in range(ROUNDS):
            tilt, looked_at = self.tilted and number < TILTS, not self.tilted or number >= TILTS - 1
            off = self._fit_last(tilt, looked_at)
            for name in AXES:
                off = np.maximum(off, self._fit(name, tilt, looked_at))
            done = (off <= close * self.totals) & looked_at
            before.append(off)
            if number >= 2 * TILTS:
                done |= off > STALLED * before[-1 - TILTS]
            if number % LOOKS == LOOKS - 1:
                done |= ~self._near
            if number == ROUNDS - 1:
                done[:] = True
            if done.any():
                near, factors = self._near, self._all_factors()
                for index, at in zip(left[done].tolist(), np.flatnonzero(done).tolist(), strict=True):
                    result[index] = self._laid_out(index, at, factors) if near[at] else self.tables[index].alone(close)
                left = left[~done]
                if not len(left):
                    break
                self._keep(~done)
                before = [each[~done] for each in before[-TILTS:]]
        return [result[index] for index in range(len(self.tables))]

    @property
    def _near(self) -> Flags:
        """Whether all factors of a table are far from what numbers can hold, (tables,)."""
        most = [each.reshape(len(each), -1).max(axis=1) for each in self.factors.values()]
        return np.asarray(np.all([each < np.finfo(each.dtype).max ** FAR for each in most], axis=0), dtype=np.bool_)

    def _keep(self, these: Flags) -> None:
        """Leave tables out of the stack."""
        self.wanted, self.contrast = (
            {pair: each[these] for pair, each in listed.items()} for listed in (self.wanted, self.contrast)
        )
        self.factors, self.products = (
            {name: each[these] for name, each in listed.items()} for listed in (self.factors, self.products)
        )
        self.totals, self.p, self.q = self.totals[these], self.p[these], self.q[these]
        self.signs = [each[these] for each in self.signs]

    def _fit(self, name: str, tilt: bool, looked_at: bool) -> Floats:
        """Bring F or U to its contrast and its pairs; largest sums of absolute errors before, (tables,)."""
        factors, other = self.factors[name], self.factors["U" if name == "F" else "F"]
        last = self.factors["M"].transpose(0, 2, 1) if name == "F" else self.factors["M"]
        flat = other.reshape(len(other), -1, other.shape[-1])
        now = (flat @ last).reshape(factors.shape)
        if self.tilted:
            product = self.products["M"]
            odd = flat @ (last * (product.transpose(0, 2, 1) if name == "F" else product))
            even, slope = self._coefficients()
            if self.four:
                now *= even[..., None]
            odd = odd.reshape(factors.shape)
            odd *= slope[..., None]
            now += odd
        now *= factors
        if tilt and self.four:
            signs, wanted = self.products[name], self.contrast[AXES[name]]
            rows = np.einsum("tabc->t", now)
            more, less = _tilting(rows, np.einsum("tabc,tabc->t", now, signs), wanted)
            move = signs * ((more - less) / 2.0)[:, None, None, None]
            move += ((more + less) / 2.0)[:, None, None, None]
            now *= move
            factors *= move
        off, pairs = self.totals, [pair for pair in FITS[name] if pair in self.wanted]
        for pair in pairs:
            axis, wanted = FITS[name][pair], self.wanted[pair]
            final, before = pair == pairs[-1], (slice(None),) * axis
            margin = now[*before, 0] if final and now.shape[axis] == 1 else np.add.reduce(now, axis=axis)
            ratio = _ratio(margin, wanted)[*before, None]
            factors *= ratio
            if not final:
                now *= ratio
            if looked_at:
                margin -= wanted
                error = np.abs(margin, out=margin).reshape(len(margin), -1).sum(axis=1)
                off = error if pair == pairs[0] else np.maximum(off, error)
        return off

    def _coefficients(self) -> tuple[Floats, Floats]:
        """Factors 1 + p q s(a) s(b) and p s(a) + q s(b), (tables, a, b) each."""
        a, b = self.signs[A][:, :, None], self.signs[B][:, None, :]
        p, q = self.p[:, None, None], self.q[:, None, None]
        return (1.0 + p * q * a * b, p * a + q * b) if self.four else (p, q * b)

    def _fit_last(self, tilt: bool, looked_at: bool) -> Floats:
        """Bring M to the contrasts of its axes and to its pair; sums of absolute errors before, (tables,)."""
        first, second, last, wanted = self.factors["F"], self.factors["U"], self.factors["M"], self.wanted[C, D]
        number, c, d = len(first), first.shape[-1], second.shape[-1]
        flat = second.reshape(number, -1, d)
        if not self.tilted:
            now = first.reshape(number, -1, c).transpose(0, 2, 1) @ flat
        else:
            a, b = self.signs[A][:, :, None, None], self.signs[B][:, None, :, None]
            signed = [first, b * first, a * first, a * (b * first)] if self.four else [first, b * first]
            sums = [each.reshape(number, -1, c).transpose(0, 2, 1) @ flat for each in signed]
            if tilt:
                self._tilt_last(sums)
            p, q, product = self.p[:, None, None], self.q[:, None, None], self.products["M"]
            if self.four:
                now, odd = sums[0] + p * q * sums[3], p * sums[2] + q * sums[1]
            else:
                now, odd = sums
                odd *= q
            odd *= product
            now += odd
        now *= last
        last *= _ratio(now, wanted)
        if not looked_at:
            return self.totals
        now -= wanted
        return np.asarray(np.abs(now, out=now).sum(axis=(1, 2)))

    def _tilt_last(self, sums: Sequence[Floats]) -> None:
        """Bring tables nearer to the contrasts of M's axes with b and with a. sums: of F U by 1, s(b), s(a), s(ab)."""
        last = self.factors["M"]
        signed = last * self.products["M"]
        x, y = ([np.einsum("tcd,tcd->t", each, by) for each in sums] for by in (last, signed))
        none = np.zeros(len(last))
        (x1, xb, xa, xab), (y1, yb, ya, yab) = ((*each, none, none)[:4] for each in (x, y))
        for of_b, three in ((True, (B, C, D)), (False, (A, C, D))):
            if three not in self.contrast:
                continue
            p, q = self.p, self.q
            rows = x1 + p * q * xab + p * ya + q * yb
            now = yb + p * q * ya + p * xab + q * x1 if of_b else ya + p * q * yb + p * x1 + q * xab
            more, less = _tilting(rows, now, self.contrast[three])
            tilt = q if of_b else p
            up, down = (1.0 + tilt) * more, (1.0 - tilt) * less
            mean, tilt = (up + down) / 2.0, (up - down) / (up + down)
            self.p, self.q = (p, tilt) if of_b else (tilt, q)
            x1, xb, xa, xab, y1, yb, ya, yab = (mean * each for each in (x1, xb, xa, xab, y1, yb, ya, yab))
            last *= mean[:, None, None]

    def _all_factors(self) -> list[tuple[Places, Floats]]:
        """Factors of all cells along some axes; the last two, times the two before them, are added."""
        even, slope = self._coefficients()
        last, whole = self.factors["M"], [(AXES[name], self.factors[name]) for name in AXES]
        if not self.tilted:
            return [*whole, ((C, D), last)]
        whole += [((A, B), slope), ((C, D), last * self.products["M"]), ((C, D), last)]
        return [*whole, ((A, B), even)] if self.four else whole

    def _laid_out(self, number: int, at: int, factors: Sequence[tuple[Places, Floats]]) -> Floats:
        """Cells of one table: its number among all, and its place in the stack."""
        table, order = self.tables[number], self.orders[number]
        axes = dict(zip(range(4 - len(order), 4), order, strict=True))
        spread = []
        for places, values in factors:
            held = [axes[place] for place in places if place in axes]
            cut = values[(at, *(slice(table.shape[axes[place]]) if place in axes else 0 for place in places))]
            turned = np.ascontiguousarray(cut.transpose(np.argsort(held)))
            spread.append(spread_out(turned, tuple(held), range(len(order))))
        first, second, *tilts = spread
        cells = first * second
        last = tilts[0]
        if self.tilted:
            last = tilts[0] * tilts[1]
            last += tilts[2] * tilts[3] if self.four else tilts[2]
        cells *= last
        return np.asarray(cells, dtype=np.float64)


def _ratio(now: Floats, wanted: Floats) -> Floats:
    """Factors from margins to wanted ones; 0 where nothing can be scaled up."""
    ratio = np.maximum(now, LITTLE)
    np.divide(wanted, ratio, out=ratio)
    np.copyto(ratio, 0.0, where=now <= LITTLE)
    return np.asarray(ratio)


def _tilting(rows: Floats, now: Floats, wanted: Floats) -> list[Floats]:
    """Factors on cells of positive and of negative sign towards wanted contrasts, (tables,) each; 1 where none is."""
    factors = [np.maximum(rows + sign * wanted, 0.0) / np.maximum(rows + sign * now, LITTLE) for sign in (1.0, -1.0)]
    return [np.where(np.isnan(each), 1.0, np.clip(each, 1.0 - MOST_TILT, 1.0 + MOST_TILT)) for each in factors]
