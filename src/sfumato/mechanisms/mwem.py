"""MWEM: multiplicative weights steered by the exponential mechanism.

Hardt, Ligett, McSherry, A simple and practical algorithm for differentially private data release, NIPS 2012. Corrected:
the paper takes the number of rows as known; here it is measured. The complement of a measured query touches no cell
twice, so it is measured along with it at no cost. The paper publishes the mean of all rounds' estimates; with its own
improvement, several passes over everything measured, the last one is better and is what is published.
"""

from __future__ import annotations

from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.measurement import Measurement
from sfumato.mechanisms._multiplicative_weights import (
    even_start,
    learn,
    measure_total,
    misfit_of,
    plain_cells,
    rounds_for,
    sampled,
    shaped_fit,
    shaping_work,
    with_rest,
)
from sfumato.queries import Workload, default_workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

MOST_CANDIDATES = 2**16


def mwem(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, rounds: int | None = None
) -> Cube:
    """Fit a cube, round by round, to the query it answers worst.

    budget: split evenly over the count and the measures, which get noise on every cell. Of the count's share a tenth
    goes to the total, a tenth to measuring how wrong the result is, and the rest evenly to the rounds.
    rounds: more rounds touch more queries, each with more noise; by default as many as the noisy total is worth.
    """
    workload = workload or default_workload(schema.domain)
    asked = sampled(workload, MOST_CANDIDATES)
    for_count, *for_measures = budget.evenly(len(curator.statistics))
    for_total, for_rounds, for_misfit = for_count.split(1, 8, 1)
    total = measure_total(curator, for_total)
    x_hat = even_start(total, curator.domain.size)
    rounds = rounds or rounds_for(total, for_count, curator.charge.contributions, curator.domain.size)

    seen: list[Measurement] = []
    for share in for_rounds.evenly(rounds):
        to_select, to_measure = share.split(1, 1)
        worst = curator.select(misfit_of(asked, x_hat), to_select)
        seen.append(curator.measure(with_rest(asked.row(worst)), to_measure))
        x_hat = learn(x_hat, seen)

    count = shaped_fit(curator, total, x_hat, workload, for_misfit)
    return Cube(schema, fits=(count, *plain_cells(curator, for_measures)))


def mwem_work(schema: Schema, workload: Workload, budget: Budget, rows: int) -> int:
    """About how many numbers in memory a release changes, of a table of about so many rows."""
    return shaping_work(schema, sampled(workload, MOST_CANDIDATES), budget, rows)
