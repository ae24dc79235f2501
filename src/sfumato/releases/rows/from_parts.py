"""Rows of a series: those of every part by its own sampler, with the period of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain.predicates import Box, Predicate, cover
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.releases.rows.condition import NOT_DIVIDED, TooFewRows, rows_under
from sfumato.releases.rows.model import Block, DivisibleModel, Grouping, RandomNumbers, RowModel
from sfumato.schema.series import PERIOD

if TYPE_CHECKING:
    from sfumato.releases.contents.series import SeriesContent

LAST = 1.0 - 2.0**-30


def dealt_out(rows: Floats, places: Floats) -> tuple[Codes, Floats]:
    """Part of each place, in proportion to its rows, and the place inside of it; rows: (parts,), places: ascending."""
    ends = np.cumsum(rows) / max(float(rows.sum()), 1e-300)
    which = np.minimum(np.searchsorted(ends, places, side="right"), len(rows) - 1)
    starts = ends - np.diff(ends, prepend=0.0)
    inside = (places - starts[which]) / np.maximum(ends - starts, 1e-300)[which]
    return which, np.clip(inside, 0.0, LAST)


@dataclass(frozen=True, eq=False)
class _Part:
    """Sampler of one part. code: of its period. share: of its rows that fulfil a condition on the period.

    codes: of its cells on the axes of the series, where these have grown.
    """

    code: int
    model: RowModel
    codes: Mapping[str, Codes]
    share: float = 1.0

    @property
    def total(self) -> float:
        return max(self.model.total, 0.0) * self.share

    def margin(self, groupings: Sequence[Grouping], sizes: Mapping[str, int]) -> Floats:
        """Counts by the groupings of the series that are not by period."""
        single = {name: Grouping(name, np.arange(len(codes) + 1)) for name, codes in self.codes.items()}
        own = [single.get(each.name, each) for each in groupings]
        table = self.model.margin(own) * self.share
        for place, grouping in enumerate(groupings):
            if grouping.name in self.codes:
                wide = np.zeros([*table.shape[:place], sizes[grouping.name], *table.shape[place + 1 :]])
                np.moveaxis(wide, place, 0)[self.codes[grouping.name]] = np.moveaxis(table, place, 0)
                table = grouping.gather(wide, place)
        return np.asarray(table)

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        block = self.model.draw(places, random)
        codes = {name: self.codes[name][each] if name in self.codes else each for name, each in block.codes.items()}
        return replace(block, codes={PERIOD: np.full(len(places), self.code), **codes})


@dataclass(frozen=True, eq=False)
class RowsOfParts:
    """Row sampler of a series: a part in proportion to its rows, then a row of it."""

    series: SeriesContent
    parts: tuple[_Part, ...]

    @classmethod
    def of(cls, series: SeriesContent) -> RowsOfParts:
        parts = []
        for part in series.parts:
            schema = part.release.schema
            columns = {*schema.attributes, *schema.measures, PERIOD}
            if later := [name for name in (*series.schema.attributes, *series.schema.measures) if name not in columns]:
                raise QueryError(
                    f"the part of {part.period} has no {later[0]} yet, so that its rows lack a column; take out the "
                    "part that you want with `sfumato series extract`, and draw from that"
                )
            places = {name: at for name in schema.attributes if (at := series.place(part, name)) is not None}
            codes = {name: at.codes for name, at in places.items()}
            parts.append(_Part(series.codes[part.period], part.content.row_model, codes))
        return cls(series, tuple(parts))

    @property
    def total(self) -> float:
        return sum(part.total for part in self.parts)

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        sizes = {axis.name: axis.size for axis in self.series.domain}
        others = [each for each in groupings if each.name != PERIOD]
        tables = [part.margin(others, sizes) for part in self.parts]
        if len(others) == len(groupings):
            return np.asarray(sum(tables))
        place = next(at for at, each in enumerate(groupings) if each.name == PERIOD)
        laid_out = np.zeros([sizes[PERIOD], *(each.size for each in others)])
        for part, table in zip(self.parts, tables, strict=True):
            laid_out[part.code] = table
        return np.moveaxis(groupings[place].gather(laid_out, 0), 0, place)

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        which, inside = dealt_out(np.array([part.total for part in self.parts]), places)
        return self._drawn(which, inside, [part.draw for part in self.parts], random)

    def _drawn(self, which: Codes, places: Floats, draws: Sequence[object], random: RandomNumbers) -> Block:
        """Rows of every part at its places. which: number of the part of each row."""
        blocks = [
            draws[number](np.sort(places[which == number]), random)  # type: ignore[operator]
            for number in range(len(self.parts))
            if (which == number).any()
        ]
        return Block.joined(blocks)

    def given(self, where: Predicate) -> RowsOfParts:
        """Conditional model: every part under what the condition says of its own columns."""
        axis, parts = self.series.domain[PERIOD], []
        for mine, part in zip(self.parts, self.series.parts, strict=True):
            shares = [float(cover(axis, box[PERIOD]).share[mine.code]) for box in where.boxes]
            inner = [
                Box(tuple(one for one in box.sets if one[0] != PERIOD))
                for box, share in zip(where.boxes, shares, strict=True)
                if share > 0.0
            ]
            if not inner:
                continue
            try:
                model = rows_under(mine.model, Predicate(tuple(inner)) & Predicate.everything(), part.release.schema)
            except TooFewRows:
                continue
            parts.append(replace(mine, model=model, share=max(shares)))
        return replace(self, parts=tuple(parts))

    def by(self, names: Sequence[str]) -> RowsByGroup:
        """Model whose places are g + u in group number g."""
        if not all(isinstance(part.model, DivisibleModel) or [*names] == [PERIOD] for part in self.parts):
            raise QueryError(NOT_DIVIDED)
        return RowsByGroup(self, tuple(names))


@dataclass(frozen=True, eq=False)
class RowsByGroup:
    """Row sampler of a series with places by group."""

    rows: RowsOfParts
    names: tuple[str, ...]

    @property
    def total(self) -> float:
        return self.rows.total

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        return self.rows.margin(groupings)

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        domain, parts = self.rows.series.domain, self.rows.parts
        group, inside = np.floor(places).astype(np.int64), places - np.floor(places)
        codes = dict(zip(self.names, np.unravel_index(group, [domain[n].size for n in self.names]), strict=True))
        others = [name for name in self.names if name != PERIOD]
        shape = [domain[name].size for name in others]
        number = np.ravel_multi_index([codes[name] for name in others], shape) if others else np.zeros_like(group)
        if PERIOD in codes:
            at = np.full(domain[PERIOD].size, -1)
            at[[part.code for part in parts]] = np.arange(len(parts))
            which = at[codes[PERIOD]]
        else:
            sizes = {axis.name: axis.size for axis in domain}
            whole = [Grouping.of(domain[name], domain[name].size) for name in others]
            rows = np.stack([np.maximum(part.margin(whole, sizes), 0.0).reshape(prod(shape)) for part in parts])
            ends = np.cumsum(rows, axis=0) / np.maximum(rows.sum(axis=0), 1e-300)
            which = np.minimum((inside >= ends[:, number]).sum(axis=0), len(parts) - 1)
            starts = np.vstack([np.zeros(ends.shape[1]), ends[:-1]])[which, number]
            inside = np.clip((inside - starts) / np.maximum(ends[which, number] - starts, 1e-300), 0.0, LAST)
        draws = []
        for part in parts:
            if any(name in part.codes for name in others):
                raise QueryError(NOT_DIVIDED)
            model = part.model.by(others) if others else part.model  # type: ignore[attr-defined]
            draws.append(replace(part, model=model).draw)
        return self.rows._drawn(np.asarray(which), number + inside, draws, random)
