"""A plan as plain values, for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.planner.price import Line
    from sfumato.planner.report import Plan


def of_plan(plan: Plan) -> dict[str, Any]:
    """What to expect of every mechanism, with the questions; what is not known is null."""
    choice = plan.choice
    return {
        "dataset": plan.dataset,
        "cells": plan.cells,
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "error": plan.error,
        "confidence": plan.confidence,
        "expected_rows": plan.expected_rows,
        "mechanism": plan.mechanism,
        "choice": None if choice is None else {"name": choice.name, "why": choice.why, "unknown": choice.unknown},
        "mechanisms": [
            {
                "name": one.mechanism,
                "how": one.how,
                "overall": one.overall,
                "best": one.best,
                "worst": one.worst,
                "smallest_epsilon": one.epsilon,
                "questions": [_of_line(line) for line in one.lines],
                "promises": [{"what": each.what, "value": each.value, "unit": each.unit} for each in one.promises],
                "note": one.note or None,
            }
            for one in plan.outlooks
        ],
        "remarks": list(plan.remarks),
    }


def _of_line(line: Line) -> dict[str, Any]:
    return {
        "question": line.query,
        "expected_error": line.stderr,
        "within": line.within,
        "unit": line.unit,
        "depends_on_data": line.guess,
        "smallest_epsilon": line.epsilon,
    }
