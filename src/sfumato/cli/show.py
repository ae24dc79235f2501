"""Terminal output: lines, tables, progress bars, exact fractions, and commands quoted for pasting."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.shared import MANNER, note_step, timed
from sfumato.errors import SchemaError
from sfumato.plain_text import aligned, printable, width

if TYPE_CHECKING:
    from fractions import Fraction

    from rich.console import Console

    from sfumato.kernel.budget import Cost
    from sfumato.kernel.ledger.composition import Period
    from sfumato.kernel.ledger.ledger import Account
    from sfumato.schema import Schema
    from sfumato.schema.linked import LinkedSchema

STEPS = {
    "plan": "choosing what to measure",
    "check": "checking names and types",
    "reserve": "reserving the budget in the ledger",
    "read": "reading and counting",
    "register": "registering who is counted",
    "measure": "adding noise",
    "write": "writing the release",
    "publish": "marking it published",
}


NAME = "sfumato"
SOON = 1.0  # seconds after which whoever waits is told what for


def say(text: str = "", *, bold: str = "", dim: bool = False, stderr: bool = False) -> None:
    """Print one line, with a bold beginning where there is one to a terminal.

    The words may be those of a stranger's file, so that nothing in them is obeyed: brackets are brackets, and a line
    break is spelled out. A line of its own takes a call of its own.
    """
    if not (MANNER.talk or stderr):
        return
    stream = sys.stderr if stderr else sys.stdout
    start, rest = printable(bold), printable(text)
    if not stream.isatty():
        print(start + rest, file=stream)
        return
    from rich.text import Text

    _console(stderr=stderr).print(Text.assemble((start, "bold"), (rest, "dim" if dim else "")))


def say_kept(kept: Path | None) -> None:
    """Say where an earlier file of the same name went, if there was one."""
    if kept is not None:
        say(f"An earlier file of that name was kept as {kept}.")


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = ()) -> None:
    """Print an aligned table; columns are right-aligned but for those in `left`."""
    if not MANNER.talk:
        return
    if not sys.stdout.isatty():
        first, *others = aligned([headers, *rows], left)
        for line in (first, "-" * max(map(width, (first, *others))), *others):
            say(line)
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, header in enumerate(headers):
        shown.add_column(
            Text(printable(header)), justify="left" if place in left else "right", no_wrap=True, overflow="fold"
        )
    for row in rows:
        shown.add_row(*(Text(printable(cell)) for cell in row))
    _console().print(shown)


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=True)


@contextmanager
def notes() -> Iterator[None]:
    """Report a new ledger, or an old word, in a line on stderr, whatever Python's filters say of warnings."""
    from sfumato.errors import NewLedgerWarning, OldWordWarning

    told = (NewLedgerWarning, OldWordWarning)
    with warnings.catch_warnings():
        for category in told:
            warnings.simplefilter("always", category)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, told):
                say("NOTE: " + " ".join(str(message).split()), stderr=True)
            else:
                others(message, category, *where, **more)

        warnings.showwarning = show
        yield


def load_schema(path: Path) -> Schema:
    """Read a schema, with a note on stderr for each word that has another name now."""
    from sfumato.schema import Schema

    with notes():
        return Schema.load(path)


