"""sfumato reproduce: the papers' tables and figures, theirs beside ours."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli.shared import ANSWER_ONLY

PAPER = typer.Argument(None, help="tr-2010-003, ispe, mldp or wd. Default: all.", show_default=False)


def reproduce(
    paper: str | None = PAPER,
    quick: bool = typer.Option(
        False, "--quick", help="Do fewer runs: seconds instead of minutes, with wider error bars."
    ),
    out: Path | None = typer.Option(
        None, "-o", "--out", help="The folder for the plots and their page. Default: sfumato-reproduce-PAPER."
    ),
    data: Path | None = typer.Option(
        None, "--data", help="A folder with the papers' real tables, such as nettrace.csv. Default: made-up tables."
    ),
    quiet: bool = ANSWER_ONLY,
) -> None:
    """Repeat the experiments of the papers on synthetic tables. Reads no private data and spends no budget."""
    from sfumato.cli.show import counting, say, table
    from sfumato.kernel.sampling.entropy import SystemEntropy
    from sfumato.lab.reproduce.exhibits import write
    from sfumato.lab.reproduce.studies import reproduce as run

    with counting("reproducing") as tick:
        studies = run([paper] if paper else [], SystemEntropy(), tick, quick=quick, data=data)
    page = write(studies, out or Path(f"sfumato-reproduce-{paper or 'all'}"))
    for study in studies:
        say(bold=study.title)
        for exhibit in study.exhibits:
            say("")
            say(f" ({exhibit.source})", bold=exhibit.title)
            if exhibit.rows:
                table(exhibit.headers, exhibit.rows, left=exhibit.left)
            say(exhibit.remark)
        say("")
    pictures = sum(len(exhibit.pictures) for study in studies for exhibit in study.exhibits)
    say(f"{pictures} plots are in {page.parent}; open {page} to see them all.")
