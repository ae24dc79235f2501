"""sfumato plan: what a budget buys."""

from __future__ import annotations

from pathlib import Path

import typer


def plan(
    schema: Path = typer.Option(..., "--schema", help="The public schema (YAML).", show_default=False),
    epsilon: str | None = typer.Option(None, "--epsilon", help="The budget to plan for, such as 0.5."),
    workload: Path | None = typer.Option(None, "--workload", help="A file of SELECT statements to plan for."),
    error: float | None = typer.Option(None, "--error", help="Find the smallest epsilon that keeps within this."),
    confidence: float = typer.Option(0.95, "--confidence", help="How sure the bounds are, between 0 and 1."),
    mechanism: str = typer.Option("auto", "--mechanism", help="auto, cells or sparse-cells."),
) -> None:
    """Expected error for a budget, or the smallest budget for an error. Reads no data and spends nothing."""
    from sfumato.cli.show import exact, say, table
    from sfumato.planner.plan import make_plan
    from sfumato.publish import check_workload
    from sfumato.releases.result import decimals_for
    from sfumato.schema import Schema

    public = Schema.load(schema)
    asked = None if workload is None else check_workload(workload, public)
    found = make_plan(public, epsilon=epsilon, error=error, confidence=confidence, mechanism=mechanism, workload=asked)
    sure = f"{confidence * 100:g} %"

    def number(value: float, stderr: float) -> str:
        return f"{value:,.{decimals_for(stderr)}f}"

    rows = []
    for line in found.lines:
        name = line.query + (" *" if line.guess else "")
        row = [name, number(line.stderr, line.stderr), number(line.within, line.stderr), line.unit]
        rows.append(row if line.epsilon is None else [*row, exact(line.epsilon)])
    headers = ["query", "std. error", f"within, {sure} sure", "unit"]
    what = f"epsilon {exact(found.epsilon)}" if found.error is None else f"an error of at most {found.error:,g}"
    say(f"[bold]{public.dataset}[/bold]: {found.cells:,} cells, mechanism {found.mechanism}, {what}")
    table(headers if found.error is None else [*headers, "smallest epsilon"], rows, left=[0, 3])
    if any(line.guess for line in found.lines):
        spread = f"{public.expected_rows:,} rows" if public.expected_rows else "an unknown number of rows"
        say(f"* depends on the data; shown for {spread} spread evenly over the cells.")
    if found.threshold is not None:
        say(f"Cells with a noisy count under {found.threshold:,} are not published; they are known in sum only.")
    if found.every_query is not None and found.paper is not None:
        say(
            f"Every union of cells at once is off by at most {found.every_query:,.0f} rows, {sure} sure "
            f"(theorem 5.2 of TR-2010-003 promises {found.paper:,.0f})."
        )
    if found.error is not None:
        least = max(line.epsilon for line in found.lines if line.epsilon is not None)
        say(f"All of these need epsilon [bold]{exact(least)}[/bold].")
    say("No data was read and nothing was spent.")
