"""Residual: unbiased marginals of a stated set, measured in the residual basis with optimal noise.

Xiao, He, Zhang, Kifer, "An optimal and scalable matrix mechanism for noisy marginals under convex loss functions",
NeurIPS 2023. The residual of a table is its component orthogonal to its margins (analysis of variance); a marginal is
the sum of the residuals of all of its subsets. Each residual is the precision-weighted mean of its estimates. Those of
public counts have no error. Impossible cells are conditions of the fit (models/margins/noise.py, `Linked`).

The paper gives each contrast a noise of its own size. Here rows are multiplied by integers instead, so that equal noise
on all of them is equivalent, and the budget is used exactly. A row of the private table lies in one cell of every
table, so the costs of tables add up (docs/privacy.md, section 9).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import prod, sqrt

import numpy as np

from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.measurement import Measurement, with_missing
from sfumato.models.base.mechanism import Holds, Mechanism
from sfumato.models.linear.strategies.residual_basis import (
    ResidualBasis,
    levelled,
    residual_basis,
    squares,
    tables,
    wanted_margins,
)
from sfumato.models.margins.content import Margins
from sfumato.models.margins.joining import NO_NOISE, Observed, join_unbiased, parts
from sfumato.models.margins.table import JoinedErrors, Places, Table, subsets
from sfumato.models.margins.views import COUNT
from sfumato.queries import Queries, Scaled, Workload
from sfumato.schema import Schema

MOST_CELLS = 2**22  # of a table that is measured
FINEST = 2**30  # parts in which shares of a budget are counted, where noise has Laplace's distribution
MULTIPLE = 8  # of the longest row: rounding to whole multiples changes errors by a ten-thousandth
MOST_VARIANCE = 2.0**45  # of noise on multiples of rows, half of what the kernel can draw


def residual(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Margins:
    """Publish unbiased residuals of all tables that the wanted marginals are made of.

    budget: counts get `COUNT` parts and every measure one.
    """
    sizes, wanted = schema.domain.shape, wanted_margins(schema.domain, workload)
    basis = residual_basis(sizes, wanted, pure=budget.is_pure)
    residuals: dict[str, dict[Places, Table]] = {}
    measured, how = [], []
    shares = budget.split(COUNT, *(measure.budget_share for measure in schema.summed.values()))
    for of, share in zip(schema.weights, shares, strict=True):
        largest = schema.units[of] * schema.most_of_a_unit
        plan = _plan(basis, share, largest)
        if plan is None:  # contrasts would have to be multiplied beyond what noise can be drawn for
            plain = residual_basis(sizes, wanted, pure=budget.is_pure, few=2)
            plan = _plan(plain, share, largest, even_if_coarse=True)
        assert plan is not None  # noqa: S101 (for the type checker)
        observed: dict[str, list[Observed]] = defaultdict(list)
        for places, query in plan.items():
            marginal = curator.margin([schema.domain.names[place] for place in places])
            for answers in with_missing(marginal.measure(query.queries, of=of, scales=query.scale)):
                measured.append((places, answers))
                how.append((query.few, query.length))
                observed[answers.of].append(_observed(places, query, marginal.domain.shape, answers))
        residuals |= {statistic: parts(seen_of_it) for statistic, seen_of_it in observed.items()}
    residuals["count"] |= _known(schema, residuals["count"])
    return Margins(schema, residuals, measured=tuple(measured), unbiased=True, asked=tuple(how))


def _known(schema: Schema, noisy: Mapping[Places, Table]) -> dict[Places, Table]:
    """Residuals of public counts, which have no error; of those alone that the noisy residuals do not contradict.

    Residuals of different tables are independent, so no other one changes by generalised least squares.
    """
    known: dict[Places, Table] = {}
    for fact in schema.known:
        shape = [schema.domain.shape[place] for place in fact.places]
        within = {part: noisy.get(tuple(fact.places[axis] for axis in part)) for part in subsets(range(len(shape)))}
        told = {part: table for part, table in within.items() if table is not None}
        if len(told) == len(within):
            bases = tuple(np.full(size, 1.0 / size) for size in shape)
            errors = JoinedErrors(bases, {part: table.noise for part, table in told.items()})
            estimate = join_unbiased(bases, {part: table.estimate for part, table in told.items()})
            if fact.contradicts(estimate.reshape(-1), errors.of_cells().reshape(-1)):
                continue
        exactly = Observed(fact.places, fact.counts.reshape(shape), NO_NOISE)
        known |= {part: replace(each, noise=np.zeros(each.noise.shape)) for part, each in parts([exactly]).items()}
    return known


@dataclass(frozen=True, eq=False)
class _TableQueries:
    """Queries on one table: contrasts along axes of few values, rows scaled to a common length (0: not scaled)."""

    queries: Queries
    scale: Fraction  # of the noise
    few: int
    length: int
    always: Places  # the axes that it is contrasts along


def _plan(
    basis: ResidualBasis, budget: Budget, largest: int, even_if_coarse: bool = False
) -> dict[Places, _TableQueries] | None:
    """Queries and noise scale of each table; None if integer multiples of rows would be too coarse.

    largest: the most that one person changes a cell by.
    """
    sizes, shares = basis.sizes, basis.shares
    always = {places: tuple(axis for axis in places if sizes[axis] <= basis.few) for places in shares}
    by_table = {places: tables(tuple(sizes[axis] for axis in places), basis.few) for places in shares}
    lengths = dict.fromkeys(shares, 0)
    if basis.pure:
        parts_of_all = [max(1, round(FINEST * share)) for share in shares.values()]
        scales = [largest * sum(parts_of_all) / (part * budget.amount) for part in parts_of_all]
    else:
        # A table with a share x of rho has noise of variance p / (2 x rho) on a row of length 1.
        costs = {places: prod(1 - 1 / sizes[axis] for axis in always[places]) for places in shares}
        heights = {places: sqrt(share / costs[places]) for places, share in shares.items()}
        longest = max(sqrt(float(squares(by_table[places]).max())) / height for places, height in heights.items())
        finest = sqrt(2 * float(budget.amount) * MOST_VARIANCE) / (largest * longest)
        if finest < 1 and not even_if_coarse:
            return None
        multiple = min(MULTIPLE, finest)
        lengths = {places: max(1, round(multiple * longest * height)) for places, height in heights.items()}
        by_table = {places: levelled(by_table[places], length) for places, length in lengths.items()}
        moved = sum(_moved(queries) for queries in by_table.values())
        scales = [largest**2 * moved / (2 * budget.amount)] * len(shares)
    return {
        places: _TableQueries(by_table[places], scale, basis.few, lengths[places], always[places])
        for places, scale in zip(shares, scales, strict=True)
    }


@lru_cache(maxsize=32)
def _moved(queries: Queries) -> int:
    """Squared L2 sensitivity of the queries to one row of the private table."""
    return int(queries.l2_squared)


def _observed(places: Places, asked: _TableQueries, shape: tuple[int, ...], measured: Measurement) -> Observed:
    """Estimate of a table from answers to orthogonal rows: sum of rows times answers over squared lengths."""
    scaled = measured.queries
    queries = scaled.queries if isinstance(scaled, Scaled) else scaled
    multiples = scaled.weights.astype(np.float64) if isinstance(scaled, Scaled) else np.ones(())
    lengths = squares(queries)
    values = queries.T @ (measured.answers / (multiples * lengths))
    variance = measured.noise.variance * float((1.0 / (multiples**2 * lengths)).mean())
    return Observed(places, values.reshape(shape), max(variance, NO_NOISE), asked.always)


def _refuses(schema: Schema, workload: Workload | None) -> str | None:
    """Reason why a wanted marginal has too many cells, or None."""
    sizes, names = schema.domain.shape, schema.domain.names
    for places in wanted_margins(schema.domain, workload):
        cells = prod(sizes[place] for place in places)
        if cells > MOST_CELLS:
            listed = ", ".join(names[place] for place in places)
            return f"the table of {listed} has {cells:,} cells, and {MOST_CELLS:,} can be measured; ask for fewer"
    return None


MECHANISM = Mechanism(
    name="residual",
    summary="unbiased tables of few attributes at a time, with the least noise for those that are wanted",
    paper="Xiao et al. 2023",
    run=residual,
    gaussian=True,
    refuses=_refuses,
    holds=Holds(by_margins=True, zeros=True),
)
