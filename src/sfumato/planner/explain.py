"""What is worth saying about a workload beyond its figures."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from sfumato.planner.forecast import Outlook, Question
from sfumato.queries.arrays import MOST_LISTED

HELPS = 0.95  # of laplace's error, at most, for division to be worth a remark
HOT = 2.0  # times as many queries as touch the typical cell make a cell hot
FAR = 3.0  # times the error of the best make a mechanism worth a warning


def explain(outlooks: Sequence[Outlook], question: Question) -> tuple[str, ...]:
    """Remarks on a plan, in sentences."""
    priced = {found.mechanism: found.overall for found in outlooks if found.how == "exact" and isfinite(found.overall)}
    if "laplace" not in priced or len(priced) < 2:
        return ()
    best = min(priced, key=lambda name: priced[name])
    laplace, division = priced["laplace"], priced.get("division", priced["laplace"])
    if division <= HELPS * laplace:
        end = "" if best == "division" else f" Neither is best: {best} has {_rows(priced[best])}."
        return (
            f"{_hottest(question)} laplace gives all queries the noise that the most queried cell needs. division "
            f"gives the queries on it a noise of their own, which brings the error from {_rows(laplace)} to "
            f"{_rows(division)} rows a query.{end}",
        )
    if laplace > FAR * priced[best]:
        return (
            f"laplace adds noise to every query of the workload, and a person counts in up to "
            f"{question.workload.queries.l1:,} of them; {best} asks other queries and has "
            f"{laplace / priced[best]:,.0f} times less error.",
        )
    return ()


def _hottest(question: Question) -> str:
    """Which cell is queried most, in the words of the schema."""
    queries, domain = question.workload.queries, question.schema.domain
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


def _rows(error: float) -> str:
    return f"{error:,.3g}" if error < 1000 else f"{error:,.0f}"