def load_any(path: Path) -> Schema | LinkedSchema:
    """Read a schema of one table or of linked ones."""
    from sfumato.schema import Schema
    from sfumato.schema.file import read_yaml

    with notes():
        try:
            mapping = read_yaml(path)
        except SchemaError as problem:
            raise SchemaError(f"{path}: {problem}", kind=problem.kind) from None
        if not isinstance(mapping, Mapping) or "tables" not in mapping:
            return Schema.load(path, mapping)
        from sfumato.schema.linked import load_schema

        return load_schema(path, mapping)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Progress bar over the steps of a release and the reading of its table; silent in a pipe."""
    with _bar(20, len(STEPS)) as (bar, task):
        if bar is None:
            yield lambda name: note_step(STEPS.get(name, name))
            return
        from sfumato.kernel.reading.engines import watched

        at, furthest = list[str](), [0.0]

        def step(name: str) -> None:
            at.append(name)
            note_step(STEPS.get(name, name))
            bar.update(task, completed=len(at), description=STEPS.get(name, name))

        def read(share: float) -> None:
            if at and at[-1] == "read":
                furthest[0] = max(furthest[0], share)  # where more turns out to be left, it stays where it is
                bar.update(task, completed=len(at) + furthest[0], description=f"{STEPS['read']}, {furthest[0]:.0%}")

        with watched(read):
            yield step


@contextmanager
def counting(what: str) -> Iterator[Callable[[str, float], None]]:
    """Progress bar with a description and the share that is done; silent in a pipe."""
    with _bar(30, 1.0, what) as (bar, task):
        yield lambda name, share: bar.update(task, completed=share, description=f"{what}: {name}") if bar else None


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Description and duration of a task, once it has taken a second, on a terminal; silent in a pipe."""
    if not (MANNER.bars and sys.stderr.isatty()):
        with timed(what):
            yield lambda name: note_step(f"{what}: {name}")
        return
    now, lines, over, one_at_a_time = [what], list[tuple[Any, Any]](), threading.Event(), threading.Lock()

    def show() -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        parts = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        line = Progress(*parts, console=_console(stderr=True), transient=True)
        with one_at_a_time:
            if not over.is_set():
                lines.append((line, line.add_task(now[0], total=None)))
                line.start()

    def step(name: str) -> None:
        now[0] = f"{what}: {name}"
        note_step(now[0])
        for line, task in lines:
            line.update(task, description=now[0])

    timer = threading.Timer(SOON, show)
    timer.daemon = True
    timer.start()
    try:
        with timed(what):
            yield step
    finally:
        timer.cancel()
        with one_at_a_time:
            over.set()
            for line, _ in lines:
                line.stop()


@contextmanager
def _bar(width: int, total: float, what: str = "starting") -> Iterator[tuple[Any, Any]]:
    """Progress bar on a terminal and the task it shows; None in a pipe."""
    if not (MANNER.bars and sys.stderr.isatty()):
        with timed(what):
            yield None, None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    parts = (SpinnerColumn(), BarColumn(bar_width=width), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*parts, console=_console(stderr=True), transient=True) as bar, timed(what):
        yield bar, bar.add_task(what, total=total)


def exact(number: object) -> str:
    """Format an exact fraction: as a decimal where it is one.

    >>> from fractions import Fraction
    >>> exact(Fraction(1, 2)), exact(Fraction(1, 3))
    ('0.5', '1/3')
    """
    from sfumato.plain_text import readable

    return readable(number)  # type: ignore[arg-type]


def balance(account: Account) -> str:
    """Describe what a dataset's releases cost together, and what is left for the next one of each kind.

    Such as "epsilon 3.459 of 8 spent at delta 1.2e-8, added up in rho; next: at most epsilon 1.2 pure, or ...".
    """
    from sfumato.plain_text import in_short

    at = f" at delta {exact(account.spent_delta)}" if account.spent_delta else ""
    if account.total_rho is not None and account.spent_rho is not None:
        amounts = f"rho {in_short(account.spent_rho)} of {exact(account.total_rho)} spent"
        told = f" (epsilon {in_short(account.spent)}{at})" if account.spent_rho else ""
        return f"{amounts}{told}, {left_for_next(account)}"
    total = "" if account.total_delta is None else f" and delta {exact(account.total_delta)}"
    return f"epsilon {in_short(account.spent)}{at} of {exact(account.total)}{total} spent, {left_for_next(account)}"


def left_in_short(amount: Fraction) -> str:
    """Format an amount that is left: exactly where that is short, else rounded down to four digits.

    >>> from fractions import Fraction
    >>> left_in_short(Fraction(9, 20)), left_in_short(Fraction(1, 3))
    ('0.45', '0.3333')
    """
    from decimal import ROUND_FLOOR, Context

    from sfumato.kernel.budget import rounded
    from sfumato.plain_text import readable

    found = readable(amount)
    return found if len(found) <= 8 and "/" not in found else readable(rounded(amount, Context(4, ROUND_FLOOR)))


def left_for_next(account: Account) -> str:
    """Describe the largest next release, of each kind."""
    period = next_period(account)
    where = "" if period is None else f" for {period.label}" if period.label else " for a period without a part"
    if (rho := left_rho(account)) is not None:
        pure = f"epsilon {exact(left(account))} without a delta"
        return f"rho {left_in_short(rho)} left{where}, which is {pure}"
    pure, (gaussian, at) = exact(left(account)), left_gaussian(account)
    if gaussian is None:
        return f"{pure} left{where}"
    with_delta = f"{exact(gaussian)} with {exact(at)}"
    return f"left for the next release{where}: epsilon {pure} without a delta, {with_delta}"


