"""PMW: multiplicative weights, with queries chosen by the sparse vector technique.

Hardt, Rothblum, A multiplicative weights mechanism for privacy-preserving data analysis, FOCS 2010. Corrected: they
take the number of rows as known; here it is measured. Queries come from the workload, in its order, since a release is
made once; where no misfit exceeds the threshold any more, it is halved and the queries are gone through again, so that
the whole budget is of use.
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
    """Settings chosen by judgement.

    most_queries: number of queries in the stream; each adds noise to the search, so fewer are found more surely.
    patience: first threshold, in noise scales of the search times the log of the number of queries; a higher one
    corrects fewer queries at first, and is halved later.
    """

    most_queries: int = 2**12
    patience: int = 4


SETTINGS = Settings()


def pmw(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, settings: Settings = SETTINGS
) -> Cube:
    """Publish a multiplicative-weights fit to the queries whose misfit exceeds a threshold.

    budget: split by weight over the count and the measures, which get noise on every cell. The count's share goes to
    one-way marginals where these pay, to the total, to measuring the error of the result, and the rest evenly to the
    rounds: half of each to find the next query above the threshold (sparse vector), half to measure it.
    """
    workload = workload or default_workload(schema.domain)
    queries = weights.sampled(workload, settings.most_queries)
    for_count, *for_measures = budget.split(*schema.weights.values())
    counted, for_learning = counted_beside_shape(curator, for_count)
    for_total, for_rounds, for_misfit = for_learning.split(*settings.shares)
    total = weights.measure_total(curator, for_total)
    x_hat = weights.even_start(total, curator.domain.size)
    k = curator.charge.contributions
    rounds = weights.rounds_for(float(total.estimate[0]), for_count, k, curator.domain.size, settings)

    to_find, to_measure = for_rounds.evenly(rounds)[0].split(1, 1)
    threshold = search_noise(to_find, queries.rows, k, settings)
    seen: list[Measurement] = []
    start, unspent = 0, Fraction(0)
    for _ in range(rounds):
        bad = curator.first_above(weights.misfit_of(queries, x_hat), threshold, to_find, start=start)
        if bad is None:
            threshold, start = max(1, threshold // 2), 0
            unspent += to_measure.epsilon or 0
            continue
        seen.append(curator.measure(weights.with_rest(queries.row(bad)), to_measure))
        x_hat = weights.learn(x_hat, seen, settings)
        start = bad + 1

    for_misfit = Budget.pure((for_misfit.epsilon or 0) + unspent)  # what no query was found for measures the error
    count = weights.shaped_fit(curator, total, x_hat, workload, for_misfit, for_count, counted)
    return Cube(schema, fits=(count, *plain_cells(curator, for_measures)))


def search_noise(budget: Budget, queries: int, contributions: int, settings: Settings = SETTINGS) -> int:
    """Starting threshold of the search for a misfit: patience * contributions / epsilon * log(queries).

    That is the order of the largest noise of so many comparisons.
    """
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
