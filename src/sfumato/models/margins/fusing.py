"""Fuse releases of marginals of one table: means by precision for each set of attributes, then a fit as of one release.

A release by `margins` keeps all that it measured. Noise of two releases is independent, so tables of the same cells are
averaged by the inverse of their variances, those of other cells stand beside them, contrasts of blocks correct pairs
one release after the other, and tables are estimated anew from all of it (`estimated`, as after measuring).

Errors. What a release measured of its own errors is about its own estimates. Each release is fitted once more from its
own measurements; published over claimed variance is its factor k for a set of attributes. The fused claim is multiplied
by the mean of the releases' k, by precision: a fit to more data claims less, and misjudges itself as much. Where no
release has a table, the model alone errs, and its spread is the mean of theirs. All of it is work on published numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.models.margins.calibration import ALL, LOOKS, contrasts_of, halves_of, scaled_blocks
from sfumato.models.margins.content import CELL_BY_CELL, Margins
from sfumato.models.margins.joining import NO_NOISE
from sfumato.models.margins.measure import estimated, sums_of
from sfumato.models.margins.scales import MEASURED, Contrasts, Haar, OfThree, Scaled, Spreads, of_three
from sfumato.models.margins.table import CONTRAST, MISFIT, WIDER, Noisy, Places, Table
from sfumato.queries import Identity
from sfumato.schema import Schema
from sfumato.schema.schema import missing_of

Found = tuple[dict[Places, Table], dict[Places, Scaled]]


def fuse_unbiased(contents: Sequence[Margins]) -> Margins:
    """Unbiased marginals of all releases of one table: each component a mean by precision.

    Components of an analysis of variance carry independent noise, set by set, so means of each are least squares.
    """
    tables: dict[str, dict[Places, Table]] = {}
    for of in contents[0].tables:
        sets = dict.fromkeys(places for content in contents for places in content.tables[of])
        by_order = sorted(sets, key=lambda places: (len(places), places))
        known = [content.tables[of] for content in contents]
        tables[of] = {places: _mean([each[places] for each in known if places in each]) for places in by_order}
    measured = tuple(one for content in contents for one in content.measured)
    asked = tuple(how for content in contents for how in content.asked or (CELL_BY_CELL,) * len(content.measured))
    return Margins(contents[0].schema, tables, measured=measured, unbiased=True, asked=asked)


def _mean(tables: Sequence[Table]) -> Table:
    """Mean of independent tables by the inverse of their variances."""
    precision = np.sum([1.0 / np.maximum(table.noise, NO_NOISE) for table in tables], axis=0)
    total = np.sum([table.estimate / np.maximum(table.noise, NO_NOISE) for table in tables], axis=0)
    return Table(tables[0].places, total / precision, 1.0 / precision, np.zeros(precision.shape))


@dataclass(frozen=True, eq=False)
class _Part:
    """A release to be fused: its content, its noisy measurements and its own fit. name: of its file."""

    content: Margins
    name: str

    @cached_property
    def noisy(self) -> dict[str, list[tuple[Places, Noisy]]]:
        """Noisy tables of single cells by statistic, in the order of measurement."""
        result, shape = defaultdict[str, list[tuple[Places, Noisy]]](list), self.content.domain.shape
        every = self.content.schema.units
        for places, one in self.content.measured:
            if one.of not in (MISFIT, CONTRAST):
                sizes = [shape[place] for place in places]
                if len(one.answers) != prod(sizes) or not isinstance(one.queries, Identity):
                    raise self._refusal("noisy tables")
                result[one.of].append((places, (one.answers.astype(np.float64).reshape(sizes), _variance(one))))
        first: list[Places] = [(place,) for place in range(len(shape))]
        begins = [(places, one.of) for places, one in self.content.measured[: len(shape)]]
        lacks = any({place for places, _ in result[of] for place in places} != {*range(len(shape))} for of in every)
        if lacks or begins != [(places, "count") for places in first]:
            raise self._refusal("noisy tables")
        return result

    def _refusal(self, what: str) -> ReleaseFileError:
        return ReleaseFileError(
            f"{self.name} has {what} that do not go with its schema, so that it cannot be combined; ask its publisher "
            "for a fresh copy"
        )

    @cached_property
    def precision(self) -> float:
        """Inverse noise variance of the release's first table, by which releases are ordered."""
        return 1.0 / self.noisy["count"][0][1][1]

    def contrasts(self, order: int, margin: Callable[[int], Floats], levels: int) -> dict[Places, Contrasts]:
        """Contrasts of sets of two or three attributes; margin: by which an attribute was halved `levels` times."""
        result, signs = dict[Places, Contrasts](), dict[int, Haar]()
        for places, one in self.content.measured:
            if one.of == CONTRAST and len(places) == order:
                signs |= {place: Haar.of(margin(place), levels) for place in places if place not in signs}
                found = contrasts_of(tuple(signs[place] for place in places), one)
                if found is None:
                    raise self._refusal("contrasts")
                result[places] = found
        return result

    @cached_property
    def pairs(self) -> dict[Places, Contrasts]:
        """Contrasts of pairs; none for a file without the margins that define their blocks (`Marginals.guessed`)."""
        guessed = self.content.guessed[1:]
        return self.contrasts(2, lambda place: guessed[place], MEASURED) if guessed else {}

    @cached_property
    def threes(self) -> dict[Places, Contrasts]:
        """Contrasts of halves of three attributes."""
        return self.contrasts(3, lambda place: self.content.tables["count"][place,].estimate, 1)

    @cached_property
    def alone(self) -> Found:
        """Tables fitted to this release alone, with uncalibrated errors, and their spreads."""
        return estimated(self.content.schema, self.noisy["count"], [self.pairs])

    @property
    def spreads(self) -> Spreads:
        return self.content.spreads["count"]

    def factor(self, places: Places) -> float | None:
        """Calibration factor of a table: published over claimed variance; None where it has no such table."""
        claimed, published = self.alone[0].get(places), self.content.tables["count"].get(places)
        if claimed is None or published is None:
            return None
        variance = float((claimed.noise + claimed.model).sum())
        return float((published.noise + published.model).sum()) / variance if variance > 0.0 else 1.0

    def factors(self, places: Places) -> dict[tuple[int, ...], float] | None:
        """Published over claimed variance of a table's blocks, by block size (`LOOKS`); None where not calibrated."""
        whole, blocks = self.factor(places), self.spreads.blocks.get(places)
        if whole is None or blocks is None:
            return None
        claimed = self.alone[0][places]
        spread = float((claimed.noise + claimed.model).sum()) / max(float(claimed.estimate.sum()), 1.0)
        result = dict.fromkeys(LOOKS[len(places)], whole)
        for levels in result if spread > 0.0 else ():
            finest = [axis for axis, level in enumerate(levels) if level == ALL]
            if len(finest) == 1 and blocks.stripes:
                result[levels] = whole + blocks.stripes[finest[0]] / spread
            elif not finest:
                result[levels] = (blocks.noise[levels[0]] + blocks.model[levels[0]]) / spread
        return result


