"""PMW: private multiplicative weights, which pays only for the queries it would answer badly.

Hardt, Rothblum, A multiplicative weights mechanism for privacy-preserving data analysis, FOCS 2010. Corrected: they
take the number of rows as known; here it is measured. Queries come from the workload, in its order, since a release is
made once; where none is answered badly any more the threshold is halved and they are gone through again, so that the
whole budget is of use.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log

from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.measurement import Measurement
from sfumato.models.base.measure_and_fit import plain_cells
from sfumato.models.base.mechanism import Forecast, Holds, Lab, Limit, Mechanism
from sfumato.models.calibration.first_stage import counted_beside_shape
from sfumato.models.weights import measure as weights
from sfumato.queries import Workload, default_workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema


@dataclass(frozen=True)
class Settings(weights.Learning):
    """What was chosen by judgement.

    most_queries: that are gone through; every query on the way adds its noise to the search, so fewer are found more
    surely. patience: times the noise of a search and the logarithm of the queries is what a misfit must reach at first
    to be corrected; more corrects fewer queries at first, and the threshold is halved later.
    """

    most_queries: int = 2**12
    patience: int = 4


SETTINGS = Settings()


def pmw(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, settings: Settings = SETTINGS
) -> Cube:
    """Fit a cube to one query after the other, skipping those it answers well already.

    budget: split by weight over the count and the measures, which get noise on every cell. Of the count's share parts
    go to margins where these pay, to the total and to measuring how wrong the result is, and the rest evenly to the
    rounds: half of each to find the next query that is answered badly, half to measure it.
    """
    workload = workload or default_workload(schema.domain)
    asked = weights.sampled(workload, settings.most_queries)
    for_count, *for_measures = budget.split(*schema.weights.values())
    counted, for_learning = counted_beside_shape(curator, for_count)
    for_total, for_rounds, for_misfit = for_learning.split(*settings.shares)
    total = weights.measure_total(curator, for_total)
    x_hat = weights.even_start(total, curator.domain.size)
    k = curator.charge.contributions
    rounds = weights.rounds_for(float(total.estimate[0]), for_count, k, curator.domain.size, settings)

    to_find, to_measure = for_rounds.evenly(rounds)[0].split(1, 1)
    threshold = search_noise(to_find, asked.rows, k, settings)
    seen: list[Measurement] = []
    start, unspent = 0, Fraction(0)
    for _ in range(rounds):
        bad = curator.first_above(weights.misfit_of(asked, x_hat), threshold, to_find, start=start)
        if bad is None:
            threshold, start = max(1, threshold // 2), 0
            unspent += to_measure.epsilon or 0
            continue
        seen.append(curator.measure(weights.with_rest(asked.row(bad)), to_measure))
        x_hat = weights.learn(x_hat, seen, settings)
        start = bad + 1

    for_misfit = Budget.pure((for_misfit.epsilon or 0) + unspent)  # what no query was found for measures the error
    count = weights.shaped_fit(curator, total, x_hat, workload, for_misfit, for_count, counted)
    return Cube(schema, fits=(count, *plain_cells(curator, for_measures)))


def search_noise(budget: Budget, queries: int, contributions: int, settings: Settings = SETTINGS) -> int:
    """The misfit that stands out from the noise of a search: about what the luckiest of so many queries draws."""
    assert budget.epsilon is not None  # noqa: S101 (pure epsilon only)
    return ceil(settings.patience * contributions / float(budget.epsilon) * log(max(2, queries)))


MECHANISM = Mechanism(
    name="pmw",
    summary="corrects a table where it is off",
    paper="Hardt, Rothblum 2010",
    run=pmw,
    refuses=weights.shape_refuses,
    holds=Holds(most_cells=weights.MOST_CELLS),
    forecast=Forecast(checks_itself=True, work=weights.shaping_work(SETTINGS.most_queries, SETTINGS)),
    lab=Lab(known_limits=(Limit("sparse", "cell", 0.61),)),
)
