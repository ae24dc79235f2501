"""Division (WD): noise on the workload's queries, with larger scales for queries that share a heavily queried cell.

Li et al., A workload division differential privacy algorithm to improve the accuracy for linear computations.
Corrections are listed in strategies/division.py: the hot cell comes from the workload, both halves are divided further,
and scales are optimal for the workload under the one constraint that no cell spends more than the budget.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfumato.models.base.measure_and_fit import linear
from sfumato.models.base.mechanism import Forecast, Mechanism, per_cell
from sfumato.models.linear.laplace import MECHANISM as PLAIN
from sfumato.models.linear.laplace import laplace_refuses
from sfumato.models.linear.strategies.division import divide
from sfumato.plain_text import as_rows
from sfumato.queries import Workload
from sfumato.queries.arrays import MOST_LISTED
from sfumato.queries.strategy import Strategy
from sfumato.schema import Schema

HELPS = 0.95  # of the error of plain noise, at most, to be worth a remark
HOT = 2.0  # times as many queries as touch the typical cell make a cell hot


def division_strategy(schema: Schema, workload: Workload, pure: bool) -> Strategy:
    """Strategy of the workload's own queries, in parts of different precision."""
    return divide(workload)


division = linear(division_strategy)


def _remark(priced: Mapping[str, float], schema: Schema, workload: Workload) -> str | None:
    """Sentence for a plan where division beats equal noise."""
    mine, plain = priced[MECHANISM.name], priced.get(PLAIN.name, 0.0)
    if mine > HELPS * plain:
        return None
    best = min(priced, key=lambda name: priced[name])
    end = "" if best == MECHANISM.name else f" Neither is best: {best} has {as_rows(priced[best])}."
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


MECHANISM = Mechanism(
    name="division",
    summary="noise on the workload's queries, more where they crowd",
    paper="Li et al. (WD)",
    run=division,
    refuses=laplace_refuses,
    answers="its workload",
    forecast=Forecast(strategy=division_strategy, work=per_cell(1024), remark=_remark),
)