def fuse_fitted(contents: Sequence[Margins], names: Sequence[str]) -> Margins:
    """Marginals of all releases of one table, fitted anew to what all of them measured. names: of the files."""
    for content, name in zip(contents, names, strict=True):
        if any(one.of == CONTRAST and not places for places, one in content.measured):
            raise ReleaseFileError(
                f"{name} was made before files of margins said of which attributes their contrasts are, so that it "
                "cannot be combined; release it again, or compare the two (`sfumato compare`)"
            )
    schema = contents[0].schema
    named = zip(contents, names, strict=True)
    parts = sorted((_Part(content, name) for content, name in named), key=lambda part: -part.precision)
    noisy = {of: _by_precision([each for part in parts for each in part.noisy[of]]) for of in schema.units}
    tables, found = estimated(schema, noisy["count"], _in_rounds([part.pairs for part in parts]))
    counts, spreads = _calibrated(schema, parts, tables, found)
    every, beside = {"count": counts}, {"count": spreads}
    for measure in schema.summed:
        own = {of: dict(noisy[of]) for of in (measure, missing_of(measure)) if of in noisy}
        for of, (made, by_set) in sums_of(schema, measure, own, counts).items():
            every[of], beside[of] = made, by_set
    measured = _in_order([part.content.measured for part in parts], len(schema.domain.axes))
    return Margins(schema, every, beside, measured, guessed=parts[0].content.guessed)


def _variance(measured: Measurement) -> float:
    """Variance of the noise of every answer, by which it is weighed."""
    return max(measured.noise.continuous_variance, NO_NOISE)


def _by_precision(listed: Iterable[tuple[Places, Noisy]]) -> list[tuple[Places, Noisy]]:
    """Average noisy tables of the same cells by inverse variance."""
    result = dict[Places, Noisy]()
    for places, noisy in listed:
        (before, known), (numbers, variance) = result.get(places, noisy), noisy
        share = known / (known + variance) if places in result else 1.0
        result[places] = before + share * (numbers - before), share * variance
    return list(result.items())


def _in_rounds(contrasts: Sequence[Mapping[Places, Contrasts]]) -> list[dict[Places, Contrasts]]:
    """Contrasts of all releases, in rounds of one for each pair; those of equal blocks are averaged by precision."""
    rounds: list[dict[Places, Contrasts]] = []
    by_blocks = dict[tuple[Places, int, bytes], Contrasts]()
    for each in contrasts:
        for places, item in each.items():
            key = places, item.depth, b"".join(haar.signs.tobytes() for haar in item.signs)
            known = by_blocks.get(key, item)
            share = known.variance / (known.variance + item.variance) if key in by_blocks else 1.0
            noisy = known.noisy + share * (item.noisy - known.noisy)
            by_blocks[key] = replace(item, noisy=noisy, variance=share * item.variance)
    for (places, _, _), item in by_blocks.items():
        free = next((each for each in rounds if places not in each), None)
        if free is None:
            rounds.append(free := {})
        free[places] = item
    return rounds


