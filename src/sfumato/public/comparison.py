"""Compare two releases: subtract every count and share that both answer, with simultaneous intervals.

For example two years of one survey, or one table at two epsilons. Tables are compared over attributes of the same name
and values that both releases list. All intervals hold together with the confidence (Bonferroni over all that could be
shown, not over what is printed), so the most striking differences may be believed as well.

Interval of a difference of two estimates (MOVER), and the result of a comparison with its printed forms.

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
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from math import hypot, inf, isfinite, isnan, prod
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.answers.answer import of_each
from sfumato.answers.noise_sum import check_confidence
from sfumato.answers.question import Manner
from sfumato.answers.results import Estimate, decimals_for
from sfumato.answers.statement import run_in_manner, text_in_manner
from sfumato.domain import Axis, Label
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.plain_text import aligned, file_safe, printable, readable
from sfumato.releases.contents.series import SeriesContent
from sfumato.releases.parts import draws_of
from sfumato.schema.schema import what_is_counted
from sfumato.sql import compile_statement

if TYPE_CHECKING:
    from sfumato.releases.release import Release

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
    """One count or share from both releases. names, key: its cell, none for all rows. what: count or share."""

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


# -- compare


MOST_COMPARED = 100_000  # numbers of a comparison


@dataclass(frozen=True)
class SharedTable:
    """Table that both releases answer. labels: of every attribute, the values that both have."""

    names: tuple[str, ...]
    labels: tuple[tuple[Label, ...], ...]

    @property
    def keys(self) -> list[tuple[Label, ...]]:
        """Keys of the cells that both releases have, in the order of the first."""
        return list(product(*self.labels))

    @property
    def size(self) -> int:
        return prod(map(len, self.labels))


def shared_tables(first: Release, second: Release, by: Sequence[str]) -> tuple[list[SharedTable], list[str]]:
    """Tables to compare, and notes on those that cannot be. by: one table of these; if empty, one per attribute."""
    ours, theirs = ({axis.name: axis for axis in one.domain} for one in (first, second))
    common = [name for name in ours if name in theirs]
    if not common:
        raise QueryError(
            f"the two releases share no attribute: one has {_listed(ours)}, the other {_listed(theirs)}; compare "
            "releases whose schemas name the same things in the same way"
        )
    if len(set(by)) < len(by):
        raise QueryError("an attribute is named twice with --by; name each once")
    for name in by:
        if name not in common:
            raise QueryError(f"{name!r} is not in both releases; they share {_listed(common)}")
    tables, notes, alike = list[SharedTable](), list[str](), dict[str, tuple[Label, ...]]()
    for name in by or common:
        labels = _both(ours[name], theirs[name])
        if not labels and by:
            raise QueryError(f"the two releases cut {name!r} in different ways and share no value or bin of it")
        if not labels:
            notes.append(f"{printable(name)} is cut in different ways in the two releases and was not compared")
            continue
        alike[name] = labels
        left = [
            (axis.size - len(axis.gaps) - len(labels), which)
            for axis, which in ((ours[name], "first"), (theirs[name], "second"))
        ]
        if odd := [f"{number:,} that only the {which} has" for number, which in left if number]:
            notes.append(f"of {printable(name)}, values that both have are compared, without {' and '.join(odd)}")
    if by:
        tables = [SharedTable(tuple(by), tuple(alike[name] for name in by))]
    else:
        tables = [SharedTable((name,), (labels,)) for name, labels in alike.items()]
    if not tables:
        raise QueryError("the two releases share attributes, but no value or bin of any of them; nothing to compare")
    if (number := sum(table.size for table in tables)) > MOST_COMPARED:
        raise QueryError(f"that is {number:,} cells to compare and {MOST_COMPARED:,} is the most; name fewer with --by")
    return tables, notes


def _both(ours: Axis, theirs: Axis) -> tuple[Label, ...]:
    """Match the cells of both by meaning: values by their names, bins by their ends."""
    if ours.ordered != theirs.ordered or (ours.ordered and ours.kind != theirs.kind):
        return ()
    others = {label for cell, label in enumerate(theirs.labels()) if cell not in theirs.gaps}
    return tuple(label for cell, label in enumerate(ours.labels()) if cell not in ours.gaps and label in others)


def _listed(names: Sequence[str] | dict[str, Axis]) -> str:
    few = [repr(name) for name in names][:8]
    return ", ".join(few) + (", ..." if len(names) > 8 else "")


WHAT_REAL_MEANS = (
    "a real difference is one between the two tables; whether it is more than chance in who happened to be in them is "
    "another question"
)
MODELS = "these intervals lean on a model of what was not measured; all of them hold together as far as it does"

Cells = dict[tuple[Label, ...], dict[str, Estimate]]


def compare(
    before: str | PathLike[str] | Release,
    after: str | PathLike[str] | Release,
    *,
    by: Sequence[str] = (),
    confidence: float = 0.95,
    interval: str = "typical",
    names: tuple[str, str] | None = None,
    shares: bool = True,
    step: Callable[[str], None] = lambda name: None,
) -> Comparison:
    """Subtract one release's counts and shares from another's, the clearest differences first.

    by: the attributes of one table to compare; without any, a table of each attribute that both have, and all rows.
    interval: "typical", or "guaranteed", which holds for every table. names: what the two are to be called. shares: of
    each cell also its share of all rows. step: told each table's name.
    """
    (first, of_first), (second, of_second) = (_opened(one) for one in (before, after))
    check_confidence(confidence)
    if interval not in ("typical", "guaranteed"):
        raise QueryError(f"an interval is typical or guaranteed here, not {interval!r}")
    tables, notes = shared_tables(first, second, by)
    whats = ("count", "share") if shares else ("count",)
    numbers = 1 + sum(len(whats) * table.size for table in tables)  # all rows, and those of each cell
    apart = interval == "typical" and not _same_draw(first, second) and not (first.leans_on or second.leans_on)
    each = of_each(confidence, numbers)
    each = max(each, LEAST) if apart else (1.0 + each) / 2.0  # half of the risk for either side
    found = list[Compared]()
    for place, table in enumerate((SharedTable((), ()), *tables)):
        step(f"{', '.join(table.names)}, table {place} of {len(tables)}" if table.names else "all rows")
        ours, theirs = (_ask(one, table, each, interval, shares=shares) for one in (first, second))
        for key in table.keys if table.names else [()]:
            for what in whats if table.names else ("count",):
                one = difference(ours[key][what], theirs[key][what], apart=apart)
                found.append(Compared(table.names, key, what, one))
    spans = [f"{name}: sums over {of}" for name, of in (("first", of_first), ("second", of_second)) if of]
    notes = [*_about_the_two(first, second), *spans, *notes]
    if interval == "typical" and any(
        side.model for row in found for side in (row.difference.before, row.difference.after)
    ):
        notes.append(MODELS)
    called = names or _names(before, after)
    return Comparison(clearest_first(found), confidence, called, (*notes, WHAT_REAL_MEANS), apart)


def _opened(one: str | PathLike[str] | Release) -> tuple[Release, str]:
    """Open a release (of a series, its parts that have every column), with the periods in words."""
    from sfumato.releases.linked import one_table
    from sfumato.releases.release import Release, open_release

    opened = one_table(one if isinstance(one, Release) else open_release(str(one)), None)
    whole, complete = opened.content, opened.content.complete()
    periods = complete.compared_with(whole) if isinstance(complete, SeriesContent) else ""
    return opened if complete is whole else replace(opened, content=complete), periods


def _ask(release: Release, table: SharedTable, confidence: float, interval: str, *, shares: bool) -> Cells:
    """Query counts, and shares, of every cell of a table, each with an interval of that confidence."""
    names = ['"' + name.replace('"', '""') + '"' for name in table.names]

    def rows(sql: str) -> tuple[tuple[object, ...], ...]:
        asked = release.content, confidence, Manner(interval, one_of_many=True)
        found = text_in_manner(sql, *asked) or run_in_manner(compile_statement(sql, release.schema), *asked)
        return found.rows

    if not names:
        ((count,),) = rows("SELECT COUNT(*) FROM release")
        return {(): {"count": _estimate(count)}}
    listed = ", ".join(names)
    asked = {"count": "COUNT(*) AS n"} | ({"share": "COUNT(*) / SUM(COUNT(*)) OVER () AS share"} if shares else {})
    sql = f"SELECT {listed}, {', '.join(asked.values())} FROM release GROUP BY {listed}"
    found: Cells = {}
    for row in rows(sql):
        key, numbers = row[: -len(asked)], row[-len(asked) :]
        found[key] = dict(zip(asked, map(_estimate, numbers), strict=True))  # type: ignore[index]
    return found


def _estimate(cell: object) -> Estimate:
    if not isinstance(cell, Estimate):
        raise QueryError("a release has no counts to compare; ask it what it was made for, as `sfumato info` says")
    return cell


def _same_draw(first: Release, second: Release) -> bool:
    """Check whether both show the same noise: one ledger entry is one draw, whatever became of the file.

    A combined release and a series show the noise of all their parts; parts of one with running totals share noise.
    """
    return first is second or bool(_draws(first) & _draws(second))


def _draws(release: Release) -> set[tuple[object, object]]:
    content = release.content
    parts = content.releases if isinstance(content, SeriesContent) else (release,)
    runs = {("run", trail.run) for part in parts if (trail := getattr(part.content, "trail", None)) is not None}
    return {one for part in parts for one in draws_of(part.receipt)} | runs


def _about_the_two(first: Release, second: Release) -> list[str]:
    """Notes on the origin of both releases, for readers of the differences."""
    if _same_draw(first, second):
        notes = ["both are the same release, with the same noise: no difference can be more than how it was packed"]
        ours, theirs = draws_of(first.receipt), draws_of(second.receipt)
        several = any(isinstance(one.content, SeriesContent) for one in (first, second))
        if several or (ours & theirs and ours != theirs):
            notes = ["the two have noise in common: a part of one is in the other too"]
        elif not ours & theirs and first is not second:
            notes = ["the two have noise in common: they are parts of one series with running totals"]
    elif first.leans_on or second.leans_on:
        notes = ["estimates of one lean on an earlier release, so that the two may have noise in common"]
    else:
        notes = ["the two carry noise drawn independently"]
        if first.receipt and second.receipt and first.receipt.get("ledger") == second.receipt.get("ledger"):
            places = (first.receipt.get("entry"), second.receipt.get("entry"))
            if first.schema.dataset == second.schema.dataset:
                notes[0] += (
                    f", as entries {places[0]} and {places[1]} of one ledger for {printable(first.schema.dataset)}"
                )
    rules = what_is_counted(first.content.table_schema), what_is_counted(second.content.table_schema)
    if set(rules[0]) != set(rules[1]):
        odd = [
            f"{which}: {rule}"
            for which, mine, other in (("first", *rules), ("second", *reversed(rules)))
            for rule in mine
            if rule not in other
        ]
        notes.append(f"the two count by different rules, which makes differences too ({'; '.join(odd[:4])})")
    if first.guarantee.unit != second.guarantee.unit:
        notes.append("the two protect different units")
    return notes


def _named(one: Release) -> str:
    return f"{one.schema.dataset}, epsilon {readable(one.guarantee.epsilon)}"


def _names(*which: str | PathLike[str] | Release) -> tuple[str, str]:
    """Column headings for both: by file, or by dataset and epsilon."""
    first, second = (Path(one).stem if isinstance(one, str | PathLike) else _named(one) for one in which)
    return (first, second) if first != second else (f"{first} (before)", f"{second} (after)")
