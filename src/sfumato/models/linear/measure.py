"""Laplace: equal noise on every query of the workload, calibrated to its L1 sensitivity; the classical baseline.

Dwork, McSherry, Nissim, Smith: Calibrating noise to sensitivity in private data analysis (TCC 2006). The noise grows
with the number of queries that touch one cell. Inconsistent answers are reconciled by least squares, and sums that the
queries do not determine are reported as unknown.

Hierarchical: noisy counts of the nodes of a tree of ranges, fitted by least squares.

Hay, Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially private histograms through consistency", VLDB
2010; branching by expected error after Qardaji, Yang, Li, VLDB 2013; weights of levels after Cormode, Procopiuc, Shen,
Srivastava, Yu, ICDE 2012. The papers give all levels equal or geometric weights and take the number of cells to be a
power of the branching; here the weights minimise the expected error, any number of cells will do, and several
attributes combine one tree each (Kronecker product). Consistency is exact GLS, for uneven trees and weights too.

Wavelet: noisy Haar coefficients (Privelet), fitted by least squares.

Xiao, Wang, Gehrke, "Differential privacy via wavelet transforms", ICDE 2010: Privelet, with the nominal transform for
categories, and Privelet+. The paper pads attributes to a power of two and leaves small attributes untransformed by a
bound on the worst query; here halves may be uneven and the expected error on the workload decides. Noise is discrete.

Matrix: noisy answers to a strategy optimised for the workload (the matrix mechanism), fitted by least squares.

Li, Hay, Rastogi, Miklau, McGregor, "The matrix mechanism", VLDB Journal 2015; strategies of McKenna, Miklau, Hay,
Machanavajjhala, VLDB 2018 (HDMM): p-identity per attribute, Kronecker products, marginals. The papers' weights are real
numbers; here they are integers with equal column sums, and the expected error is that of the rounded strategy.
Identity, trees and wavelets are candidates too, so its expected error is never larger than theirs.

Division (WD): noise on the workload's queries, with larger scales for queries that share a heavily queried cell.

Li, Ma, Wu, Zhang, Ma, Hui, Zhang, Zhu: A workload division differential privacy algorithm to improve the accuracy for
linear computations, algorithm 1. A part of the workload is split into the queries that touch its hot cell, the most
queried one, and the others. Scales b_i are private if for every cell c

    sum over parts i of (queries of part i that touch c) / b_i <= epsilon,

so that parts on different cells compose in parallel; the precisions 1 / b_i minimise the weighted error under this
constraint (`best_precisions`).

Corrected: the hot cell is found from the workload and not from the data (line 3); the recursion continues in both
halves (line 8); halves do not get half of the budget each. All queries that touch the hot cell go into the first half:
leaving some of them in the second, as line 5 does, would leave the cell hot in both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.models.base.measure_and_fit import linear
from sfumato.models.base.mechanism import Forecast, Holds, Mechanism, per_cell
from sfumato.models.linear.strategies.budget_allocation import TOLERANCE, best_precisions
from sfumato.models.linear.strategies.hdmm import BITS, best_strategy
from sfumato.models.linear.strategies.hierarchies import Levels, tree_strategy
from sfumato.models.linear.strategies.hierarchies import wavelet_strategy as wavelets_over
from sfumato.plain_text import as_rows
from sfumato.queries import Queries, Scaled, Workload, default_workload
from sfumato.queries.arrays import MOST_LISTED
from sfumato.queries.strategy import Strategy
from sfumato.queries.workload import GOLDEN
from sfumato.schema import Schema

MOST_QUERIES = 2**20
FAR = 3.0  # times the error of the best make it worth a warning


def laplace_strategy(schema: Schema, workload: Workload, pure: bool) -> Strategy:
    """Strategy of the workload's own queries that touch a possible cell; the others are known to be 0."""
    return Strategy(_of_possible(schema, workload).queries)