def _in_order(
    every: Sequence[tuple[tuple[Places, Measurement], ...]], axes: int
) -> tuple[tuple[Places, Measurement], ...]:
    """Measurements of all releases in the order in which they could have been taken: first tables, misfits, the rest.

    Guaranteed intervals go by it: what is chosen by noise comes after that noise (models/margins/guaranteed.py).
    """
    first = [item for each in every for item in each[:axes]]
    misfits = [item for each in every for item in each[axes : axes + 1] if item[1].of == MISFIT]
    rest = [item for each in every for item in each[axes:] if item[1].of != MISFIT or item is not each[axes]]
    tables = [item for item in rest if item[1].of == "count"]
    return (*first, *misfits, *tables, *(item for item in rest if item[1].of != "count"))


def _calibrated(
    schema: Schema, parts: Sequence[_Part], tables: Mapping[Places, Table], found: Mapping[Places, Scaled]
) -> tuple[dict[Places, Table], Spreads]:
    """Calibrate fused tables by the releases' mean factors; also spreads of sets without a table and of blocks.

    tables, found: as they were fitted to all measurements.
    """

    def mean(numbers: Sequence[float | None]) -> float:
        known = [(part.precision, each) for part, each in zip(parts, numbers, strict=True) if each is not None]
        return sum(weight * each for weight, each in known) / sum(weight for weight, _ in known) if known else 1.0

    def mean_blocks(blocks: Sequence[Scaled | None]) -> Scaled:
        some = next(each for each in blocks if each is not None)
        spreads = []
        for name in ("noise", "model", "stripes"):
            listed: list[tuple[float, ...] | None] = [None if each is None else getattr(each, name) for each in blocks]
            levels = range(len(getattr(some, name)))
            spreads.append(tuple(mean([None if each is None else each[at] for each in listed]) for at in levels))
        return Scaled(*spreads)

    calibrated = dict(tables)
    for places, table in tables.items():
        if len(places) == 1:
            calibrated[places] = replace(table, model=table.model + (WIDER**2 - 1.0) * table.noise)
        elif places:
            scale = mean([part.factor(places) for part in parts])
            calibrated[places] = replace(table, noise=scale * table.noise, model=scale * table.model)
    every = [part.spreads for part in parts]
    halves = _halves(schema, parts, calibrated)
    blocks = dict[Places, Scaled]()
    for places in dict.fromkeys(places for each in every for places in each.blocks):
        half = halves[places].spread if places in halves else None
        if places in tables:
            by_level = [part.factors(places) for part in parts]
            scales = {
                levels: mean([None if each is None else each[levels] for each in by_level])
                for levels in LOOKS[len(places)]
            }
            blocks[places] = scaled_blocks(places, scales, tables[places], (1.0, 0.0), found.get(places), half)
        else:
            blocks[places] = mean_blocks([each.blocks.get(places) for each in every])
            if half is not None:
                blocks[places] = replace(blocks[places], model=(half, *blocks[places].model[1:]))
    single = dict.fromkeys(places for each in every for places in each.single if places not in tables)
    spreads = Spreads(
        tuple(mean([each.by_order[order] for each in every]) for order in range(min(len(e.by_order) for e in every))),
        {places: mean([each.single.get(places) for each in every]) for places in single},
        {
            order: mean_blocks([each.blocks_by_order.get(order) for each in every])
            for order in dict.fromkeys(order for each in every for order in each.blocks_by_order)
        },
        blocks,
        {places: each.contrast for places, each in halves.items() if places not in tables},
    )
    return calibrated, spreads


def _halves(schema: Schema, parts: Sequence[_Part], tables: Mapping[Places, Table]) -> dict[Places, OfThree]:
    """Posterior contrasts of the halves of three attributes, from those of all releases.

    A release's halves may differ from those of the fused table by a value in the middle, so deviations from what the
    fused table says of a release's own halves are averaged.
    """
    content = Margins(schema, {"count": tables}, {"count": Spreads((0.0, 1.0, 1.0))})
    sets = list(dict.fromkeys(places for part in parts for places in part.threes))
    signs = {place: Haar.of(content.tables["count"][place,].estimate, 1) for places in sets for place in places}
    halved = {places: tuple(signs[place] for place in places) for places in sets}
    joined = halves_of(content, {p: each for p, each in halved.items() if all(len(haar.level) for haar in each)})
    off, weight = dict.fromkeys(joined, 0.0), dict.fromkeys(joined, 0.0)
    for part in parts:
        by_own = halves_of(content, {places: each.signs for places, each in part.threes.items() if places in joined})
        for places, (expected, _) in by_own.items():
            each = part.threes[places]
            off[places] += (float(each.noisy.reshape(-1)[0]) - expected) / each.variance
            weight[places] += 1.0 / each.variance
    pooled = {
        places: Contrasts(
            halved[places], np.full((1, 1, 1), expected + off[places] / weight[places]), 1 / weight[places]
        )
        for places, (expected, _) in joined.items()
    }
    return of_three(pooled, joined)
