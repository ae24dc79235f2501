"""What a reproduction shows: tables and pictures, the paper's figures beside ours, and a sentence on the difference."""

from __future__ import annotations

from collections.abc import Callable

from sfumato.frozen import dataclass

Tick = Callable[[str, float], None]  # what is being done, and which share of all is done


@dataclass(frozen=True)
class Picture:
    """A drawing: the name of its file, without its ending, and its SVG text."""

    name: str
    svg: str


@dataclass(frozen=True)
class Exhibit:
    """One table or figure of a paper, or a group that belongs together.

    source: where the paper has it. remark: how ours compares, and why it differs where it does.
    left: the columns of the table that hold words.
    """

    source: str
    title: str
    remark: str
    headers: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    left: tuple[int, ...] = (0,)
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Study:
    """All exhibits of one paper."""

    paper: str
    title: str
    exhibits: tuple[Exhibit, ...]


def digits(value: float, significant: int = 3) -> str:
    """A number with some significant digits, without exponents where they do not help.

    >>> digits(0.0012345), digits(1234567), digits(5.9), digits(7.6e-7)
    ('0.00123', '1,234,567', '5.9', '7.6e-07')
    """
    if value == 0:
        return "0"
    if abs(value) >= 10**significant:
        return f"{value:,.0f}"
    return f"{value:.{significant}g}"
