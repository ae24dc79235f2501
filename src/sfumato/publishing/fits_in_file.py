"""Check before spending that a release's noise, numbers and queries fit the file format; set measures' steps.

A measure's values are rounded to whole steps. Unless the schema states a step, it is 2^-30 of half the range, far below
any noise. Noise is drawn in whole steps and is limited: a Laplace scale of 2^50 steps, a Gaussian standard deviation of
2^23 steps. The budget of a measure's sums, down to the least share of a pair of attributes, follows from schema,
mechanism, epsilon and delta alone. So the step is the least power of two, from 2^-30 on, with which that noise can be
drawn; choosing it reads no data.

The rounding error is small beside the noise. A row is off by at most half a step; n rows by about sqrt(n / 12) steps if
their values differ: 2,900 steps for a hundred million. If the least share is r of what a measure has, the Gaussian
noise on any sum, and on all rows together, is 2^22 sqrt(r) steps or more: 2^17 with fifteen attributes, where r is
1/315. Steps are powers of two and zero is a whole number of them, so that whole numbers are not rounded at all where
the step is 1 or less.

A step that the schema states defines its sums, so it is kept, and the release is refused where it does not fit.
"""

from __future__ import annotations

import json
from fractions import Fraction
from math import ceil, log2, sqrt
from typing import TYPE_CHECKING

from sfumato.errors import BudgetError, MechanismError
from sfumato.kernel.charge import Charge, noise_for
from sfumato.kernel.sampling.noise import VARIANCES
from sfumato.kernel.verbs.measuring import running_noises
from sfumato.measurement import LARGEST_SCALE, Design, Laplace, Noise
from sfumato.models.base.measure_and_fit import designs, every_cell
from sfumato.releases.file.fit_records import Arrays, describe
from sfumato.releases.file.manifest import MOST_QUERY_BYTES, check_description
from sfumato.releases.file.members import MOST_BYTES
from sfumato.releases.file.records import fraction_text
from sfumato.schema.parts import exact

if TYPE_CHECKING:
    from sfumato.kernel.budget import Budget, Cost
    from sfumato.models.base.mechanism import Mechanism
    from sfumato.queries import Workload
    from sfumato.schema import Schema

FINER = 2**16  # a mechanism that is not linear may measure the count with so much more noise than plain cells carry,
MORE_DIGITS = 10**30  # and with scales of so many more digits
SMALL_SHARES = 2**10  # and a margin may get so much less than an even share of all pairs
COLUMNS_EACH = 8  # and keep so many numbers per cell


def check_writable(schema: Schema, cost: Cost, mechanism: Mechanism, workload: Workload | None) -> None:
    """Refuse a release whose noise, numbers or description no file can hold; reads no data and spends nothing."""
    check_description(schema)
    for measure in schema.measures.values():
        fraction_text(measure.step), fraction_text(measure.centre)
    for amount in (cost.epsilon, cost.delta, cost.budget.rho or Fraction(1)):
        fraction_text(amount)
    if mechanism.special:  # which spends as it sees fit
        _check_with_room(noise_for(cost.budget, schema.most_of_a_unit, l1=Fraction(1), l2_squared=Fraction(1)))
        return
    for of, noises in planned_noises(schema, cost, mechanism, workload).items():
        _check_noises(noises, of, schema)
    if mechanism.is_sparse(schema) or mechanism.holds.by_margins or mechanism.as_measured:
        return
    asked = _designs(schema, cost, mechanism, workload)
    if mechanism.forecast.strategy is not None and workload is not None:
        _check_size(asked, schema)
        return
    _check_with_room(asked["count"].noises[0])
    if 8 * COLUMNS_EACH * len(asked) * schema.domain.size > MOST_BYTES:
        raise MechanismError(f"{mechanism.name} on so many cells does not fit a release file; use cells")


def planned_noises(
    schema: Schema, cost: Cost, mechanism: Mechanism, workload: Workload | None
) -> dict[str, tuple[Noise, ...]]:
    """Noise distributions that a release needs for each statistic, the largest included; reads no data."""
    if mechanism.is_sparse(schema):
        from sfumato.models.cells.cells import planned_noises as of_sparse_cells

        return dict(of_sparse_cells(schema, cost.budget))
    if schema.running:
        return _planned_running(schema, cost)
    if not mechanism.holds.by_margins:
        return {of: design.noises for of, design in _designs(schema, cost, mechanism, workload).items()}
    # Margins of counts share a budget by what they turn out to be worth, so there must be room for small shares of it.
    small = cost.budget.split(1, SMALL_SHARES * len(schema.units) * len(schema.attributes) ** 2)[0]
    shares = dict.fromkeys(schema.units, small) | least_of_sums(schema, cost, mechanism)
    return {of: (noise_of(schema, of, share),) for of, share in shares.items()}


def _planned_running(schema: Schema, cost: Cost) -> dict[str, tuple[Noise, ...]]:
    """Noise that is drawn for each part of a series with running totals, in steps of its grid."""
    assert schema.series is not None and schema.series.periods is not None  # noqa: S101 (running needs it)
    shares = dict(zip(schema.weights, cost.budget.split(*schema.weights.values()), strict=True))
    charge = Charge(cost.budget, schema.most_of_a_unit, schema.domain.size)
    noises, _ = running_noises(schema.units, shares, schema.series.periods, charge, schema.together)
    return {of: (noise,) for of, noise in noises.items()}


