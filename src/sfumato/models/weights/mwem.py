"""MWEM: multiplicative weights, with queries chosen by the exponential mechanism.

Hardt, Ligett, McSherry, A simple and practical algorithm for differentially private data release, NIPS 2012. Corrected:
the paper takes the number of rows as known; here it is measured. The complement of a measured query adds no
sensitivity, so it is measured along with it at no cost. The paper publishes the mean of all rounds' estimates; with its
own improvement, several passes over all answers, the last estimate is better and is what is published.
"""

from __future__ import annotations

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

    most_candidates: queries that the exponential mechanism chooses from; more are closer to the whole workload and
    slower.
    """

    most_candidates: int = 2**16


SETTINGS = Settings()


def mwem(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, settings: Settings = SETTINGS
) -> Cube:
    """Publish a multiplicative-weights fit, round by round, to the query with the largest misfit.

    budget: split by weight over the count and the measures, which get noise on every cell. The count's share goes to
    one-way marginals where these pay, to the total, to measuring the error of the result, and the rest evenly to the
    rounds.
    """
    workload = workload or default_workload(schema.domain)
    queries = weights.sampled(workload, settings.most_candidates)
    for_count, *for_measures = budget.split(*schema.weights.values())
    counted, for_learning = counted_beside_shape(curator, for_count)
    for_total, for_rounds, for_misfit = for_learning.split(*settings.shares)
    total = weights.measure_total(curator, for_total)
    x_hat = weights.even_start(total, curator.domain.size)
    rows, contributions = float(total.estimate[0]), curator.charge.contributions
    rounds = weights.rounds_for(rows, for_count, contributions, curator.domain.size, settings)

    seen: list[Measurement] = []
    for share in for_rounds.evenly(rounds):
        to_select, to_measure = share.split(1, 1)
        worst = curator.select(weights.misfit_of(queries, x_hat), to_select)
        seen.append(curator.measure(weights.with_rest(queries.row(worst)), to_measure))
        x_hat = weights.learn(x_hat, seen, settings)

    count = weights.shaped_fit(curator, total, x_hat, workload, for_misfit, for_count, counted)
    return Cube(schema, fits=(count, *plain_cells(curator, for_measures)))


MECHANISM = Mechanism(
    name="mwem",
    summary="learns a table from the queries it answers worst",
    paper="Hardt, Ligett, McSherry 2012",
    run=mwem,
    refuses=weights.shape_refuses,
    holds=Holds(most_cells=weights.MOST_CELLS),
    forecast=Forecast(checks_itself=True, work=weights.shaping_work(SETTINGS.most_candidates, SETTINGS)),
    lab=Lab(known_limits=(Limit("sparse", "cell", 0.20),)),
)
