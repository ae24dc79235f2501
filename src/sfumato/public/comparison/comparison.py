"""Interval of a difference of two estimates (MOVER), and the result of a comparison with its printed forms.

Where the noises of the two are independent, the distances of the ends from their values are added in squares (MOVER:
Zou and Donner 2008; Howe 1974). For normal noise that is exact. For two Laplace noises of scales b and r b it covers at
least as often as stated from a confidence of about 91 % on: the far tail of a sum of exponentials is that of the larger
one, and sqrt(1 + r^2) overtakes the rest. At 95 % it misses 4.5 % for r = 1, 4.7 % for r = 1/2. So no interval is
computed at a confidence below LEAST.

Where they may share noise, or where ends that hold for every table are wanted, the worst ends are taken, with half of
the risk for each. That is the union bound, and needs no assumption on how the noises are related.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from math import hypot, inf, isfinite, isnan
from typing import Any

from sfumato.answers.results import Estimate, decimals_for
from sfumato.domain import Label
from sfumato.frozen import dataclass
from sfumato.plain_text import aligned, file_safe, printable

LEAST = 0.92  # confidence at which a single interval is worked out


@dataclass(frozen=True)
class Difference:
    """Difference after - before. real: whether noise alone does not explain it; None if nothing is known of it."""

    before: Estimate
    after: Estimate
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.after.value - self.before.value

    @property
    def stderr(self) -> float:
        return hypot(self.before.stderr, self.after.stderr)

    @property
    def real(self) -> bool | None:
        return None if isnan(self.value) else bool(self.low > 0.0 or self.high < 0.0)

    @property
    def clearness(self) -> float:
        """Distance of the difference from zero in half-widths of its interval; above 1 it is real."""
        if isnan(self.value):
            return -1.0
        width = self.value - self.low if self.value > 0.0 else self.high - self.value
        if width <= 0.0:
            return inf if self.value else 0.0
        return abs(self.value) / width if isfinite(width) else 0.0


def difference(before: Estimate, after: Estimate, *, apart: bool) -> Difference:
    """Subtract two estimates, with an interval. apart: their noises are independent."""
    if isnan(before.value) or isnan(after.value):
        return Difference(before, after, -inf, inf)
    if not apart:
        return Difference(before, after, after.low - before.high, after.high - before.low)
    value = after.value - before.value
    low = value - hypot(after.value - after.low, before.high - before.value)
    high = value + hypot(after.high - after.value, before.value - before.low)
    return Difference(before, after, low, high)


SHOWN = 20  # rows of a table for people, unless all are asked for
LEFT = (0, 1, 6)


@dataclass(frozen=True)
class Compared:
    """One number of both releases. names, key: its cell, none for all rows. what: count or share."""

    names: tuple[str, ...]
    key: tuple[Label, ...]
    what: str
    difference: Difference

    @property
    def where(self) -> str:
        """Describe the cell in words."""
        pairs = zip(self.names, self.key, strict=True)
        return ", ".join(f"{name} = {_label(label)}" for name, label in pairs) or "all rows"

    @property
    def record(self) -> dict[str, Any]:
        """Convert to a flat record of types that JSON knows; unknown is None."""
        one = self.difference
        numbers: dict[str, float | None] = {}
        for name, side in (("before", one.before), ("after", one.after)):
            ends = {name: side.value, f"{name}_stderr": side.stderr, f"{name}_low": side.low, f"{name}_high": side.high}
            numbers |= ends
        numbers |= {"difference": one.value, "difference_stderr": one.stderr}
        numbers |= {"difference_low": one.low, "difference_high": one.high, "clearness": one.clearness}
        plain = {name: number if number is not None and isfinite(number) else None for name, number in numbers.items()}
        cell = dict(zip(self.names, self.key, strict=True))
        return {"where": self.where, "cell": cell, "what": self.what, **plain, "real": one.real}

    @property
    def texts(self) -> list[str]:
        """Format as a row for people."""
        one, share = self.difference, self.what == "share"
        sides = [_number(side.value, side.stderr, share) + " %" * share for side in (one.before, one.after)]
        points = " points" * share
        apart, low, high = (_number(end, one.stderr, share, "+") for end in (one.value, one.low, one.high))
        verdict = {True: "real", False: "could be noise", None: "unknown"}[one.real]
        return [printable(self.where), self.what, *sides, apart + points, f"{low} to {high}{points}", verdict]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """All differences, the clearest first. together: number of intervals that hold together with the confidence."""

    rows: tuple[Compared, ...]
    confidence: float
    names: tuple[str, str]
    notes: tuple[str, ...]
    apart: bool

    @property
    def together(self) -> int:
        return len(self.rows)

    @property
    def real(self) -> tuple[Compared, ...]:
        """Differences that noise does not explain."""
        return tuple(row for row in self.rows if row.difference.real)

    @property
    def statement(self) -> str:
        """Conclusion in one sentence."""
        found, every = len(self.real), f"{self.together:,}"
        percent = f"{self.confidence * 100:.6g} %"
        if self.together == 1:
            said = "is larger than noise explains" if found else "may be noise"
            return f"The one difference {said}, at {percent}."
        verb, number = "are" if found > 1 else "is", f"{found:,}" if found else "None"
        return (
            f"{number} of {every} differences {verb} larger than noise explains, at {percent} for all {every} together."
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert to types that JSON knows."""
        return {
            "statement": self.statement,
            "before": self.names[0],
            "after": self.names[1],
            "confidence": self.confidence,
            "together": self.together,
            "real": len(self.real),
            "independent_noise": self.apart,
            "notes": list(self.notes),
            "rows": [row.record for row in self.rows],
        }

    def to_csv(self) -> str:
        """Format as CSV, one line for each difference; labels are escaped so that no spreadsheet runs them."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        records = [{name: value for name, value in row.record.items() if name != "cell"} for row in self.rows]
        if records:
            writer.writerow(records[0])
            writer.writerows([_field(value) for value in record.values()] for record in records)
        return text.getvalue()

    def texts(self, most: int | None = SHOWN) -> tuple[list[str], list[list[str]]]:
        """Format as headers and rows for people; most: how many, all if None."""
        first, second = (printable(name) for name in self.names)
        headers = ["where", "what", first, second, "difference", "interval", "verdict"]
        return headers, [row.texts for row in self.rows[:most]]

    def __repr__(self) -> str:
        headers, rows = self.texts()
        more = [f"... and {self.together - SHOWN:,} more"] if self.together > SHOWN else []
        notes = [printable(f"note: {note}") for note in self.notes]
        return "\n".join([self.statement, "", *aligned([headers, *rows], LEFT), *more, *notes])


def _label(label: Label) -> str:
    if label is None:
        return "NULL"
    return str(label).lower() if isinstance(label, bool) else str(label)


def _number(number: float, stderr: float, share: bool, sign: str = "") -> str:
    """Format a number to the digit where its error begins; a share in hundredths."""
    if not isfinite(number):
        return "unknown" if isnan(number) else ("unbounded" if number > 0 else "-unbounded")
    times = 100.0 if share else 1.0
    return f"{number * times:{sign},.{decimals_for(stderr * times)}f}"


def _field(value: Any) -> Any:
    if value is None:
        return ""
    return file_safe(value) if isinstance(value, str) else value


def clearest_first(rows: Sequence[Compared]) -> tuple[Compared, ...]:
    """Sort by clearness; equally clear ones in the order of the schema."""
    return tuple(sorted(rows, key=lambda row: -row.difference.clearness))
