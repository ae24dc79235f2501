"""Command `sfumato plan`: expected errors of mechanisms at an epsilon, or the epsilon for an error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli.release import WITH, WORKLOAD_ONLY, mechanisms_like
from sfumato.cli.shared import ANSWER_ONLY, JSON, MANNER, VERBOSE, give
from sfumato.errors import QueryError

if TYPE_CHECKING:
    from sfumato.kernel.budget import Cost
    from sfumato.planner.questions import Line
    from sfumato.planner.report import Comparison, Plan
    from sfumato.schema.linked import LinkedSchema


def plan(
    schema: Path = typer.Option(..., "--schema", help="The public schema (YAML).", show_default=False),
    epsilon: str | None = typer.Option(
        None, "--epsilon", help="The privacy budget of a release, such as 0.5. Give this or --error."
    ),
    rho: str | None = typer.Option(
        None, "--rho", help="The budget in rho of zero-concentrated privacy, in place of --epsilon."
    ),
    delta: str | None = typer.Option(
        None, "--delta", help="Allow Gaussian noise with this delta, such as 1e-9, where it reduces the error."
    ),
    workload: Path | None = typer.Option(
        None,
        "--workload",
        help="A file of the SELECT statements that matter most: they get most of the accuracy, the rest stays useful.",
    ),
    workload_only: bool = WORKLOAD_ONLY,
    error: float | None = typer.Option(
        None, "--error", help="Find the smallest epsilon with which answers are off by at most this many rows."
    ),
    confidence: float = typer.Option(0.95, "--confidence", help="The confidence of the bounds, between 0 and 1."),
    mechanism: str = typer.Option(
        "auto",
        "--mechanism",
        help="Show one mechanism, question by question. auto is the choice of `sfumato release`.",
        autocompletion=mechanisms_like,
    ),
    every: bool = typer.Option(False, "--all", help="Compare all mechanisms, which takes a few seconds more."),
    explain: bool = typer.Option(
        False, "--explain", help="Say what the epsilon means: how far it can move a belief, how often a guess is right."
    ),
    options: list[str] = WITH,
    quiet: bool = ANSWER_ONLY,
    verbose: bool = VERBOSE,
    as_json: bool = JSON,
) -> None:
    """Show how large errors will be at an epsilon, or find the epsilon that an error needs.

    Reads no data and spends no budget, so run it as often as you like.
    """
    from sfumato.cli.show import load_any, say, working
    from sfumato.models.base.mechanism import stated_options
    from sfumato.planner.plan import make_plan
    from sfumato.planner.report import explained, report
    from sfumato.schema import Schema

    public = load_any(schema)
    amounts: dict[str, Any] = {"epsilon": epsilon, "rho": rho, "delta": delta, "error": error}
    asked: dict[str, Any] = {
        "confidence": confidence,
        "mechanism": mechanism,
        "every": every or (MANNER.json and rho is None and (delta is None or isinstance(public, Schema))),
        "options": stated_options(options) if options else None,
    }
    with working("weighing mechanisms") as step:
        if not isinstance(public, Schema):
            _of_tables(public, amounts, asked | {"step": step}, workload, explain=explain)
            return
        found = make_plan(public, **amounts, **asked, workload=workload, workload_only=workload_only, step=step)
    explain = explain and not public.invariants  # it is about whether a row is in the table, which these may tell
    if MANNER.json:
        give(of_plan(found) | _meaning(found.cost if explain else None))
        return
    _say(report(found))
    if explain and found.cost is not None:
        say()
        _say(explained(found.cost, public.privacy_unit, found.doubled))


def _meaning(cost: Cost | None) -> dict[str, Any]:
    from sfumato.planner.report import meaning

    return {} if cost is None else {"explained": meaning(cost)}


def _of_tables(
    linked: LinkedSchema, amounts: dict[str, Any], asked: dict[str, Any], workload: Path | None, *, explain: bool
) -> None:
    """Plan all linked tables, each with its share of the budget."""
    from sfumato.cli.show import exact, say
    from sfumato.kernel.budget import Cost
    from sfumato.planner.plan import plan_tables
    from sfumato.planner.report import explained, report

    if workload is not None:
        raise QueryError("--workload is about one table so far; leave it out")
    plans, epsilon = plan_tables(linked, **amounts, **asked)
    cost = None
    if explain and epsilon is not None:
        cost = Cost(epsilon, max(plan.delta for plan in plans.values()))
    if MANNER.json:
        tables = {name: of_plan(plan) for name, plan in plans.items()}
        give({"dataset": linked.dataset, "epsilon": epsilon, "tables": tables} | _meaning(cost))
        return
    total = sum(table.share for table in linked.tables.values())
    for place, (name, plan) in enumerate(plans.items()):
        if place:
            say()
        table = linked.tables[name]
        of_one = "1 row" if table.limit == 1 else f"{table.limit:,} rows"
        say(f": {exact(table.share / total)} of the budget, at most {of_one} of a unit.", bold=name)
        _say(report(plan))
    say()
    if amounts["error"] is not None and epsilon is None:
        say("The epsilon of all tables together is not known, for that of one is not.")
    elif amounts["error"] is not None:
        say(f"All tables together need epsilon {exact(epsilon)}, dealt out by their shares.")
    if cost is not None:
        _say(explained(cost, linked.head.privacy_unit))


def _say(parts: Iterable[str | Comparison]) -> None:
    from sfumato.cli.show import say, table

    for part in parts:
        if isinstance(part, str):
            say(part)
        else:
            table(part.headers, part.rows, left=part.left)


def of_plan(plan: Plan) -> dict[str, Any]:
    """Convert a plan to JSON values: expected errors of every mechanism; unknown is null."""
    choice = plan.choice
    return {
        "dataset": plan.dataset,
        "cells": plan.cells,
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "rho": plan.rho,
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
        "examples": [_of_line(line) | {"share_of_rows": _share(line, plan)} for line in plan.examples],
        "doubled_epsilon": None
        if plan.doubled is None
        else {"question": plan.doubled.question, "error": plan.doubled.before, "error_then": plan.doubled.after},
        "warnings": list(plan.warnings),
        **({"exact_counts": plan.exact} if plan.exact else {}),
        "over_time": [asdict(one) for one in plan.over_time],
    }


def _share(line: Line, plan: Plan) -> float | None:
    """Error as a share of the expected rows, where it is in rows."""
    return line.stderr / plan.expected_rows if plan.expected_rows and line.unit == "rows" else None


def _of_line(line: Line) -> dict[str, Any]:
    return {
        "question": line.query,
        "expected_error": line.stderr,
        "within": line.within,
        "unit": line.unit,
        "depends_on_data": line.guess,
        "smallest_epsilon": line.epsilon,
    }
