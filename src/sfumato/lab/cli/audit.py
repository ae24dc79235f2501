"""sfumato audit: search for evidence against the privacy and the coverage of our own mechanisms.

sfumato reproduce: the papers' tables and figures, theirs beside ours.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli.shared import ANSWER_ONLY, JSON, MANNER, VERBOSE

if TYPE_CHECKING:
    from sfumato.lab.audit.report import Report
    from sfumato.lab.audit.statements.fuzzer import Round

MECHANISMS = typer.Argument(None, help="The mechanisms to attack. Default: all.", show_default=False)


def audit(
    mechanisms: list[str] | None = MECHANISMS,
    full: bool = typer.Option(False, "--full", help="Run each primitive a million times. This takes much longer."),
    mutants: bool = typer.Option(
        False, "--mutants", help="Only check that the attacks catch mechanisms broken on purpose."
    ),
    sql: int = typer.Option(
        0,
        "--sql",
        min=0,
        help="Only ask this many random SQL statements of every kind of release and check the answers.",
    ),
    seed: int | None = typer.Option(None, "--seed", help="With --sql: repeat the statements of an earlier run."),
    quiet: bool = ANSWER_ONLY,
    verbose: bool = VERBOSE,
    as_json: bool = JSON,
) -> None:
    """Attack the mechanisms and report violations of privacy. A clean report is no proof; see docs/privacy.md."""
    if sql:
        _ask_statements(sql, seed)
        return
    from sfumato.cli.show import counting, say, table
    from sfumato.errors import PrivacyError
    from sfumato.kernel.sampling.entropy import SystemEntropy

    report = None
    if not mutants:
        with counting("attacking") as tick:
            from sfumato.lab.audit.report import FULL, QUICK, attack

            report = attack(mechanisms or None, FULL if full else QUICK, tick, workers=min(2, os.cpu_count() or 1))
    with counting("attacking broken variants") as tick:
        from sfumato.lab.audit.mutants.registry import MUTANTS, mutant_report

        names = list(MUTANTS)
        caught = mutant_report(SystemEntropy(), lambda done, of: tick(names[min(done, of - 1)], done / of))
    missed = [name for name, by, _ in caught if by is None]
    if MANNER.json:
        from sfumato.cli.shared import give

        give(of_audit(report, caught))
    score = f"{len(caught) - len(missed)} of {len(caught)}"
    if report is None:
        rows = [[name, by or "NOT CAUGHT", how] for name, by, how in caught]
        table(["mutant", "caught by", "how"], rows, left=[0, 1, 2])
        say(f"Mutants: {score} caught.")
    else:
        _show(report, score)
    if report is not None and report.violated:
        raise PrivacyError("a violation was found; do not publish with this version, and report it")
    if missed:
        raise PrivacyError(f"the audit did not catch {', '.join(missed)}: there is a hole in it")


def _ask_statements(statements: int, seed: int | None) -> None:
    """Ask random statements, and show whatever is wrong with an answer."""
    from sfumato.cli.show import counting, say
    from sfumato.errors import SfumatoError
    from sfumato.kernel.sampling.entropy import SystemEntropy
    from sfumato.lab.audit.report import side_by_side
    from sfumato.lab.audit.statements.fuzzer import PER_ROUND, Round, fuzz

    first = int.from_bytes(SystemEntropy().bytes(4)) if seed is None else seed
    seeds = range(first, first + -(-statements // PER_ROUND))
    total, workers = Round(), min(2, os.cpu_count() or 1, len(seeds))
    with counting("asking statements") as tick, suppress(KeyboardInterrupt):  # what was asked until then is told
        for _, one in side_by_side(fuzz, seeds, min(statements, PER_ROUND), workers):
            total += one
            tick(f"{total.asked:,} asked, {len(total.found)} wrong", total.asked / statements)
    if MANNER.json:
        from sfumato.cli.shared import give

        give(of_statements(total, first))
    for found in total.found:
        say(found.complaint, bold="wrong: ")
        say(found.small or found.text, bold="  statement: ")
        say(found.world, bold="  asked of: ")
        say(found.again, bold="  again: ")
    say(
        f"{total.asked:,} statements from seed {first}: {total.answered:,} answered, {total.compared:,} of them "
        f"compared with DuckDB, the others refused; {len(total.found)} kinds of wrong answers."
    )
    if total.found:
        raise SfumatoError("statements were answered wrongly, or not refused in one line; please report them")


def _show(report: Report, score: str) -> None:
    from sfumato.cli.show import say, table

    rows = []
    for row in report.rows:
        coverage = "" if row.coverage is None else f"{row.coverage:.1%}" + " *" * row.partly
        rows.append([row.name, row.claimed, f"{row.bound:.3f}", f"{row.runs:,}", score, coverage, row.verdict])
    headers = ["mechanism", "claimed epsilon", "measured lower bound", "N", "mutants caught", "coverage", "verdict"]
    table(headers, rows, left=[0, 6])
    if any(row.partly for row in report.rows):
        say(
            "* without kinds of question whose intervals are known to hold too seldom; docs/known-limits.md lists them."
        )
    for what, findings in (("Exact distributions", report.exact), ("Replay with frozen noise", report.replayed)):
        if findings:
            pairs, largest = sum(found.pairs for found in findings), max(f.loss / float(f.claimed) for f in findings)
            unsound = [found.name for found in findings if not found.sound]
            said = f"VIOLATION in {', '.join(unsound)}" if unsound else "no violation found"
            say(f"{what}: {pairs:,} pairs of neighbouring tables, largest loss {largest:.6f} of the claim; {said}.")
    if report.sure:
        say("Guaranteed intervals, where a search for tables and questions that break them ended, on fresh releases:")
        rows = []
        for one in report.sure:
            held = f"{one.held:.1%} of {one.releases:,}"
            rows.append([one.mechanism, f"{one.tried:,}", f"{one.confidence:.0%}", held, one.verdict])
        table(["mechanism", "tables tried", "promised", "held", "verdict"], rows, left=[0, 4])
    if report.read:
        say("")
        rows = [[found.source, f"{found.pairs:,}", f"{found.largest:.2f}", found.verdict] for found in report.read]
        table(["read from", "pairs", "largest move over the charge", "verdict"], rows, left=[0, 3])
    say("Bounds hold with probability 1 - 1e-6. A clean report is no proof; the proofs are in docs/privacy.md.")


def of_statements(asked: Round, seed: int) -> dict[str, Any]:
    """JSON-ready result of fuzzing with random statements."""
    found = [
        {"complaint": one.complaint, "statement": one.small or one.text, "release": one.world, "again": one.again}
        for one in asked.found
    ]
    numbers = {"asked": asked.asked, "answered": asked.answered, "compared": asked.compared}
    return {"seed": seed, **numbers, "found": found}


def of_audit(report: Report | None, caught: Sequence[tuple[str, str | None, str]]) -> dict[str, Any]:
    """Findings of all attacks, and the broken variants that they caught; without a report only the latter."""
    found: dict[str, Any] = {}
    if report is not None:
        renamed = {"name": "name", "claimed_epsilon": "claimed", "lower_bound": "bound"}
        renamed |= {name: name for name in ("runs", "coverage", "verdict")}
        found = {
            "violated": report.violated,
            "mechanisms": [{key: getattr(row, name) for key, name in renamed.items()} for row in report.rows],
            "exact": _values(report.exact, "name", "claimed", "loss", "pairs", "sound"),
            "replayed": _values(report.replayed, "name", "claimed", "loss", "pairs", "sound"),
            "read_from": _values(report.read, "source", "pairs", "largest", "verdict"),
            "guaranteed": _values(report.sure, "mechanism", "confidence", "held", "releases", "verdict"),
        }
    return {**found, "mutants": [{"name": name, "caught_by": by, "how": how} for name, by, how in caught]}


def _values(findings: Sequence[object], *names: str) -> list[dict[str, Any]]:
    return [{name: getattr(one, name) for name in names} for one in findings]


# -- reproduce

PAPER = typer.Argument(None, help="tr-2010-003, ispe, mldp, survey or wd. Default: all.", show_default=False)


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
    verbose: bool = VERBOSE,
) -> None:
    """Repeat the experiments of the papers on synthetic tables. Reads no private data and spends no budget."""
    from sfumato.cli.show import counting, say, table, working
    from sfumato.kernel.sampling.entropy import SystemEntropy

    with counting("reproducing") as tick:
        from sfumato.lab.reproduce.exhibits import write
        from sfumato.lab.reproduce.studies import reproduce as run

        studies = run([paper] if paper else [], SystemEntropy(), tick, quick=quick, data=data)
    with working("drawing the plots"):
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
