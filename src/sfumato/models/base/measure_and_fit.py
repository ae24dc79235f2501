"""What linear mechanisms share: a strategy, noise in proportion, least squares; and noisy cells, for all measures.

A linear mechanism is told by its strategy alone. Its error depends on no data, so a plan knows it exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from sfumato.answers.fit import Fit
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.measurement import Design, Gaussian, Laplace, Noise, with_missing
from sfumato.models.base.mechanism import Run
from sfumato.models.linear.fit import SolvedFit
from sfumato.queries import Identity, Workload, default_workload
from sfumato.queries.strategy import Strategy
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema
from sfumato.schema.parts import missing_of


def design_of(strategy: Strategy, budget: Budget, contributions: int, unit: int = 1) -> Design:
    """The noise that a budget buys each row of a strategy; the fullest cell bears the whole of it.

    unit: the most one row of data adds to a cell: 1 for counts, half_units for a measure.
    """
    whole = whole_noise(strategy, budget, contributions, unit)

    noises = tuple(with_weight(whole, weight) for weight in strategy.weights)
    return Design(strategy.queries, noises, strategy.which)


def with_weight(whole: Noise, weight: int) -> Noise:
    """The noise of a row of this weight."""
    if isinstance(whole, Laplace):
        return Laplace(whole.scale / weight)
    return Gaussian(whole.sigma_squared / weight**2)


def whole_noise(strategy: Strategy, budget: Budget, contributions: int, unit: int = 1) -> Noise:
    """The noise of a row of weight 1."""
    l1 = strategy.load(1) if budget.is_pure else 1
    l2_squared = 1 if budget.is_pure else strategy.load(2)
    return noise_for(budget, contributions, l1=unit * Fraction(l1), l2_squared=unit**2 * Fraction(l2_squared))


def designs(strategy: Strategy, schema: Schema, budget: Budget) -> dict[str, Design]:
    """What a linear mechanism would ask of each statistic, the budget split over them by weight; reads no data.

    The rows in which a measure is missing are counted for the measure's own share.
    """
    shares = dict(zip(schema.weights, budget.split(*schema.weights.values()), strict=True))
    shares |= {missing_of(of): share for of, share in shares.items() if missing_of(of) in schema.units}
    contributions = schema.privacy_unit.contributions
    return {of: design_of(strategy, shares[of], contributions, unit) for of, unit in schema.units.items()}


def measure_and_fit(curator: Curator, schema: Schema, strategy: Strategy, budget: Budget) -> Cube:
    """Measure a strategy for every statistic and fit all cells by least squares."""
    fits: list[Fit] = []
    asked = designs(strategy, schema, budget)
    for of in schema.weights:
        design = asked[of]
        scales = [noise.parameter for noise in design.noises]
        measured = curator.measure(
            design.queries, of=of, scales=scales if design.which is not None else scales[0], which=design.which
        )
        fits += [SolvedFit.of_answers(each) for each in with_missing(measured)]
    return Cube(schema, fits=tuple(fits))


def linear(strategy: Callable[[Schema, Workload, bool], Strategy]) -> Run:
    """The mechanism that a strategy makes: measure it, the budget split over the statistics by weight, and fit."""

    def run(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube:
        asked = workload or default_workload(schema.domain)
        return measure_and_fit(curator, schema, strategy(schema, asked, budget.is_pure), budget)

    return run


def every_cell(schema: Schema, workload: Workload | None = None, pure: bool = True) -> Strategy:
    """The plainest strategy: each cell by itself, all alike, whatever the workload and the budget."""
    return Strategy(Identity(schema.domain.size))


def plain_cells(curator: Curator, shares: Sequence[Budget]) -> tuple[Fit, ...]:
    """The measures of a mechanism that is clever about the count alone: noise on every cell."""
    asked, measures = Identity(curator.domain.size), curator.statistics[1:]
    found = (curator.measure(asked, share, of=of) for of, share in zip(measures, shares, strict=True))
    return tuple(SolvedFit.of_answers(each) for measured in found for each in with_missing(measured))