def _of_possible(schema: Schema, workload: Workload) -> Workload:
    """Workload without the queries about structural zeros alone, which need no budget."""
    if schema.possible is None:
        return workload
    names, blocks, weights = list[str](), list[Queries](), list[float]()
    marks = np.arange(1, workload.columns + 1) * GOLDEN % 1.0 * schema.possible  # whose sums cancel in no query
    for name, block, weight in zip(workload.names, workload.blocks, workload.weights, strict=True):
        touching = np.flatnonzero(block @ marks)
        if len(touching):
            names.append(name)
            blocks.append(block if len(touching) == block.rows else block[touching])
            weights.append(weight)
    return Workload(tuple(names), tuple(blocks), tuple(weights)) if blocks else workload


laplace = linear(laplace_strategy)


def laplace_refuses(schema: Schema, workload: Workload | None) -> str | None:
    """Reason why the workload cannot be measured query by query, or None."""
    queries = (workload or default_workload(schema.domain)).queries
    if not queries.integral:
        return "the workload has weights that are not whole numbers; hierarchical and matrix take any weights"
    if queries.rows > MOST_QUERIES:
        return (
            f"the workload has {queries.rows:,} queries and {MOST_QUERIES:,} can be measured one by one; "
            "name the ones that matter with --workload, or use hierarchical"
        )
    return None


def _remark(priced: Mapping[str, float], schema: Schema, workload: Workload) -> str | None:
    """Warning for a plan where the expected error is FAR times that of the best mechanism."""
    best = min(priced, key=lambda name: priced[name])
    if priced[LAPLACE.name] <= FAR * priced[best]:
        return None
    times = priced[LAPLACE.name] / priced[best]
    return (
        f"laplace adds noise to every query of the workload, and a person counts in up to {workload.queries.l1:,} of "
        f"them; {best} asks other queries and has {times:,.0f} times less error."
    )


LAPLACE = Mechanism(
    name="laplace",
    summary="the same noise on each of the workload's queries",
    paper="Dwork et al. 2006",
    run=laplace,
    refuses=laplace_refuses,
    holds=Holds(zeros=True),
    answers="its workload",
    forecast=Forecast(strategy=laplace_strategy, remark=_remark),
)

# -- hierarchical


def hierarchical_strategy(schema: Schema, workload: Workload, pure: bool, levels: Levels = "optimised") -> Strategy:
    """Tree strategy, with "uniform" or "geometric" weights of levels (the papers) or "optimised" by expected error."""
    return tree_strategy(schema.domain, workload, pure, levels)


def _linear(
    strategy: Callable[[Schema, Workload, bool], Strategy], name: str, summary: str, paper: str, **foretold: bool
) -> Mechanism:
    """Mechanism that measures a strategy and fits it by least squares. foretold: further fields of `Forecast`."""
    forecast = Forecast(strategy=strategy, **foretold)  # type: ignore[arg-type]
    return Mechanism(
        name, summary, linear(strategy), paper=paper, gaussian=True, holds=Holds(zeros=True), forecast=forecast
    )


HIERARCHICAL = _linear(
    hierarchical_strategy, "hierarchical", "counts ranges in a tree, made consistent", "Hay et al. 2010"
)

# -- wavelet


def wavelet_strategy(schema: Schema, workload: Workload, pure: bool) -> Strategy:
    """Haar wavelet along ordered attributes, nominal wavelet along categories, identity where its error is smaller."""
    return wavelets_over(schema.domain, workload, pure)


WAVELET = _linear(wavelet_strategy, "wavelet", "Haar wavelets of the cells", "Xiao, Wang, Gehrke 2010", for_auto=False)

# -- matrix

BITS_BESIDE_MEASURES = 8  # sums of a measure come in up to 2^30 steps a row: weights times sums must stay below 2^62


