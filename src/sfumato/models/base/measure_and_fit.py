"""Release of a linear mechanism: noise calibrated to a strategy's sensitivity, and generalised least squares.

A linear mechanism measures A x + noise for a strategy A, with noise of row i in proportion to 1 / weight_i, and fits
the cells by GLS. Its expected error trace(W (A^T P A)^-1 W^T) depends on no data, so a plan knows it exactly (the
matrix mechanism; Li, Hay, Rastogi, Miklau, McGregor, VLDB Journal 2015). Also here: noisy cells, which mechanisms that
model the count alone use for their measures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from sfumato.answers.constrained_fit import kept_given_zeros
from sfumato.answers.fit import Fit, in_parts
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.measurement import Design, Gaussian, Laplace, Measurement, Noise, with_missing
from sfumato.models.base.mechanism import Run
from sfumato.models.linear.fit import LinearFit, SolvedFit
from sfumato.queries import Identity, Workload, default_workload
from sfumato.queries.ranges import Running
from sfumato.queries.strategy import Strategy
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema
from sfumato.schema.schema import missing_of


def design_of(strategy: Strategy, budget: Budget, contributions: int, unit: int = 1) -> Design:
    """Noise of each row of a strategy under a budget; the cell with the largest column sum spends all of it.

    unit: the most that one row of data adds to a cell: 1 for counts, half_units for a measure.
    """
    whole = whole_noise(strategy, budget, contributions, unit)

    noises = tuple(with_weight(whole, weight) for weight in strategy.weights)
    return Design(strategy.queries, noises, strategy.which)


def with_weight(whole: Noise, weight: int) -> Noise:
    """Noise of a row of this weight, from that of a row of weight 1."""
    if isinstance(whole, Laplace):
        return Laplace(whole.scale / weight)
    return Gaussian(whole.sigma_squared / weight**2)


def whole_noise(strategy: Strategy, budget: Budget, contributions: int, unit: int = 1) -> Noise:
    """Noise of a row of weight 1, by the strategy's L1 sensitivity (pure epsilon) or squared L2 sensitivity (zCDP)."""
    l1 = strategy.load(1) if budget.is_pure else 1
    l2_squared = 1 if budget.is_pure else strategy.load(2)
    return noise_for(budget, contributions, l1=unit * Fraction(l1), l2_squared=unit**2 * Fraction(l2_squared))


def designs(strategy: Strategy, schema: Schema, budget: Budget) -> dict[str, Design]:
    """Measurement design of every statistic, the budget split over them by weight; reads no data.

    The rows in which a measure is missing are counted with the measure's own share.
    """
    shares = dict(zip(schema.weights, budget.split(*schema.weights.values()), strict=True))
    shares |= {missing_of(of): share for of, share in shares.items() if missing_of(of) in schema.units}
    contributions = schema.most_of_a_unit
    result = {of: design_of(strategy, shares[of], contributions, unit) for of, unit in schema.units.items()}
    if schema.series is None or not schema.running:
        return result
    spread = Running(schema.series.periods or 1, schema.together)  # noise over time
    more = Fraction(spread.single()[-1] ** 2)
    return {
        of: replace(one, noises=tuple(Gaussian(more * n.parameter) for n in one.noises)) for of, one in result.items()
    }


def measure_and_fit(curator: Curator, schema: Schema, strategy: Strategy, budget: Budget) -> Cube:
    """Measure a strategy for every statistic and fit all cells by generalised least squares."""
    fits: list[Fit] = []
    by_statistic = designs(strategy, schema, budget)
    for of in schema.weights:
        design = by_statistic[of]
        scales = [noise.parameter for noise in design.noises]
        measured = curator.measure(
            design.queries, of=of, scales=scales if design.which is not None else scales[0], which=design.which
        )
        fits += [_fit(each, schema) for each in with_missing(measured)]
    return Cube(schema, fits=tuple(fits))


def _fit(measured: Measurement, schema: Schema) -> Fit:
    """Least-squares fit; where zeros are conditions of it by iteration, it keeps the estimate given them."""
    fit = SolvedFit.of_answers(measured)
    kept = None if schema.possible is None else kept_given_zeros(fit, schema.possible)
    return fit if kept is None else LinearFit(measured, in_parts(kept))


def linear(strategy: Callable[[Schema, Workload, bool], Strategy]) -> Run:
    """Mechanism of a strategy: the function that measures it for every statistic and fits the cells."""

    def run(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube:
        queries = workload or default_workload(schema.domain)
        return measure_and_fit(curator, schema, strategy(schema, queries, budget.is_pure), budget)

    return run


def every_cell(schema: Schema, workload: Workload | None = None, pure: bool = True) -> Strategy:
    """Identity strategy: every cell with equal noise, whatever the workload and the budget."""
    return Strategy(Identity(schema.domain.size))


def plain_cells(curator: Curator, shares: Sequence[Budget], measures: Sequence[str] | None = None) -> tuple[Fit, ...]:
    """Noisy cells of every measure, or of some, for mechanisms that model the count alone."""
    queries, named = Identity(curator.domain.size), curator.statistics[1:] if measures is None else measures
    measurements = (curator.measure(queries, share, of=of) for of, share in zip(named, shares, strict=True))
    return tuple(SolvedFit.of_answers(each) for measured in measurements for each in with_missing(measured))
