"""sfumato demo: the whole tool in one minute, on synthetic people."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli.shared.manner import QUIET

if TYPE_CHECKING:
    from sfumato.releases.release import Release

QUESTIONS = (
    (
        "How many women and men are between 20 and 40?",
        "SELECT sex, COUNT(*) AS n FROM census WHERE age BETWEEN 20 AND 40 GROUP BY sex",
    ),
    (
        "What do people of working age earn, by region?",
        "SELECT region, AVG(income) AS mean_income FROM census WHERE age BETWEEN 25 AND 64 GROUP BY region "
        "ORDER BY mean_income DESC",
    ),
    (
        "Which share of each region is over 65?",
        "SELECT region, 100 * COUNT(*) FILTER (WHERE age > 65) / COUNT(*) AS percent_over_65 FROM census "
        "GROUP BY region ORDER BY region",
    ),
)


def demo(
    folder: Path = typer.Option(Path("sfumato-demo"), "--folder", help="Where the demo's files go."),
    epsilon: str = typer.Option("1", "--epsilon", help="What the demo's release costs."),
    quiet: bool = QUIET,
) -> None:
    """Make up a census, release it, query it with error bars beside the truth, and plot it. Takes a few seconds."""
    from sfumato.cli.census import SCHEMA, write_census
    from sfumato.cli.shared.pasting import command
    from sfumato.cli.show import progress, say
    from sfumato.errors import NewLedgerWarning, TableError
    from sfumato.kernel.ledger.ledger import Ledger
    from sfumato.publishing.publish import publish
    from sfumato.schema import Schema

    try:
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_strange(folder, SCHEMA)
        table, schema = write_census(folder)
    except OSError as error:
        raise TableError(f"{folder} cannot be written to ({error.strerror}); choose another --folder") from None
    ledger, out = folder / "ledger.sqlite", folder / "census.sfumato"
    for old in (ledger, out):  # the demo's people are made up, so its budget may start afresh each time
        old.unlink(missing_ok=True)
    say(" 60,000 synthetic people: person_id, age, sex, region, income.", bold="1. A private table.")
    say(f" at epsilon {epsilon}.", bold="2. A release")
    with warnings.catch_warnings(), progress() as step:
        warnings.simplefilter("ignore", NewLedgerWarning)  # it was deleted above, and nobody is in the table
        published = publish(table, Schema.load(schema), epsilon, out, ledger=Ledger(ledger), step=step)
    made = published.release
    say(f"   {made.guarantee.statement}")
    say(f"   Mechanism {made.mechanism}: {published.why}.")
    say(" (the truth is shown only because these people are made up):", bold="3. Questions to the release")
    say()
    for question, sql in QUESTIONS:
        say(bold=question)
        say(sql, dim=True)
        _compare(made, sql, table)
    say("Of intervals at 95 %, one in twenty is expected to miss the truth.")
    say()
    picture = _plot(made, folder)
    say(bold="Files")
    for path, what in (
        (table, "the private table (keep)"),
        (schema, "the public schema"),
        (out, "the release (publish)"),
        (ledger, "what was spent"),
        (picture, "people by age, with error bars"),
    ):
        say(f"  {path!s:32} {what}")
    say()
    ages = "SELECT age, COUNT(*) AS n FROM census WHERE age < 10 GROUP BY age"
    say(f"Try: {command('query', out, ages)}")


def _refuse_strange(folder: Path, schema: str) -> None:
    """The demo starts afresh each time, so a folder with a census, a release or a ledger of somebody's is refused."""
    from sfumato.errors import TableError

    own = folder / "census.yaml"
    if own.is_file() and own.read_text(encoding="utf-8", errors="replace") == schema:
        return
    for name in ("census.parquet", "census.yaml", "census.sfumato", "ledger.sqlite", "ages.svg"):
        if (folder / name).exists():
            raise TableError(f"{folder / name} was not made by the demo; choose another --folder", kind="file")


def _compare(made: Release, sql: str, table: Path) -> None:
    """Print a release's answers with the true ones beside them, and whether the interval holds the truth."""
    import duckdb

    from sfumato.answers.estimate import Estimate
    from sfumato.answers.result import decimals_for
    from sfumato.cli.show import table as show_table

    result = made.query(sql)
    headers, rows = result.texts()
    truth = dict(duckdb.connect().execute(sql.replace("FROM census", f"FROM '{table}'")).fetchall())
    for row, (key, estimate) in zip(rows, result.rows, strict=True):
        true = float(truth[key])
        assert isinstance(estimate, Estimate)  # noqa: S101 (each question asks for one key and one number)
        row += [f"{true:,.{decimals_for(estimate.stderr)}f}", "yes" if estimate.low <= true <= estimate.high else "no"]
    show_table([*headers, "truth", "inside"], rows, left=[0])


def _plot(made: Release, folder: Path) -> Path:
    from sfumato.cli.chart import Bar, svg_bars, text_bars
    from sfumato.cli.show import say

    ages = made.query("SELECT age, COUNT(*) AS n FROM census GROUP BY age").rows
    bars = [Bar(str(age), n.value, n.low, n.high) for age, n in ages]  # type: ignore[union-attr]
    say(" (every fifth year; █ is certain at 95 %, ▒ is the interval)", bold="People by age")
    for line in text_bars(bars[::5]):
        say(line)
    picture = folder / "ages.svg"
    subtitle = f"released at epsilon {made.guarantee.epsilon}; lines: 95 % intervals"
    picture.write_text(svg_bars(bars, title="People by age", subtitle=subtitle), encoding="utf-8")
    return picture
