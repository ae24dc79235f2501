"""Command `sfumato discover`: fill the blanks of a draft by private looks at the table, paid for from the ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli.ledger import of_account
from sfumato.cli.release import AGAIN, ANOTHER_UNIT, LEDGER, NAME, REQUIRE, VIEWS
from sfumato.cli.shared import (
    JSON,
    MANNER,
    QUIET,
    VERBOSE,
    Given,
    Interrupted,
    agreed,
    can_ask,
    give,
    left_behind,
    stated,
    takes_file_options,
)
from sfumato.cli.show import balance, command, exact, notes, say, say_kept
from sfumato.cli.show import table as show_table

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.kernel.ledger.ledger import Account
    from sfumato.publishing.discover import Discovery, Finding, Wish

TABLE = typer.Argument(
    help="A path or glob (csv, jsonl, parquet, arrow, xlsx), or a database URL with --table.", show_default=False
)


@takes_file_options
def discover(
    table: str = TABLE,
    schema: Path = typer.Option(..., "--schema", help="The draft with blanks (YAML), as `sfumato init` writes it."),
    epsilon: str = typer.Option(..., "--epsilon", help="The privacy budget that all looks spend together."),
    delta: str | None = typer.Option(
        None, "--delta", help="For lists of values: the chance that a value of one person passes, such as 1e-9."
    ),
    out: Path | None = typer.Option(None, "-o", "--out", help="The schema to write.  [required]", show_default=False),
    columns: list[str] = typer.Option([], "--column", help="Fill the blanks of this column only. Repeat for several."),
    shares: list[str] = typer.Option(
        [], "--share", metavar="COLUMN=NUMBER", help="Give a column this many shares of the epsilon instead of one."
    ),
    most: int = typer.Option(200, "--most", min=1, help="The most values that are listed of a column."),
    ledger: Path | None = LEDGER,
    require_ledger: bool = REQUIRE,
    another_unit: bool = ANOTHER_UNIT,
    name: str | None = NAME,
    allow_views: bool = VIEWS,
    again: bool = AGAIN,
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be asked and paid, but spend nothing."),
    quiet: bool = QUIET,
    verbose: bool = VERBOSE,
    as_json: bool = JSON,
    file: Given = typer.Option({}),
) -> None:
    """Fill the blanks of a draft from the table, privately: lists of values, bounds, and rows used of each person.

    It costs budget, like a release, and is charged to the same account. Whatever can be known without the table is
    better written by hand: it is free and exact.
    """
    if out is None and not dry_run:
        raise typer.BadParameter("name the schema to write: -o FILE")
    begun: list[str] = []
    try:
        from sfumato.publishing.prepare import check_place

        if out is not None:
            check_place(out)
        wish = _wish(
            schema, file, table, epsilon=epsilon, delta=delta, columns=tuple(columns), shares=shares, most=most
        )
        from sfumato.kernel.ledger.ledger import Ledger

        book = Ledger(ledger, required=require_ledger)
        wish = replace(
            wish, ledger=book, another_unit=another_unit, table_name=name, allow_views=allow_views, again=again
        )
        if dry_run:
            _tell_rehearsal(table, wish)
            return
        done = _fill(table, wish, begun)
    except KeyboardInterrupt as stop:
        unsure = "what is reserved counts as spent, see `sfumato ledger show`" if begun else "nothing was reserved yet"
        raise Interrupted(left_behind(stop) or unsure) from None
    assert out is not None  # noqa: S101 (checked above)
    _tell(done, wish, out)


def _wish(schema: Path, file: Given, table: str, *, shares: list[str], **asked: Any) -> Wish:
    from sfumato.publishing.discover import Wish, read_draft
    from sfumato.schema.dialect import Dialect

    draft, text = read_draft(schema)
    said = {key: value for key, value in file.items() if value is not None}
    if said:
        known = draft.get("file")
        dialect = stated(table, file, Dialect(**known) if isinstance(known, dict) else None)
        draft["file"] = None if dialect is None else {key: part for key, part in dialect if part is not None}
    return Wish(draft, text, asked.pop("epsilon"), shares=_shares(shares), folder=schema.parent, **asked)


def _shares(written: list[str]) -> dict[str, Fraction]:
    from sfumato.kernel.budget import as_epsilon

    found = {}
    for share in written:
        name, equals, number = share.rpartition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--share {share!r} must be COLUMN=NUMBER, such as --share diagnosis=2")
        found[name] = as_epsilon(number, f"the share of {name}")
    return found


def _fill(table: str, wish: Wish, begun: list[str]) -> Discovery:
    """Fill the blanks of a draft; a repeated request is confirmed first, if somebody sits at a terminal."""
    from sfumato.cli.show import progress
    from sfumato.errors import RepeatedRelease
    from sfumato.publishing.discover import fill

    def once(wish: Wish) -> Discovery:
        with notes(), progress() as step:

            def noted(name: str) -> None:
                begun.append(name)
                step(name)

            return fill(table, wish, step=noted)

    try:
        return once(wish)
    except RepeatedRelease as repeated:
        begun.clear()
        if not (can_ask() and agreed(f"{repeated}. Spend it once more?")):
            raise
        return once(replace(wish, again=True))


def _tell_rehearsal(table: str, wish: Wish) -> None:
    from sfumato.publishing.discover import rehearse_fill

    account, parts, cost = rehearse_fill(table, wish), wish.parts, wish.cost
    asked = [
        {"name": one.name, "asks": one.kind, "fills": one.paths, "epsilon": epsilon, "delta": delta}
        for one, epsilon, delta in parts
    ]
    if MANNER.json:
        give({"done": "dry run", "looks": asked, "would_charge": _cost(wish), "budget": of_account(account)})
        return
    say("A dry run: no row was read, nothing was spent. These looks would be made:")
    rows = [
        (one.name, _QUESTIONS[one.kind], exact(epsilon), exact(delta) if delta else "") for one, epsilon, delta in parts
    ]
    show_table(("blank", "asks", "epsilon", "delta"), rows, left=(0, 1))
    what = f"epsilon {exact(cost.epsilon)}" + (f" and delta {exact(cost.delta)}" if cost.delta else "")
    say(f"It would charge {what} to {wish.schema.dataset}: {balance(account)} (ledger {wish.ledger.path}).")


_QUESTIONS = {
    "values": "which values enough people have",
    "bounds": "between which round figures 99 % of rows lie",
    "contributions": "how many rows of a person to use",
}


def _cost(wish: Wish) -> dict[str, Any]:
    return {"epsilon": wish.cost.epsilon, "delta": wish.cost.delta}


def _tell(done: Discovery, wish: Wish, out: Path) -> None:
    from sfumato.releases.file.artifact import write_text

    kept = write_text(out, done.text)
    account: Account = wish.ledger.account(done.receipt.dataset)
    if MANNER.json:
        found = [
            {"name": one.blank.name, "found": {".".join(path): _shown(value) for path, value in one.found.items()}}
            | {"words": one.words}
            for one in done.findings
        ]
        facts = {"done": "discovered", "file": out, "found": found, "left_blank": done.left, "charged": _cost(wish)}
        give({**facts, "kept": kept, "entry": done.receipt.entry, "budget": of_account(account)})
        return
    say(": what was bought is marked there, with its receipt.", bold=str(out))
    show_table(("blank", "found", "told"), [_row(one) for one in done.findings], left=(0, 1, 2))
    for one in done.findings:
        if one.numbers is not None:
            least, most = one.numbers
            say(
                f"All values found of {one.blank.name} are whole numbers, from {least} to {most}. If it is one, write "
                "its type as integer, with bounds, in place of the list."
            )
    if done.left:
        say(f"Still blank: {', '.join(done.left)}. Fill it in by hand, or spend more.")
    what = f"epsilon {exact(done.cost.epsilon)}" + (f" and delta {exact(done.cost.delta)}" if done.cost.delta else "")
    say(f"It cost {what}. Budget of {done.receipt.dataset}: {balance(account)} (ledger {wish.ledger.path}).")
    say_kept(kept)
    say(f"Next: {command('plan', '--schema', out, '--epsilon', '1')}")


def _row(one: Finding) -> tuple[str, str, str]:
    found = {path[-1]: value for path, value in one.found.items()}
    if "values" in found:
        listed = [str(value) for value in found["values"]]
        shown = ", ".join(listed[:4]) + (", ..." if len(listed) > 4 else "")
    elif "contributions" in found:
        shown = str(found["contributions"])
    else:
        shown = " to ".join(str(found[key]) for key in ("lower", "upper") if key in found)
    return one.blank.name, shown or "nothing", one.words


def _shown(value: Any) -> Any:
    return value if isinstance(value, int | float | list | bool) else str(value)