def least_of_sums(schema: Schema, cost: Cost, mechanism: Mechanism) -> dict[str, Budget]:
    """Least budget that each measure's sums may get, for mechanisms that choose it before data is read; else empty."""
    return (
        {} if mechanism.forecast.least_of_sums is None else dict(mechanism.forecast.least_of_sums(schema, cost.budget))
    )


def noise_of(schema: Schema, of: str, share: Budget) -> Noise:
    """Noise on a measure's sums over a partition of the rows, measured with a share of the budget."""
    unit, contributions = schema.units[of], schema.most_of_a_unit
    return noise_for(share, contributions, l1=Fraction(unit), l2_squared=Fraction(unit**2))


def coarser_by(noise: Noise) -> float:
    """Factor by which steps must be coarser for noise to be drawn and written; at most 1 where they fit."""
    if isinstance(noise, Laplace):
        return float(noise.scale / LARGEST_SCALE)
    return sqrt(noise.sigma_squared / VARIANCES[1])


def _designs(schema: Schema, cost: Cost, mechanism: Mechanism, workload: Workload | None) -> dict[str, Design]:
    strategy = None
    if mechanism.forecast.strategy is not None and workload is not None:
        strategy = mechanism.forecast.strategy(schema, workload, cost.pure)
    return designs(strategy or every_cell(schema), schema, cost.budget)


def _check_noises(noises: tuple[Noise, ...], of: str, schema: Schema) -> None:
    for noise in noises:
        if isinstance(noise, Laplace):
            fraction_text(noise.scale)
            if noise.scale > LARGEST_SCALE:
                raise BudgetError(
                    "epsilon is so small that the noise would not fit 64 bits; give more, or coarser `step`s"
                )
            continue
        fraction_text(noise.sigma_squared)
        least, most = VARIANCES
        if noise.sigma_squared < least:
            raise BudgetError("epsilon is so large that Gaussian noise has no use; leave out delta")
        if noise.sigma_squared > most and of not in schema.measures:
            raise BudgetError("epsilon is so small that Gaussian noise would not fit 64 bits; give more")
        if noise.sigma_squared > most:
            coarser = schema.measures[of].step * 2 ** ceil(log2(coarser_by(noise)))
            raise BudgetError(
                f"Gaussian noise on sums of {of} needs a coarser step: give the measure `step: "
                f"{1.01 * float(coarser):.3g}` or more in the schema, leave `step` out to have one filled in, or leave "
                "out delta"
            )


def _check_with_room(noise: Noise) -> None:
    """Check that the noise fits however a mechanism that is not linear divides its budget."""
    fraction_text(noise.parameter * MORE_DIGITS), fraction_text(noise.parameter / MORE_DIGITS)
    if noise.parameter * FINER > LARGEST_SCALE:
        raise BudgetError("epsilon is so small that the noise may not fit 64 bits; give more, or use cells")


def _check_size(asked: dict[str, Design], schema: Schema) -> None:
    """Refuse queries that do not fit a file; all statistics ask the same ones, which are written once."""
    design = next(iter(asked.values()))
    arrays = Arrays()
    record = json.dumps([describe(design.queries, arrays)], indent=2)
    if 3 * len(record) > MOST_QUERY_BYTES:  # indented further in the file
        raise MechanismError(
            "the queries to ask are too many kinds for a release file; give a shorter --workload, or use hierarchical"
        )
    per_statistic = 2 * schema.domain.size + 2 * design.queries.rows
    if 8 * (len(asked) * per_statistic + sum(map(len, arrays.all))) > MOST_BYTES:
        raise MechanismError("so many cells and queries do not fit a release file; use cells, or fewer measures")


def with_steps_that_fit(schema: Schema, cost: Cost, mechanism: Mechanism, workload: Workload | None) -> Schema:
    """Return the schema with steps, where it states none, coarse enough for the noise on sums; reads no data.

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
        tried = _with_steps(schema, {of: exact(schema.measures[of].step * by) for of, by in factors.items()})
    return tried


def with_steps_of(schema: Schema, made: Schema) -> Schema:
    """Return the schema with unstated steps taken from the schema of an existing release."""
    return _with_steps(schema, {of: made.measures[of].step for of in left_out(schema) if of in made.measures})


def left_out(schema: Schema) -> list[str]:
    """The measures whose step the schema does not state."""
    return [of for of, measure in schema.measures.items() if "step" not in measure.model_fields_set]


def _too_fine(schema: Schema, cost: Cost, mechanism: Mechanism, workload: Workload | None) -> dict[str, float]:
    """Factor by which each measure's steps must be coarser, for measures whose noise cannot be drawn."""
    noises = {of: list(found) for of, found in planned_noises(schema, cost, mechanism, workload).items()}
    for of, share in least_of_sums(schema, cost, mechanism).items():
        noises[of].append(noise_of(schema, of, share))
    by = {of: max(map(coarser_by, noises[of])) for of in schema.measures}
    return {of: factor for of, factor in by.items() if factor > 1}


def _with_steps(schema: Schema, steps: dict[str, Fraction]) -> Schema:
    measures = {
        of: measure.model_copy(update={"step": steps[of]}) if of in steps else measure
        for of, measure in schema.measures.items()
    }
    return schema.model_copy(update={"measures": measures})