def matrix_strategy(schema: Schema, workload: Workload, pure: bool) -> Strategy:
    """Strategy of least expected error on the workload, over all kinds."""
    bits = BITS_BESIDE_MEASURES if schema.summed else BITS
    return best_strategy(schema.domain, workload, pure, bits=bits)


MATRIX = _linear(
    matrix_strategy,
    "matrix",
    "finds the queries to ask from which yours follow best",
    "Li et al. 2015, McKenna et al. 2018",
    optimised=True,
)


# -- division


MOST_PARTS = 32
MOST_LOADS = 2**21  # numbers kept, one per part and cell: large domains are divided into fewer parts
LEAST_GAIN = 0.005  # of the error, for a division to be worth having
ROUGHLY = 1e-3  # how exactly the error is known while divisions are tried
FINENESS = 64  # the least weight: rounding the others to whole numbers changes them by less than a hundredth


@dataclass(frozen=True, eq=False)
class Part:
    """Part of a workload whose queries all get noise of one size.

    members: mask of its queries, (queries,). weight: their total weight. loads: its queries on each cell, (cells,).
    """

    members: NDArray[np.bool_]
    weight: float
    loads: Codes


@dataclass(frozen=True, eq=False)
class Division:
    """Partition of a workload into parts with their own precision.

    precisions: 1 / noise scale of each part at epsilon 1, (parts,). error: the weighted mean error.
    """

    parts: tuple[Part, ...]
    precisions: Floats
    error: float


@lru_cache(maxsize=4)  # a plan and the release that follows it ask for the same
def divide(workload: Workload, *, power: int = 2) -> Strategy:
    """Strategy of the workload's own queries, with larger noise for parts on heavily queried cells.

    power: 2 minimises the mean squared noise, as everywhere here; 1 the paper's mean absolute noise.
    """
    division = divide_recursively(workload, power=power)
    rounded = np.rint(FINENESS * division.precisions / division.precisions.min()).astype(np.int64)
    levels, number = np.unique(rounded, return_inverse=True)
    if len(levels) == 1:
        return Strategy(workload.queries)
    which = np.zeros(workload.queries.rows, dtype=np.int64)
    for part, level in zip(division.parts, number, strict=True):
        which[part.members] = level
    return Strategy(workload.queries, tuple(levels.tolist()), which)


