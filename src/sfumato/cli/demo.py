"""Command `sfumato demo`: release and query a synthetic census, with bar charts as text and as SVG.

Generate the demo's synthetic census: no real person is in it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli.shared import QUIET
from sfumato.frozen import dataclass
from sfumato.plain_text import align, printable
from sfumato.plain_text import width as width_of

if TYPE_CHECKING:
    from sfumato.arrays import Floats
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
    folder: Path = typer.Option(Path("sfumato-demo"), "--folder", help="The folder for the demo's files."),
    epsilon: str = typer.Option("1", "--epsilon", help="The privacy budget that the demo's release spends."),
    quiet: bool = QUIET,
) -> None:
    """Make up a census, release it, query it with error bars beside the truth, and plot it. Takes a few seconds."""
    from sfumato.cli.show import command, progress, say
    from sfumato.errors import NewLedgerWarning, TableError
    from sfumato.kernel.ledger.ledger import Ledger
    from sfumato.publishing.prepare import Request
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
        request = Request(Schema.load(schema), epsilon, ledger=Ledger(ledger))
        published = publish(table, request, out, step=step)
    made = published.release
    say(f"   {made.guarantee.statement}")
    say(f"   Mechanism {made.mechanism}: {published.prepared.why}.")
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
    """Refuse a folder with files that the demo did not make: it replaces census, release and ledger each time."""
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

    from sfumato.answers.results import Estimate, decimals_for
    from sfumato.cli.show import table as show_table

    result = made.query(sql)
    headers, rows = result.texts()
    truth = dict(duckdb.connect().execute(sql.replace("FROM census", f"FROM '{table}'")).fetchall())
    for row, (key, estimate) in zip(rows, result.rows, strict=True):
        true = float(truth[key])
        assert isinstance(estimate, Estimate)  # noqa: S101 (each question asks for one key and one number)
        row += [f"{true:,.{decimals_for(estimate.stderr)}f}", "yes" if estimate.low <= true <= estimate.high else "no"]
    show_table([*headers, "truth", "inside"], rows, left=[0])


WIDE, TALL, DIGIT = 900, 300, 8  # pixels of the picture of ages, and of a digit beside its axis


def _plot(made: Release, folder: Path) -> Path:
    from sfumato.cli.show import say
    from sfumato.public.report.pictures import as_file, columns

    ages = made.query("SELECT age, COUNT(*) AS n FROM census GROUP BY age").rows
    bars = [Bar(str(age), n.value, n.low, n.high) for age, n in ages]  # type: ignore[union-attr]
    say(" (every fifth year; █ is certain at 95 %, ▒ is the interval)", bold="People by age")
    for line in text_bars(bars[::5]):
        say(line)
    picture, title = folder / "ages.svg", "People by age"
    labels, counts = [bar.label for bar in bars], [n for _, n in ages]
    drawn = columns("ages", title, labels, counts, tall=TALL, letter=DIGIT / WIDE)  # type: ignore[arg-type]
    subtitle = f"released at epsilon {made.guarantee.epsilon}; fading: 95 % intervals"
    picture.write_text(as_file(drawn, title, subtitle, WIDE, TALL), encoding="utf-8")
    return picture


@dataclass(frozen=True)
class Bar:
    """One bar: a label, a value and the interval around it."""

    label: str
    value: float
    low: float
    high: float


def text_bars(bars: Sequence[Bar], width: int = 44) -> list[str]:
    """One line a bar: filled up to the interval, shaded inside it.

    >>> text_bars([Bar("a", 10, 8, 12), Bar("bb", 5, 3, 7)], width=12)
    [' a ████████▒▒▒▒  10', 'bb ███▒▒▒▒  5']
    """
    top = max((bar.high for bar in bars), default=0.0)
    if top <= 0:
        return []
    labels = [printable(bar.label) for bar in bars]
    wide = max(map(width_of, labels))
    lines = []
    for label, bar in zip(labels, bars, strict=True):
        solid = floor(max(bar.low, 0.0) / top * width)
        shaded = max(ceil(max(bar.high, 0.0) / top * width) - solid, 0)
        lines.append(f"{align(label, wide)} {'█' * solid}{'▒' * shaded}  {bar.value:,.0f}")
    return lines


# -- census

REGIONS = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")
SHARES = (0.06, 0.09, 0.12, 0.22, 0.19, 0.08, 0.10, 0.14)

SCHEMA = """\
# Everything in here is public: it is written down by people, never read from the data.
dataset: census
privacy_unit: {column: person_id, contributions: 1}   # one person is protected, with at most one row
budget: {epsilon: 3.0}                                # what may ever be spent on this dataset
attributes:
  age:    {type: integer, lower: 0, upper: 99}
  sex:    {type: category, values: [F, M]}
  region: {type: category, values: [north, north-east, east, south-east, south, south-west, west, north-west]}
measures:
  income: {lower: 0, upper: 150000}                   # summed and averaged, clipped to these bounds
expected_rows: 60000
"""


def write_census(folder: Path, people: int = 60_000) -> tuple[Path, Path]:
    """Write the synthetic people and their schema; the same people every time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table, schema = folder / "census.parquet", folder / "census.yaml"
    pq.write_table(pa.table(make_people(people)), table)
    schema.write_text(SCHEMA, encoding="utf-8")
    return table, schema


def make_people(people: int) -> dict[str, Any]:
    """Columns of synthetic people: an ageing population, incomes that rise and fall with age."""
    import numpy as np

    from sfumato.kernel.sampling.entropy import TestingEntropy

    stream = TestingEntropy(1503)  # fixed, so that the demo's figures can be talked about

    def uniform() -> Floats:
        return np.asarray((stream.words(people) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)

    ages = np.arange(100)
    alive = np.exp(-((ages / 82.0) ** 7)) * (1.0 + 0.25 * np.exp(-(((ages - 55) / 9.0) ** 2)))
    age = np.searchsorted(np.cumsum(alive)[:-1] / alive.sum(), uniform())
    female = uniform() < 0.49 + 0.0022 * np.maximum(age - 60, 0)
    region = np.searchsorted(np.cumsum(SHARES)[:-1], uniform())
    bell = np.sqrt(-2.0 * np.log(1.0 - uniform())) * np.cos(2.0 * np.pi * uniform())
    career = np.exp(-(((age - 49) / 22.0) ** 2)) * (age >= 16)
    income = np.round(career * 38_000 * np.exp(0.55 * bell) * np.where(region == 3, 1.2, 1.0), 2)
    return {
        "person_id": np.arange(people),
        "age": age.astype(np.int64),
        "sex": np.where(female, "F", "M"),
        "region": np.array(REGIONS)[region],
        "income": income,
    }
