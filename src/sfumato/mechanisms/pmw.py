"""PMW: private multiplicative weights, which pays only for the queries it would answer badly.

Hardt, Rothblum, A multiplicative weights mechanism for privacy-preserving data analysis, FOCS 2010. Corrected: they
take the number of rows as known; here it is measured. Queries come from the workload, in its order, since a release is
made once; where none is answered badly any more the threshold is halved and they are gone through again, so that the
whole budget is of use.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log

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

MOST_QUERIES = 2**12  # every query on the way adds its noise to the search, so fewer are found more surely


def pmw(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, rounds: int | None = None
) -> Cube:
    """Fit a cube to one query after the other, skipping those it answers well already.

    budget: split evenly over the count and the measures, which get noise on every cell. Of the count's share a tenth
    goes to the total, a tenth to measuring how wrong the result is, and the rest evenly to the rounds: half of each to
    find the next query that is answered badly, half to measure it.
    rounds: how many queries are found at most; by default as many as the noisy total is worth.
    """
    workload = workload or default_workload(schema.domain)
    asked = sampled(workload, MOST_QUERIES)
    for_count, *for_measures = budget.evenly(len(curator.statistics))
    for_total, for_rounds, for_misfit = for_count.split(1, 8, 1)
    total = measure_total(curator, for_total)
    x_hat = even_start(total, curator.domain.size)
    k = curator.charge.contributions
    rounds = rounds or rounds_for(total, for_count, k, curator.domain.size)

    to_find, to_measure = for_rounds.evenly(rounds)[0].split(1, 1)
    threshold = search_noise(to_find, asked.rows, k)
    seen: list[Measurement] = []
    start, unspent = 0, Fraction(0)
    for _ in range(rounds):
        bad = curator.first_above(misfit_of(asked, x_hat), threshold, to_find, start=start)
        if bad is None:
            threshold, start = max(1, threshold // 2), 0
            unspent += to_measure.epsilon or 0
            continue
        seen.append(curator.measure(with_rest(asked.row(bad)), to_measure))
        x_hat = learn(x_hat, seen)
        start = bad + 1

    for_misfit = Budget.pure((for_misfit.epsilon or 0) + unspent)  # what no query was found for measures the error
    count = shaped_fit(curator, total, x_hat, workload, for_misfit)
    return Cube(schema, fits=(count, *plain_cells(curator, for_measures)))


def search_noise(budget: Budget, queries: int, contributions: int) -> int:
    """The misfit that stands out from the noise of a search: about what the luckiest of so many queries draws."""
    assert budget.epsilon is not None  # noqa: S101 (pure epsilon only)
    return ceil(4 * contributions / float(budget.epsilon) * log(max(2, queries)))


def pmw_work(schema: Schema, workload: Workload, budget: Budget, rows: int) -> int:
    """About how many numbers in memory a release changes, of a table of about so many rows."""
    return shaping_work(schema, sampled(workload, MOST_QUERIES), budget, rows)
