"""Selection: rows that are shown because of how their noisy values came out, and the confidence that allows for it.

An interval at confidence c misses with chance 1 - c, whichever question it belongs to. Of m groups the k with the
largest noisy values are those whose noise came out large: their intervals miss far more often. Each interval at

    1 - R (1 - c) / m,          R of m rows shown,

keeps the false coverage rate, the expected share of shown intervals that miss, at 1 - c (Benjamini, Yekutieli 2005,
"False discovery rate-adjusted multiple confidence intervals for selected parameters"). Where R is fixed, as by LIMIT,
that holds whatever noises share: the chances to miss of all m add up to R (1 - c). Where noise decides R, as by HAVING,
it is proved for independent noises.

What is chosen by public keys is no selection: rows that steps leave out without looking at noisy numbers do not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from sfumato.answers.groups import Groups
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.sql import Select
from sfumato.sql.table.plan import Keep, Rank, Sort, Step, Table, Take, trees_of
from sfumato.sql.values.tree import Tree, places

HIGHEST, LOWEST, CONDITION = "came out highest", "came out lowest", "met the condition"
_OFF = {HIGHEST: "too high", LOWEST: "too low", CONDITION: "off to the side that let them in"}


@dataclass(frozen=True)
class Chosen:
    """shown: rows, of so many among which noisy values chose. how: by which values, in words."""

    shown: int
    among: int
    how: str = CONDITION

    @property
    def share(self) -> float:
        return self.shown / self.among

    def note(self, confidence: float, *, allowed: bool, together: bool) -> str:
        """What a reader of the rows should know. allowed: by their intervals; together: as all others are."""
        one = self.shown == 1
        rows = "the row shown was" if one else f"the {self.shown:,} rows shown were"
        whose, are = ("its noisy value", "it is") if one else ("their noisy values", "they are")
        text = f"{rows} chosen among {self.among:,} because {whose} {self.how}, so on average {are} {_OFF[self.how]}; "
        if together:
            return text + "the intervals hold for all rows together, and so for the chosen ones"
        if allowed:
            return text + f"the intervals are wide enough for that: of rows chosen so, {confidence * 100:.6g} % hold"
        return text + "the intervals do not allow for that and may hold less often: ask for selected ones"


def confidence_of_each(confidence: float, choices: Iterable[Chosen]) -> float:
    """The confidence at which each interval is asked, for those shown to keep this one (false coverage rate).

    >>> round(confidence_of_each(0.95, [Chosen(5, 1000, HIGHEST)]), 6)
    0.99975
    """
    return 1.0 - prod(choice.share for choice in choices) * (1.0 - confidence)


def chosen_by(select: Select, domain: Domain) -> Chosen | None:
    """What LIMIT chooses after ORDER BY a noisy number; None where keys alone decide, or every group is shown."""
    if not select.chooses:
        return None
    among = len(Groups.of(select, domain).present)
    left = max(0, among - select.offset)
    shown = left if select.limit is None else min(select.limit, left)
    how = CONDITION if select.offset else HIGHEST if select.ordering[0][1] else LOWEST
    return Chosen(shown, among, how) if 0 < shown < among else None


class Followed:
    """Follows rows through steps, to tell which of these chose by noisy numbers."""

    def __init__(self, noisy: Iterable[int], next_rank: int) -> None:
        """noisy: places of a row that hold noisy numbers. next_rank: where the next rank will stand."""
        self.noisy, self._next = set(noisy), next_rank
        self._order = ""  # of the last sort, if it went by noise
        self.choices: list[Chosen] = []

    def step(self, step: Step, before: int, after: int) -> None:
        """Take notice of a step, and of how many rows there were before and are after it."""
        looks = any(self.looks_at_noise(tree) for tree in trees_of(step))
        if isinstance(step, Rank):
            if looks:
                self.noisy.add(self._next)
            self._next += 1
        elif isinstance(step, Sort):
            falling = [rule.descending for rule in step.rules if self.looks_at_noise(rule.by)]
            self._order = "" if not falling else HIGHEST if falling[0] else LOWEST
        elif isinstance(step, Keep) and looks:
            self._chose(before, after, CONDITION)
        elif isinstance(step, Take) and self._order:
            self._chose(before, after, CONDITION if step.offset else self._order)

    def looks_at_noise(self, tree: Tree) -> bool:
        return bool(places(tree) & self.noisy)

    def _chose(self, before: int, after: int, how: str) -> None:
        if 0 < after < before:
            self.choices.append(Chosen(after, before, how))


def followed(table: Table) -> Followed:
    """The steps of a table, before the first of them."""
    return Followed(range(table.keys, table.keys + table.aggregates), table.keys + table.aggregates + 1)
