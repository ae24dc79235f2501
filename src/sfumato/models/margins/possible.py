"""Answers from marginals with structural zeros.

Where a question names an attribute and one that follows from it, the coarser is no axis of its own (`Narrowed`): its
values are classes of the finer one's. An impossible cell holds 0 whatever weight it has in a sum, so the error variance
of a sum is at most the least over all such weights (conditioning of normal errors on those that are known to be 0);
`PossibleNoise` takes the smaller of two: weights as asked, and none on impossible cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from sfumato.answers.evaluate import NoiseSource, Sum, Terms
from sfumato.answers.guaranteed_columns import Source
from sfumato.answers.noise_sum import Ends
from sfumato.answers.question import ByStatistic, Gathered, Groups, WeightRange, Weights
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain.structural import Structure
from sfumato.frozen import dataclass
from sfumato.models.margins.noise import JoinedNoise
from sfumato.sql import Amount


@dataclass(frozen=True, eq=False)
class Narrowed:
    """A question about an attribute and others that follow from it, put as one about the finer ones alone.

    shape: classes of every axis of the question. kinds: for each axis that is left, the class of every value, told
    apart by the values that follow from it. cells: for every cell of these, its place among the question's cells.
    roots: for each axis left out, that which it follows from, and its class for every class there.
    """

    shape: tuple[int, ...]
    kinds: Mapping[int, Codes]
    cells: Codes
    roots: Mapping[int, tuple[int, Codes]]
    before: Mapping[int, Codes]

    @classmethod
    def of(cls, structure: Structure, kinds: Mapping[int, Codes]) -> Narrowed | None:
        """Narrow a question; None where nothing follows. kinds: for each axis, the class of every value."""
        left = structure.essential(tuple(kinds))
        if len(left) == len(kinds):
            return None
        behind = {place: structure.behind(place, left) for place in kinds if place not in left}
        narrow: dict[int, Codes] = {}
        before: dict[int, Codes] = {}
        roots: dict[int, tuple[int, Codes]] = {}
        for place in left:
            mine = [(coarse, image) for coarse, (root, image) in behind.items() if root == place]
            columns = np.stack([kinds[place], *(kinds[coarse][image] for coarse, image in mine)])
            classes, narrow[place] = np.unique(columns, axis=1, return_inverse=True)
            narrow[place] = narrow[place].reshape(-1)
            before[place] = classes[0]
            roots |= {coarse: (place, classes[1 + n]) for n, (coarse, _) in enumerate(mine)}
        sizes = {place: int(kind.max(initial=0)) + 1 for place, kind in kinds.items()}
        cells: Codes = np.zeros([len(before[place]) for place in left], dtype=np.int64)
        for place in kinds:
            root, codes = roots.get(place, (place, before.get(place)))
            along = [len(before[root]) if each == root else 1 for each in left]
            cells = cells * sizes[place] + np.asarray(codes).reshape(along)
        return cls(tuple(sizes.values()), narrow, cells, roots, before)

    def expand(self, table: Floats) -> Floats:
        """A table of the narrowed question as one of the question, with 0 in all other cells."""
        result = np.zeros(self.shape)
        result.reshape(-1)[self.cells.reshape(-1)] = table.reshape(-1)
        return result


@dataclass(frozen=True, eq=False)
class PossibleNoise(NoiseSource):
    """Errors of a joined table with structural zeros.

    inner: errors of the table, or of the narrowed one. names, kinds: axes of the question and classes of their values.
    possible: flags of the possible cells of inner's table, flat; None where all are.
    """

    inner: JoinedNoise
    names: Mapping[int, str]
    kinds: Mapping[int, Codes]
    possible: Flags | None
    narrowed: Narrowed | None

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        """Error terms of each group, of weights as asked or without impossible cells: those with the less variance."""
        result: list[Terms] = [()] * len(groups.present)
        for chosen, inside, some in self._by_key(groups):
            listed = [self._sides(sides, inside)]
            if self.possible is not None:
                listed.append(self._sides(sides, self.possible if inside is None else self.possible & inside))
            found = [self.inner.terms(each, cells, some) for each in listed]
            for number, each in zip(chosen.tolist(), zip(*found, strict=True), strict=True):
                result[number] = min(each, key=_variance)
        return result

    def largest_model_part(self, side: Sum, groups: Groups) -> tuple[str, ...] | None:
        (inner,), known = self._sides([side], None), [name for name in groups.names if name in self.inner.names]
        if len(known) < len(groups.names):
            return None
        return self.inner.largest_model_part(inner, groups)

    def _sides(self, sides: Sequence[Sum], inside: Flags | None) -> list[Sum]:
        """Sums with weights on inner's cells, 0 on those that are not inside."""
        made: dict[int, Floats] = {}

        def moved(weights: Floats) -> Floats:
            if id(weights) not in made:
                every = np.asarray(weights, dtype=np.float64)
                every = every if self.narrowed is None else every[self.narrowed.cells.reshape(-1)]
                made[id(weights)] = every if inside is None else every * inside
            return made[id(weights)]

        def each(parts: ByStatistic) -> ByStatistic:
            return {of: Weights(moved(w.value), moved(w.low), moved(w.high)) for of, w in parts.items()}

        return [replace(side, split=each(side.split), whole=each(side.whole)) for side in sides]

    def _by_key(self, groups: Groups) -> list[tuple[Codes, Flags | None, Groups]]:
        """Present groups by the values of attributes that follow from one that is not grouped by.

        Each: numbers of the groups, flags of inner's cells with these values, and the groups as inner knows them.
        """
        narrowed = self.narrowed
        every = np.arange(len(groups.present))
        if narrowed is None or not any(self.names[place] in groups.names for place in narrowed.roots):
            return [(every, None, groups)]
        size = {place: len(kind) for place, kind in self.kinds.items()}
        left = [place for place in narrowed.kinds if self.names[place] in groups.names]
        codes = {place: groups.code(self.names[place]) for place in left}
        keys = np.zeros(len(every), dtype=np.int64)
        fits = np.ones(len(every), dtype=bool)
        inside_of: list[tuple[int, Codes, Codes]] = []
        for place, (root, classes) in narrowed.roots.items():
            if self.names[place] not in groups.names:
                continue
            wanted = self.kinds[place][groups.code(self.names[place])]
            if root in left:  # the group is one of the finer attribute, or of none
                mine = classes[narrowed.kinds[root][codes[root]]]
                fits &= mine == wanted
            else:
                keys = keys * (int(classes.max(initial=0)) + 2) + wanted
                inside_of.append((root, classes, wanted))
        result: list[tuple[Codes, Flags | None, Groups]] = []
        axes = tuple(narrowed.kinds)
        for key in np.unique(keys[fits]).tolist():
            chosen = every[fits & (keys == key)]
            inside = np.ones(narrowed.cells.shape, dtype=bool)
            for root, classes, wanted in inside_of:
                along = [len(classes) if axis == root else 1 for axis in axes]
                inside &= (classes == wanted[chosen[0]]).reshape(along)
            shape = tuple(size[place] for place in left)
            present = np.zeros(len(chosen), dtype=np.int64)
            for place in left:
                present = present * size[place] + codes[place][chosen]
            result.append((chosen, inside.reshape(-1), Groups(tuple(self.names[p] for p in left), shape, present)))
        return result


def _variance(terms: Terms) -> float:
    """Variance of the first sum; infinite where it is not determined."""
    if terms is None:
        return inf
    return sum(term.noise.variance * term.multiplicity * term.weights[0] ** 2 for term in terms)


@dataclass(frozen=True, eq=False)
class PossibleSource(Source):
    """Guaranteed bounds with structural zeros: exactly 0 for sums of impossible cells.

    possible: flags of the cells of the view. narrowed: the question as `inner` knows it.
    """

    inner: Source
    possible: Flags
    narrowed: Narrowed | None = None

    @property
    def work(self) -> int:
        return self.inner.work

    def refuse(self, amounts: Sequence[Amount]) -> None:
        self.inner.refuse(amounts)

    def ends(self, query: WeightRange, cells: Gathered, tail: float) -> Ends:
        weights = (*query.low.values(), *query.high.values())
        if not any((each * self.possible).any() for each in weights):
            return Ends(0.0, 0.0)
        if self.narrowed is not None:
            places = self.narrowed.cells.reshape(-1)
            low, high = ({of: each[places] for of, each in part.items()} for part in (query.low, query.high))
            query = replace(query, low=low, high=high)
        return self.inner.ends(query, cells, tail)
