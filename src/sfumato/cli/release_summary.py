"""Print the summary of a release: made, rehearsed, or found to exist already."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.ledger import deltas, of_account, of_guarantee, promises
from sfumato.cli.shared.conventions import MANNER, give
from sfumato.cli.show import command, exact, say, table
from sfumato.models import find_mechanism
from sfumato.plain_text import as_rows
from sfumato.schema.what_is_counted import counted_in_short, what_is_counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.kernel.budget import Cost
    from sfumato.kernel.ledger.ledger import Account, Ledger
    from sfumato.publishing.publish import Published, Rehearsal
    from sfumato.releases.file.manifest import Guarantee
    from sfumato.releases.release import Release


def tell_published(published: Published, book: Ledger, delta: str | None, workload: Path | None) -> None:
    """Print the summary of a release that was made: path, guarantee, cost, and first queries."""
    made, errors = published.release, published.errors()
    public, account = made.schema, book.account(made.schema.dataset)
    if MANNER.json:
        kept, receipt = published.kept, made.receipt or {}
        facts = _facts("released", published.path, public.dataset, made.mechanism, made.guarantee, errors, account)
        facts |= {"counted": list(what_is_counted(public))}
        _give(facts, book, why=published.why, kept=kept, charged=_charged(made.guarantee), entry=receipt.get("entry"))
        return
    say(f": {made.content.about.extent}, mechanism {made.mechanism}.", bold=str(published.path))
    if published.why is not None:
        say(f"Why this mechanism: {published.why}.")
    _tell_errors(errors)
    say(made.guarantee.statement)
    _tell_promise(made.guarantee, delta)
    if counted := counted_in_short(public):
        say(f"Counted: {counted}.")
    say(
        f"Budget of {public.dataset}: epsilon {exact(account.spent)} of {exact(account.total)} spent, "
        f"{exact(account.left)} left{deltas(account)} (ledger {book.path})."
    )
    if len(account.promises) > 1:
        say(f"Together: {promises(account)}.")
    if published.kept is not None:
        say(f"An earlier file of that name was kept as {published.kept}.")
    first = f"SELECT COUNT(*) FROM {public.dataset}"
    if find_mechanism(made.mechanism).answers == "its workload":
        say("Only what follows from the queries of the workload has an answer in this file; the rest is unknown.")
        if workload is not None:
            from sfumato.planner.questions import read_statements

            ((first, _), *_) = read_statements(workload, public)
    about = made.content.about
    for finding in about.findings:
        say(f"{finding}.")
    if about.examples:
        first = about.examples[0]
    elif not made.content.answers_counts:
        say(f"Try: {command('info', published.path)}")
        return
    say(f"Try: {command('query', published.path, first)}")


def tell_rehearsal(found: Rehearsal, book: Ledger, delta: str | None) -> None:
    """Print the summary of a dry run."""
    was, account = found.prepared, found.account
    name, cost = was.schema.dataset, was.cost
    if MANNER.json:
        facts = _facts("dry run", found.path, name, was.mechanism.name, found.guarantee, found.errors, account)
        _give(facts, book, why=was.why, replaces=found.replaces, would_charge=_charged(cost))
        return
    say(f": mechanism {was.mechanism.name}. A dry run: no row was read, nothing was spent.", bold=str(found.path))
    if was.why is not None:
        say(f"Why this mechanism: {was.why}.")
    _tell_errors(found.errors)
    say(found.guarantee.statement)
    _tell_promise(found.guarantee, delta)
    what = f"epsilon {exact(cost.epsilon)}" + (f" and delta {exact(cost.delta)}" if cost.delta else "")
    say(
        f"It would charge {what} to {name}: epsilon {exact(account.spent)} of {exact(account.total)} is spent, "
        f"{exact(account.left)} is left{deltas(account)}; {exact(account.left - cost.epsilon)} would be left then "
        f"(ledger {book.path})."
    )
    if book.identity() is None:
        say("There is no such ledger: a new one would be made, which knows of no earlier release.")
    if found.replaces:
        say("A file of that name is there; it would be kept under another.")


def tell_there(found: Release, path: Path, book: Ledger) -> None:
    """Print that the release exists already, so that nothing was done."""
    name = found.schema.dataset
    if MANNER.json:
        facts = _facts("there already", path, name, found.mechanism, found.guarantee, {}, book.account(name))
        _give(facts, book)
    say(" is there already, with this schema and epsilon. Nothing was read and nothing was spent.", bold=str(path))


def _facts(
    done: str,
    path: Path,
    dataset: str,
    mechanism: str,
    promise: Guarantee,
    errors: Mapping[str, float],
    account: Account,
) -> dict[str, Any]:
    facts: dict[str, Any] = {"done": done, "file": path, "dataset": dataset, "mechanism": mechanism}
    return facts | {"guarantee": of_guarantee(promise), "expected_errors": dict(errors), "budget": of_account(account)}


def _give(facts: dict[str, Any], book: Ledger, **more: object) -> None:
    give({**facts, **more, "ledger": {"path": book.path, "identity": book.identity()}})


def _charged(cost: Cost | Guarantee) -> dict[str, Any]:
    return {"epsilon": cost.epsilon, "delta": cost.delta}


def _tell_errors(errors: Mapping[str, float]) -> None:
    if errors:
        say("What to expect of counts, by how many attributes they name:")
        table(("counts of", "± std. error"), [(kind, as_rows(error)) for kind, error in errors.items()], left=(0,))


def _tell_promise(promise: Guarantee, delta: str | None) -> None:
    """Print the guarantee, and what became of a delta that was given."""
    if promise.delta:
        assert promise.rho is not None  # noqa: S101 (a guarantee with a delta has both)
        what = f"epsilon {exact(promise.epsilon)}, delta {exact(promise.delta)}"
        say(f"Guarantee: {what}, from rho {exact(promise.rho)} of zero-concentrated privacy.")
    elif delta is not None:
        say("No delta was needed. The guarantee is pure epsilon.")
