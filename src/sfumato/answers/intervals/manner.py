"""How the intervals of an answer are meant: of which kind, clipped or not, each by itself or all together."""

from __future__ import annotations

from typing import Literal, get_args

from sfumato.errors import QueryError
from sfumato.frozen import dataclass

Kind = Literal["typical", "guaranteed", "both"]
KINDS: tuple[str, ...] = get_args(Kind)
MOST_COMPARED = 2**24  # numbers looked at, over all intervals of an answer, up to which both kinds are worked out
OF_A_SUM = 2**12  # of them, as much work as there is besides for the ends of one sum
GUARANTEED = "guaranteed intervals hold for every table: they come from the noise that was drawn and what is always so"


@dataclass(frozen=True)
class Manner:
    """interval: of which kind. possible: no end beyond what any table can hold. simultaneous: all hold together.

    selected: those of rows that noise chose to be shown allow for the choice. unbiased: values are as measured, and
    intervals hold what the noise does alone.
    one_of_many: at so high a confidence that the tails of all errors count (many.py).
    """

    interval: str = "typical"
    possible: bool = False
    simultaneous: bool = False
    selected: bool = True
    unbiased: bool = False
    one_of_many: bool = False

    def __post_init__(self) -> None:
        if self.interval not in KINDS:
            raise QueryError(f"an interval is {', '.join(KINDS[:-1])} or {KINDS[-1]}, not {self.interval!r}")

    @property
    def plain(self) -> bool:
        """Whether columns are shown as they are worked out anyway."""
        return self.interval == "typical" and not self.possible