def periods_of(account: Account) -> tuple[Period, ...]:
    """Periods of a series, in the order of their first releases; none where all releases add up."""
    alike = len({loss.period and loss.period.whose for loss in account.losses}) == 1
    return tuple(dict.fromkeys(loss.period for loss in account.losses if loss.period is not None)) if alike else ()


def next_period(account: Account) -> Period | None:
    """A period that has no release yet; where periods of a year add up, the latest year."""
    periods = periods_of(account)
    if periods and periods[0].span:
        return max(periods, key=lambda period: period.label)
    return replace(periods[0], label="") if periods else None


def left(account: Account) -> Fraction:
    """The largest epsilon that one more pure release may have."""
    return left_in(account, next_period(account))


@lru_cache(maxsize=256)
def left_in(account: Account, period: Period | None, at: Fraction | int = 0) -> Fraction:
    """The largest epsilon that one more release in a period may have. at: its delta; 0 for a pure one."""
    from fractions import Fraction

    from sfumato.kernel.ledger.composition import borne, largest_next

    mine = borne(account.losses, period)
    return largest_next(mine, account.total, account.total_delta, Fraction(at), account.total_rho, period)


def with_one_more(account: Account, cost: Cost, period: Period | None = None) -> Account:
    """The account as it would be after one more release."""
    from sfumato.kernel.ledger.composition import Loss

    return replace(account, losses=(*account.losses, Loss(cost.epsilon, cost.delta, cost.budget.rho, period)))


def left_rho(account: Account) -> Fraction | None:
    """The rho that is left of a total in rho for a next period; None where the total is an epsilon."""
    from sfumato.kernel.ledger.composition import borne, rho_left

    if account.total_rho is None:
        return None
    period = next_period(account)
    return rho_left(borne(account.losses, period), account.total_rho, period)


def left_gaussian(account: Account) -> tuple[Fraction | None, Fraction | None]:
    """The largest epsilon of one more release with Gaussian noise, and its delta: the last one's, or the total's."""
    last = next((loss.delta for loss in reversed(account.losses) if loss.rho is not None), None)
    at = last if last is not None and (account.total_delta or 1) >= last else (account.total_delta or None)
    return (None, None) if at is None else (left_in(account, next_period(account), at), at)


def left_delta(account: Account) -> Fraction | None:
    """The largest delta of a next release, the whole total where releases add up in rho; None if none is stated."""
    if account.total_delta is None:
        return None
    rest = account.total_delta - (0 if account.together.rho is not None else account.spent_delta)
    return max(rest, 0 * rest)


def way_of_adding(account: Account) -> str:
    """Describe which way of adding up gave the epsilon of all releases together."""
    together = account.together
    if together.rho is None:
        return "the sum of epsilons" + (" and of deltas" if together.delta else "")
    from sfumato.plain_text import in_short

    return f"rho {in_short(together.rho)} in all, which is epsilon {in_short(together.epsilon)} at that delta"


def command(*words: object) -> str:
    """Format a call of this program as one line for a shell."""
    return " ".join([program(), *(_quoted(str(word)) for word in words)])


def _quoted(word: str) -> str:
    """Quote a word for a shell, in double quotes if it has single ones and nothing that a shell would expand.

    >>> print(_quoted("WHERE sex = 'F'"), _quoted("'$5'"))
    "WHERE sex = 'F'" ''"'"'$5'"'"''
    """
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)


def program() -> str:
    """Name that calls this program from here: `sfumato` if a shell finds one, else the way it was called this time."""
    if shutil.which(NAME) is not None:
        return NAME
    called = sys.argv[0]
    if Path(called).name in ("__main__.py", "-m"):
        return f"{_here(sys.executable)} -m sfumato"
    if os.sep not in called:
        return shlex.quote(Path(called).name)
    return _here(called)


def _here(path: str) -> str:
    """A path quoted for the shell: relative to the current folder if inside it, else absolute."""
    absolute, here = Path(path).absolute(), Path.cwd()
    below = os.path.join(".", absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)  # noqa: PTH118
    return shlex.quote(below)