def divide_recursively(workload: Workload, *, power: int = 2) -> Division:
    """Split parts greedily while the error falls by LEAST_GAIN."""
    queries = workload.queries
    if not queries.integral:
        raise QueryError("a workload that is measured itself needs whole-number weights")
    most = max(2, min(MOST_PARTS, MOST_LOADS // queries.columns))
    blocks = zip(workload.blocks, workload.weights, strict=True)
    weights = np.concatenate([np.full(block.rows, matters / block.rows) for block, matters in blocks])
    best = weigh(_blocks(workload, weights, most // 2), power, ROUGHLY)
    waiting = deque(best.parts)
    while waiting and len(best.parts) < most:
        part = waiting.popleft()
        others = tuple(other for other in best.parts if other is not part)
        halves = split(part, queries, weights)
        quarters = tuple(quarter for half in halves for quarter in split(half, queries, weights))
        # Two halves that share a second hot cell free nothing as long as that one stays undivided: look a step ahead.
        for pieces in (halves, quarters):
            candidate = weigh((*others, *pieces), power, ROUGHLY)
            if candidate.error < (1 - LEAST_GAIN) * best.error:
                best = candidate
                waiting.extend(pieces)
                break
    return weigh(best.parts, power)


def split(part: Part, queries: Queries, weights: Floats) -> tuple[Part, ...]:
    """Split a part into the queries on its hot cell and the others; the part itself if all touch the same cells.

    The hot cell is the one that most queries touch, among cells that not all of them touch. weights: (queries,).
    """
    divides = (part.loads > 0) & (part.loads < np.count_nonzero(part.members))
    if not divides.any():
        return (part,)
    hot = np.zeros(queries.columns, dtype=np.int64)
    hot[np.argmax(np.where(divides, part.loads, 0))] = 1
    touching = part.members & (queries @ hot != 0)
    others = part.members & ~touching
    if not touching.any() or not others.any():  # only where weights other than 0 and 1 make a load no count
        return (part,)
    return _part(touching, queries, weights), _part(others, queries, weights)


def weigh(parts: tuple[Part, ...], power: int, tolerance: float = TOLERANCE) -> Division:
    """Division with optimal precisions for given parts."""
    weights = np.array([part.weight for part in parts])
    loads = np.stack([part.loads for part in parts])
    precisions = best_precisions(weights, loads, power, tolerance=tolerance)
    return Division(parts, precisions, float((weights * precisions**-power).sum() / weights.sum()))


def _blocks(workload: Workload, weights: Floats, most: int) -> tuple[Part, ...]:
    """Parts that are the blocks of a workload, if these are few; else one part."""
    queries, rows = workload.queries, [block.rows for block in workload.blocks]
    number = np.repeat(np.arange(len(rows)), rows) if len(rows) <= most else np.zeros(queries.rows)
    return tuple(_part(number == group, queries, weights) for group in np.unique(number))


def _part(members: NDArray[np.bool_], queries: Queries, weights: Floats) -> Part:
    """Part of a workload from a mask of its queries, (queries,)."""
    loads = np.asarray(Scaled(queries, members.astype(np.int64)).column_sums(), dtype=np.int64)
    return Part(members, float(weights[members].sum()), loads)


HELPS = 0.95  # of the error of plain noise, at most, to be worth a remark
HOT = 2.0  # times as many queries as touch the typical cell make a cell hot


def division_strategy(schema: Schema, workload: Workload, pure: bool) -> Strategy:
    """Strategy of the workload's own queries, in parts of different precision."""
    return divide(_of_possible(schema, workload))


division = linear(division_strategy)


def _division_remark(priced: Mapping[str, float], schema: Schema, workload: Workload) -> str | None:
    """Sentence for a plan where division beats equal noise."""
    mine, plain = priced[DIVISION.name], priced.get(LAPLACE.name, 0.0)
    if mine > HELPS * plain:
        return None
    best = min(priced, key=lambda name: priced[name])
    end = "" if best == DIVISION.name else f" Neither is best: {best} has {as_rows(priced[best])}."
    return (
        f"{_hottest(schema, workload)} laplace gives all queries the noise that the most queried cell needs. division "
        f"gives the queries on it a noise of their own, which brings the error from {as_rows(plain)} to "
        f"{as_rows(mine)} rows a query.{end}"
    )


def _hottest(schema: Schema, workload: Workload) -> str:
    """Description of the cell that most queries touch, in the words of the schema."""
    queries, domain = workload.queries, schema.domain
    if queries.columns > MOST_LISTED:
        return "Some cells are queried more than others."
    touched = np.asarray(queries.column_sums(), dtype=np.float64)
    hot, typical = int(np.argmax(touched)), float(np.median(touched))
    if touched[hot] < HOT * max(typical, 0.5):
        return "Some cells are queried more than others."
    codes = np.unravel_index(hot, domain.shape)
    where = ", ".join(f"{axis.name} {axis.label(int(code))}" for axis, code in zip(domain, codes, strict=True))
    return (
        f"One cell is very hot: {where} counts in {touched[hot]:,.0f} of the {queries.rows:,} counts asked for, "
        f"a typical cell in {typical:,.0f}."
    )


DIVISION = Mechanism(
    name="division",
    summary="noise on the workload's queries, more where they crowd",
    paper="Li et al. (WD)",
    run=division,
    refuses=laplace_refuses,
    holds=Holds(zeros=True),
    answers="its workload",
    forecast=Forecast(strategy=division_strategy, work=per_cell(1024), remark=_division_remark),
)
