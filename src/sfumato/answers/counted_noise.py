"""The noises of answers where every cell carries noise of its own, of one size for each statistic.

Cells with the same weights are counted, not listed, and groups with the same counts are worked out once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.cell_weights import columns_of
from sfumato.answers.gathered import Gathered
from sfumato.answers.groups import Groups
from sfumato.answers.intervals.fieller import Term
from sfumato.answers.view import Sum
from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.measurement import Noise


@dataclass(frozen=True, eq=False)
class CountedNoise:
    """The noise on each cell, by statistic, and on the totals of a content that does not show every cell."""

    noises: Mapping[str, Noise]
    totals: Mapping[str, Noise] = field(default_factory=dict)

    def largest_model_part(self, side: Sum, groups: Groups) -> None:
        """Not told here."""

    def signs_of_rows(self, within: NDArray[np.bool_], cells: Gathered) -> None:
        """Not told here."""

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[tuple[Term, ...]]:
        group = groups.of_cells(cells)
        kinds = [
            _Kinds.sort(of, sides, noise, self.totals.get(of), cells, group, groups.number)
            for of, noise in self.noises.items()
        ]
        known: dict[tuple[bytes, ...], tuple[Term, ...]] = {}
        found = []
        for number in groups.present:
            key = tuple(part for kind in kinds for part in kind.signature(number))
            if key not in known:
                known[key] = tuple(term for kind in kinds for term in kind.terms(number))
            found.append(known[key])
        return found


@dataclass(frozen=True, eq=False)
class _Kinds:
    """The cells of one statistic, sorted into kinds that carry the same weights.

    Weights are rows of value, low and high for the numerator, then for the denominator. A cell outside the group still
    counts where an amount is not split by group, and where the rest, total less published, brings in every cell.
    """

    noise: Noise
    total_noise: Noise | None
    merged: int
    split: Floats  # a row for each kind
    whole: Floats
    rest: Floats  # a row for each group
    inside: NDArray[np.int64]  # how many cells of each kind lie in each group
    everywhere: NDArray[np.int64]

    @classmethod
    def sort(
        cls,
        of: str,
        sides: Sequence[Sum],
        noise: Noise,
        total: Noise | None,
        cells: Gathered,
        group: Codes,
        groups: int,
    ) -> _Kinds:
        split = columns_of([side.split.get(of) for side in sides], cells.size)
        whole = columns_of([side.whole.get(of) for side in sides], cells.size)
        rest = columns_of([side.rest.get(of) for side in sides], groups)
        kind, example = _alike([*split, *whole], cells.size)
        count = len(example)
        sizes = None if cells.many is None else cells.many.astype(np.float64)  # whole numbers that a float holds
        tallied = np.bincount(group * count + kind, weights=sizes, minlength=groups * count)
        inside = tallied.astype(np.int64).reshape(groups, count)
        return cls(
            noise,
            total,
            cells.merged,
            np.stack([column[example] for column in split], axis=1),
            np.stack([column[example] for column in whole], axis=1),
            np.stack(rest, axis=1),
            inside,
            inside.sum(axis=0),
        )

    def signature(self, group: int) -> tuple[bytes, bytes]:
        """What tells this group's terms from those of others."""
        return self.inside[group].tobytes(), self.rest[group].tobytes()

    def terms(self, group: int) -> list[Term]:
        found = []
        rest = self.rest[group]
        here = self.inside[group]
        for cells, weights in ((here, self.split + self.whole - rest), (self.everywhere - here, self.whole - rest)):
            for kind in np.flatnonzero((cells > 0) & weights.any(axis=1)):
                found.append(Term.of(self.noise, int(cells[kind]) * self.merged, *weights[kind].tolist()))
        if self.total_noise is not None and rest.any():
            found.append(Term.of(self.total_noise, 1, *rest.tolist()))
        return found


def _alike(columns: list[Floats], size: int) -> tuple[Codes, Codes]:
    """Number the cells so that those with the same weights share a number; and an example of each."""
    kind = np.zeros(size, dtype=np.int64)
    for column in {id(column): column for column in columns}.values():
        if (column == column[:1]).all():
            continue
        value = _numbered(column)
        kind = _numbered(kind * (value.max() + 1) + value)
    return kind, np.unique(kind, return_index=True)[1]


def _numbered(values: NDArray[Any]) -> Codes:
    """Equal values get equal numbers. Most often there are few of them, and then sorting all cells is a waste."""
    few = np.unique(values[:: max(1, len(values) // 1000)])
    if len(few) < 10:
        place = np.minimum(np.searchsorted(few, values), len(few) - 1)
        if (few[place] == values).all():
            return np.asarray(place, dtype=np.int64)
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64)
