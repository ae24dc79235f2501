"""sfumato plan: what a budget buys."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli.release import WITH, mechanisms_like
from sfumato.cli.shared.manner import ANSWER_ONLY, JSON, MANNER


def plan(
    schema: Path = typer.Option(..., "--schema", help="The public schema (YAML).", show_default=False),
    epsilon: str | None = typer.Option(
        None, "--epsilon", help="What a release may cost, such as 0.5; or give --error."
    ),
    delta: str | None = typer.Option(
        None, "--delta", help="Allow Gaussian noise at this delta, such as 1e-9, where it is of use."
    ),
    workload: Path | None = typer.Option(None, "--workload", help="A file of SELECT statements that matter most."),
    error: float | None = typer.Option(
        None, "--error", help="Find the smallest epsilon whose answers are off by at most so many rows."
    ),
    confidence: float = typer.Option(0.95, "--confidence", help="How sure the bounds are, between 0 and 1."),
    mechanism: str = typer.Option(
        "auto",
        "--mechanism",
        help="One mechanism, question by question; auto compares them all.",
        autocompletion=mechanisms_like,
    ),
    options: list[str] = WITH,
    quiet: bool = ANSWER_ONLY,
    as_json: bool = JSON,
) -> None:
    """Compare mechanisms: their error at an epsilon, or the epsilon for an error.

    Reads no data and spends nothing, so ask as often as you like.
    """
    from sfumato.cli.show import say, table, working
    from sfumato.models.base.options import stated_options
    from sfumato.planner.plan import make_plan
    from sfumato.planner.report import report
    from sfumato.schema import Schema

    public = Schema.load(schema)
    with working("weighing mechanisms") as step:
        found = make_plan(
            public,
            epsilon=epsilon,
            delta=delta,
            error=error,
            confidence=confidence,
            mechanism=mechanism,
            workload=workload,
            options=stated_options(options) if options else None,
            step=step,
        )
    if MANNER.json:
        from sfumato.cli.shared.manner import give
        from sfumato.cli.shared.plans import of_plan

        give(of_plan(found))
        return
    for part in report(found):
        if isinstance(part, str):
            say(part)
        else:
            table(part.headers, part.rows, left=part.left)
