"""Remainder of the suppressed cells of a sparse cube: the rows in cells whose noisy count is below the threshold.

Its sum is known: the noisy total less the published counts. The value of an answer spreads it evenly over the
unpublished cells; the low end counts none of it and the high end all of it, unless the answer covers every cell. An
unpublished cell holds few more rows than the threshold, which bounds answers about few cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import hypot

import numpy as np

from sfumato.answers.fieller import Functional, Interval, Term
from sfumato.answers.noise_sum import upper_quantile
from sfumato.answers.question import ByStatistic, Gathered, Groups, Weights, cell_weights, volume
from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.measurement import Noise
from sfumato.schema import Schema
from sfumato.schema.schema import missing_of
from sfumato.sql import Amount


@dataclass(frozen=True, eq=False)
class Rest:
    """Weights of an amount on the remainder, and the number of unpublished cells that may belong to it, (groups,)."""

    weights: ByStatistic
    unseen: Floats


@dataclass(frozen=True, eq=False)
class Suppressed:
    """Threshold and remainder of the unpublished cells.

    published: number of published cells. remainder: by statistic, the noisy total less the published sum. noise: on the
    count of each cell.
    """

    schema: Schema
    threshold: int
    published: int
    remainder: Mapping[str, float]
    noise: Noise

    @property
    def note(self) -> str:
        """Note for readers on suppressed cells."""
        return (
            f"only cells with a noisy count of {self.threshold} or more are published; the rest is known in sum, is "
            "taken as spread evenly, and the interval allows for any spread"
        )

    def rest_weights(self, amount: Amount, cells: Gathered, groups: Groups, group: Codes) -> Rest:
        """Weights of an amount on the remainder, by group. group: of each published cell, (cells,)."""
        schema = self.schema
        everywhere, possible, sure = volume(amount, schema, groups.names)
        measured = amount.of in schema.summed
        plain = replace(amount, of=None if measured else amount.of, factor=1.0, present=None)
        published = cell_weights(plain, schema, cells.codes, cells.size)["count"].value
        touched = cell_weights(replace(plain, of=None), schema, cells.codes, cells.size)["count"].high

        def left(in_all: Floats, of_cells: Floats) -> Floats:
            """The part of a sum over all cells that lies in unpublished ones, for each group."""
            seen = np.bincount(group, weights=of_cells, minlength=groups.number) if amount.grouped else of_cells.sum()
            return np.broadcast_to(in_all - seen, groups.number)

        share = left(everywhere, published) / max(schema.possible_cells - self.published, 1)
        unseen = np.maximum(left(possible, touched), 0.0)
        low, high = _value_bounds(amount, schema)
        if not sure:
            low, high = min(low, 0.0), max(high, 0.0)
        some = np.where(unseen > 0.5, 1.0, 0.0)
        weights: ByStatistic = {"count": Weights(share, low * some, high * some)}
        if amount.of is None and sure:
            weights = {"count": Weights.exactly(some)}
        if amount.present is not None:
            weights[missing_of(amount.present)] = _less(some if sure else share, sure)
        if measured and amount.of is not None:
            measure = schema.summed[amount.of]
            step, centre = float(measure.step), float(measure.centre)
            if sure:
                weights = {amount.of: Weights.exactly(some * step), "count": Weights.exactly(some * centre)}
            else:
                weights = {
                    amount.of: Weights(share * step, 0.0 * some, 0.0 * some),
                    "count": Weights(share * centre, low * some, high * some),
                }
            if measure.missing == "keep":
                weights[missing_of(amount.of)] = _less((some if sure else share) * centre, sure)
        return Rest({of: part.times(amount.factor) for of, part in weights.items()}, unseen)

    def below_threshold(
        self, interval: Interval, top: Functional, terms: tuple[Term, ...], unseen: float, confidence: float
    ) -> Interval:
        """Lower the upper end of a count to the threshold's bound, where that is below the whole remainder.

        A suppressed cell had count + noise < threshold, so `unseen` of them hold at most unseen * (threshold - 1) rows
        less their noise. The smaller of two high ends is taken, so each is given half of the upper tail.
        """
        if top.low == top.high:
            return interval
        level, noise = 1 - (1 - confidence) / 4, self.noise
        # The high end takes the whole rest, total less published; taking it back leaves the published cells alone.
        cells = [(term.high + 1.0, noise, term.multiplicity) for term in terms if term.noise == noise]
        by_threshold = top.high - max(self.remainder["count"], 0.0) + unseen * (self.threshold - 1)
        by_threshold += upper_quantile([*cells, (1.0, noise, int(unseen))], level)
        whole = [(term.high, term.noise, term.multiplicity) for term in terms]
        by_rest = top.high + upper_quantile(whole, level)
        high = min(by_threshold, by_rest)
        model = min(interval.model, max(high - top.low, 0.0) / 12**0.5)
        stderr = hypot(interval.noise, model)
        return replace(interval, value=min(interval.value, high), stderr=stderr, high=high, model=model)


def _less(value: Floats, sure: bool) -> Weights:
    """Negative weights for rows in which a measure is missing; their spread over cells is unknown unless `sure`."""
    return Weights.exactly(-value) if sure else Weights(-value, 0.0 * value, 0.0 * value)


def _value_bounds(amount: Amount, schema: Schema) -> tuple[float, float]:
    """Least and greatest value that a single row can add to an amount, before its factor."""
    if amount.of is None:
        return 1.0, 1.0
    if amount.of in schema.summed:
        measure = schema.summed[amount.of]
        return float(measure.lower), float(measure.upper)
    least, _, greatest = schema.domain[amount.of].amounts
    return float(least.min()), float(greatest.max())
