"""How things look on a terminal, and in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

STEPS = {
    "check": "checking names and types",
    "reserve": "reserving the budget in the ledger",
    "read": "reading and counting",
    "measure": "adding noise",
    "write": "writing the release",
    "publish": "marking it published",
}


def console(*, stderr: bool = False) -> Console:
    """A console that wraps to the terminal and does not wrap in a pipe."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 10_000
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=True)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (), title: str = "") -> None:
    """Print an aligned table; columns are right-aligned but for those in `left`."""
    from rich import box
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title or None, title_justify="left", title_style="bold")
    for place, header in enumerate(headers):
        shown.add_column(header, justify="left" if place in left else "right", no_wrap=True, overflow="fold")
    for row in rows:
        shown.add_row(*row)
    console().print(shown)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A bar over the steps of a release, on a terminal; silent in a pipe."""
    if not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    parts = (SpinnerColumn(), BarColumn(bar_width=20), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*parts, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=len(STEPS))
        yield lambda name: bar.update(task, advance=1, description=STEPS.get(name, name))


def exact(number: object) -> str:
    """An exact fraction as a reader writes it: a decimal where it is one.

    >>> from fractions import Fraction
    >>> exact(Fraction(1, 2)), exact(Fraction(1, 3))
    ('0.5', '1/3')
    """
    from sfumato.kernel.budget import readable

    return readable(number)  # type: ignore[arg-type]
