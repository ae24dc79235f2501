"""BLR: a synthetic table, chosen among all small ones by the exponential mechanism; see docs/blr.md.

Blum, Ligett, Roth, A learning theory approach to non-interactive database privacy, STOC 2008; the Survey, section 5.3,
theorem 8. Corrected: the number of rows, by which candidates are scaled, is private and is measured; so is the error.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import comb, log, sqrt

import numpy as np

from sfumato.arrays import Whole
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.scores import LargestMisfit
from sfumato.lab.papers.forms import small_table, whole_up_to
from sfumato.models.base.measure_and_fit import plain_cells
from sfumato.models.base.mechanism import Figure, Forecast, Lab, Mechanism, Promises, sure, with_rows, without_rows
from sfumato.models.calibration.first_stage import counted_beside_shape
from sfumato.models.weights import measure as weights
from sfumato.queries import Queries, Workload, default_workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

MOST_TABLES, MOST_ANSWERS = 2**16, 2**22  # time and memory: every table answers every query
FEWEST_ROWS, MOST_ROWS = 4, 64  # of a small table: fewer say too little to be of use, more bring nothing


@dataclass(frozen=True)
class Settings:
    """Chosen by judgement.

    shares: of the count's budget, for the total, for choosing a table, for measuring its error. most_queries: of the
    workload, on which tables are compared. little: rows added to every cell of the chosen table, so that intervals do
    not take a cell for empty because a table of few rows has no row for it.
    """

    shares: tuple[int, int, int] = (1, 7, 2)
    most_queries: int = 2**10
    little: float = 1 / 16


@dataclass(frozen=True)
class Options:
    """Options of the user. rows: of the small tables; as many as there is room for if left open."""

    rows: int | None = None


PLAIN, SETTINGS = Options(), Settings()


def blr(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, options: Options = PLAIN
) -> Cube:
    """Choose the small table of least largest error on the workload (exponential mechanism), and scale it up."""
    workload = workload or default_workload(schema.domain)
    asked = weights.sampled(workload, SETTINGS.most_queries)
    for_count, *for_measures = budget.split(*schema.weights.values())
    counted, for_choosing = counted_beside_shape(curator, for_count)
    for_total, to_choose, for_misfit = for_choosing.split(*SETTINGS.shares)
    total = weights.measure_total(curator, for_total)
    rows, cells = options.rows or most_rows(schema.domain.size, asked), schema.domain.size
    scale = float(weights.even_start(total, cells).sum()) / rows  # noisy rows for each of a small table

    tables = small_tables(cells, rows)
    answers = np.rint(scale * (asked @ tables.T.astype(np.float64)).T).astype(np.int64)
    chosen = tables[curator.select(LargestMisfit(asked, answers), to_choose)]

    count = weights.shaped_fit(curator, total, chosen + SETTINGS.little, workload, for_misfit, for_count, counted)
    return Cube(schema, fits=(count, *plain_cells(curator, for_measures)))


@lru_cache(maxsize=4)
def small_tables(cells: int, rows: int) -> Whole:
    """Every table of so many rows, its counts by cell: stars and bars.

    >>> small_tables(2, 2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    bars = np.array(list(combinations(range(rows + cells - 1), cells - 1)), dtype=np.int64)
    bars = bars.reshape(comb(rows + cells - 1, rows), cells - 1)
    ends = np.full((len(bars), 1), rows + cells - 1)
    counts = np.diff(np.hstack([np.full((len(bars), 1), -1), bars, ends]), axis=1) - 1
    counts.setflags(write=False)
    return counts


def most_rows(cells: int, asked: Queries) -> int:
    """Largest number of rows for which all small tables can be enumerated; 0 where not even one row."""
    room = min(MOST_TABLES, MOST_ANSWERS // asked.rows)
    return max((rows for rows in range(1, MOST_ROWS + 1) if comb(rows + cells - 1, rows) <= room), default=0)


def refuses(schema: Schema, workload: Workload | None, options: Options = PLAIN) -> str | None:
    if (reason := weights.shape_refuses(schema, workload)) is not None:
        return reason
    cells = schema.domain.size
    asked = weights.sampled(workload or default_workload(schema.domain), SETTINGS.most_queries)
    most = most_rows(cells, asked)
    if most < FEWEST_ROWS:
        tables = comb(FEWEST_ROWS + cells - 1, FEWEST_ROWS)
        return (
            f"over {cells:,} cells there are {tables:.2g} tables of {FEWEST_ROWS} rows, too many to look at each; "
            "use margins (many attributes), sfumato (one or two) or mwem (a workload), which are efficient"
        )
    if options.rows is not None and not 1 <= options.rows <= most:
        return f"small tables may have 1 to {most} rows over {cells:,} cells, not {options.rows:,}; give rows={most}"
    return None


def _promises(
    schema: Schema, budget: Budget, confidence: float, workload: Workload | None, options: Options = PLAIN
) -> Promises:
    """Error bound of a plan for n rows: n sqrt(ln(2 Q) / (2 m)) for some table of m rows on all Q queries, as m rows
    drawn at random show, plus the errors of the choice, the noisy total and `little`.
    """
    cells = schema.domain.size
    asked = weights.sampled(workload or default_workload(schema.domain), SETTINGS.most_queries)
    small = options.rows or most_rows(cells, asked)
    for_total, to_choose, _ = budget.split(*schema.weights.values())[0].split(*SETTINGS.shares)
    k, half, tables = schema.privacy_unit.contributions, (1.0 - confidence) / 2.0, comb(small + cells - 1, small)
    most = float(asked.entry_bound)
    behind = 2.0 * most * k * log(tables / half) / float(to_choose.amount)
    total, little = k * log(1.0 / half) / float(for_total.amount), SETTINGS.little * cells
    share = most * (sqrt(log(2.0 * asked.rows) / (2.0 * small)) + little / (small + little))
    figures = (
        Figure(f"tables of {small} rows to choose from", tables, "tables"),
        Figure("counting queries that they are compared on", asked.rows, "queries"),
        Figure(f"worst error beyond that of the best of them, at most, {sure(confidence)}", behind),
        *with_rows(
            schema,
            lambda rows: Figure(
                f"worst error in all, at most, with {rows:,} rows, {sure(confidence)}",
                share * rows + behind + 2.0 * most * total + 1.0,
            ),
        ),
    )
    words = "The release measures how far it is off on average; over so few cells noise on each of them is far better."
    return Promises(figures, (*without_rows(schema, "the worst error in all"), words))


EXAMPLE = small_table("tiny", x=whole_up_to(3))  # four cells


MECHANISM = Mechanism(
    name="blr",
    summary="a synthetic table chosen among all small ones, for tiny domains",
    paper="Blum, Ligett, Roth 2008",
    run=blr,
    refuses=refuses,
    options=Options,
    forecast=Forecast(checks_itself=True, for_auto=False, promises=_promises),
    lab=Lab(example=EXAMPLE, tried_with={"rows": "4"}),
)
