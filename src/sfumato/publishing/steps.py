"""Steps of measures that a schema leaves out, coarse enough for the noise that a release would draw.

By itself a step is 2^-30 of half the range, which no noise lets anybody see. Noise is drawn in steps, and can be so
many of them only: 2^50 (Laplace) or a standard deviation of 2^23 (Gaussian). What a measure's sums get of the budget,
down to the least share of a pair of attributes, follows from schema, mechanism, epsilon and delta alone. So the step is
the least power of two, from 2^-30 on, with which that noise can be drawn.

Rounding is lost in it. A row is off by half a step at most; n rows by about sqrt(n / 12) steps, if their values differ:
2,900 steps for a hundred million. If the least share is r of what a measure has, the Gaussian noise on any sum, and on
all rows together, is 2^22 sqrt(r) steps or more: 2^17 with fifteen attributes, where r is 1/315. Steps are powers of
two and zero is a whole number of them, so that whole numbers are not rounded at all where the step is 1 or less.

A step that the schema states is what its sums mean, so it is kept, and refused where it does not fit.
"""

from __future__ import annotations

from math import ceil, log2
from typing import TYPE_CHECKING

from sfumato.publishing.fits_in_file import coarser_by, least_of_sums, noise_of, planned_noises
from sfumato.schema.values import exact

if TYPE_CHECKING:
    from sfumato.kernel.cost import Cost
    from sfumato.models.base.mechanism import Mechanism
    from sfumato.queries import Workload
    from sfumato.schema import Schema


def with_steps_that_fit(schema: Schema, cost: Cost, mechanism: Mechanism, workload: Workload | None) -> Schema:
    """The schema, with coarser steps where it states none and the noise on sums asks for it; reads no data.

    Where a single step is too many the finest ones are left, for `check_writable` to refuse.
    """
    free = left_out(schema)
    if not free or mechanism.special:
        return schema
    factors = dict.fromkeys(free, 1)
    tried = schema
    while wanted := {of: by for of, by in _too_fine(tried, cost, mechanism, workload).items() if of in factors}:
        for of, by in wanted.items():
            factors[of] *= 2 ** max(1, ceil(log2(by)))
            if schema.measures[of].half_units < factors[of]:
                del factors[of]
        tried = _coarser(schema, factors)
    return tried


def with_steps_of(schema: Schema, made: Schema) -> Schema:
    """The schema, where it states no step with the one that a release was made with."""
    steps = {of: made.measures[of].step for of in left_out(schema) if of in made.measures}
    measures = {
        of: measure.model_copy(update={"step": steps[of]}) if of in steps else measure
        for of, measure in schema.measures.items()
    }
    return schema.model_copy(update={"measures": measures})


def left_out(schema: Schema) -> list[str]:
    """The measures whose step the schema does not state."""
    return [of for of, measure in schema.measures.items() if "step" not in measure.model_fields_set]


def _too_fine(schema: Schema, cost: Cost, mechanism: Mechanism, workload: Workload | None) -> dict[str, float]:
    """How many times coarser the steps of a measure must be, for those whose noise cannot be drawn."""
    noises = {of: list(found) for of, found in planned_noises(schema, cost, mechanism, workload).items()}
    for of, share in least_of_sums(schema, cost, mechanism).items():
        noises[of].append(noise_of(schema, of, share))
    by = {of: max(map(coarser_by, noises[of])) for of in schema.measures}
    return {of: factor for of, factor in by.items() if factor > 1}


def _coarser(schema: Schema, factors: dict[str, int]) -> Schema:
    measures = {
        of: measure.model_copy(update={"step": exact(measure.step * factors[of])}) if of in factors else measure
        for of, measure in schema.measures.items()
    }
    return schema.model_copy(update={"measures": measures})
