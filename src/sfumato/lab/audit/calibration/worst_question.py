"""Search for the question whose typical intervals have the lowest coverage on one table.

Questions are drawn by kind, as columns of SELECT statements (KINDS), and DuckDB computes the truth. Ends of ranges are
mostly values of rows drawn at random, as people ask where rows are. Quantiles are values of rows (DuckDB's QUANTILE is
QUANTILE_DISC), and bins are cut at their edges, so that truth and answer have the same definition.

All are asked of a few releases. The lowest coverage there is partly bad luck (the winner's curse), so the worst are
asked again of new releases, and these alone are judged, by betting on the share of groups that held: with intervals
that keep the floor, a false alarm has a probability of 1e-6 over all questions that are confirmed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import isfinite, nan
from random import Random
from re import Match, sub
from string import Formatter
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.answers.results import Estimate
from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.lab.audit.calibration.calibrate import mean_at_least, mean_at_most
from sfumato.lab.audit.statements.expressions import literal, quoted
from sfumato.releases.release import Release
from sfumato.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

FEW, MANY = 16, 24  # values of an attribute to group by, at most; columns of one statement, at most
LEAST_CUT = 5  # values of a number that is rather cut than a category
BY_ROWS = 0.7  # of the ends of ranges are values of rows; the others are any values
TRIES = 20  # to draw a question: some are drawn twice, and some kinds a table has not
LARGEST = 5  # groups shown of a question about the largest
ROUNDED = 1e-6  # of the truth, by which rounding may put it outside

# Templates of columns by kind. Before a colon: what to group by. a, b, c: attributes to cut; g: one of few values;
# z: the one of most values; m: a measure. In brackets, of which rows. A, B, C: in a range; A0, B0, G: of one value;
# B1, B2: below and above a cut.
AT_ONCE, TOP = "all groups at once", "largest five"
OF_BINS = " of bins"  # of a number: intervals reach as far as values may lie in their bins
KINDS: dict[str, tuple[str, ...]] = {
    "total": ("COUNT(*)", "SUM({m})"),
    "one range": ("COUNT(*)[A]",),
    "two ranges": ("COUNT(*)[A B]",),
    "three ranges": ("COUNT(*)[A B C]",),
    "ranges and a value": ("COUNT(*)[A G]", "COUNT(*)[A B G]"),
    "cell of a pair": ("COUNT(*)[A0 B0]",),
    "groups in a range": ("g: COUNT(*)[A]",),
    "groups in two ranges": ("g: COUNT(*)[A B]",),
    "share": ("COUNT(*)[A B] / COUNT(*)[B]",),
    "share by group": ("g: COUNT(*)[A] / COUNT(*)", "g: COUNT(*)[A B] / COUNT(*)[B]"),
    "gap of shares": ("g: COUNT(*)[A B1] / COUNT(*)[B1] - COUNT(*)[A B2] / COUNT(*)[B2]",),
    "ratio": ("COUNT(*)[A B1] / COUNT(*)[A B2]",),
    "window": ("g: COUNT(*) / SUM(COUNT(*)) OVER ()",),
    "sum of measure": ("SUM({m})[A]", "SUM({m})[A B]"),
    "average of measure": ("AVG({m})[A B]", "g: AVG({m})[A]"),
    "sum of attribute": ("SUM({a})[B]", "SUM({a})[B C]"),
    "average of attribute": ("AVG({a})[B]", "g: AVG({a})[B]"),
    "median by group": ("g: QUANTILE({a}, 0.5)",),
    "median in a range": ("QUANTILE({a}, 0.5)[B]",),
    "0.9 quantile by group": ("g: QUANTILE({a}, 0.9)",),
    "0.9 quantile in a range": ("QUANTILE({a}, 0.9)[B]",),
    "least and greatest": ("g: MIN({a})", "g: MAX({a})", "MIN({a})[B]", "MAX({a})[B]"),
    "STDDEV": ("g: STDDEV({a})", "STDDEV({a})[B]"),
    "VAR": ("g: VAR_POP({a})", "VAR_POP({a})[B]"),
    AT_ONCE: ("g: COUNT(*)", "z: COUNT(*)", "g: COUNT(*)[A B]"),
    TOP: ("z: COUNT(*)",),
}

Truths = Mapping[tuple[Any, ...], tuple[float | None, ...]]  # of all columns, by group


@dataclass(frozen=True)
class Question:
    """Question of one number, or of one per group. by: the keys of its GROUP BY."""

    kind: str
    column: str
    attributes: tuple[str, ...]
    by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """Estimate of one group of a question, its intervals, and the truth."""

    question: Question
    group: tuple[Any, ...]
    estimate: Estimate
    truth: float

    @property
    def held(self) -> bool:
        return _holds(self.estimate.low, self.estimate.high, self.truth)

    @property
    def surely_held(self) -> bool | None:
        """Whether the guaranteed interval held; None where there is none."""
        return None if self.estimate.sure is None else _holds(*self.estimate.sure, self.truth)


@dataclass(frozen=True, eq=False)
class Ground:
    """Known table, on which questions are drawn and their truths computed."""

    schema: Schema
    rows: pa.Table

    @cached_property
    def _truths(self) -> dict[str, Truths]:
        return {}

    def truths(self, sql: str, keys: int) -> Truths:
        """DuckDB's answer to a statement whose first columns are keys."""
        if sql not in self._truths:
            import duckdb

            with duckdb.connect() as engine:
                found = engine.register(self.schema.dataset, self.rows).execute(sql).fetchall()
            self._truths[sql] = {row[:keys]: row[keys:] for row in found}
        return self._truths[sql]

    def ask(self, release: Release, questions: Sequence[Question], *, interval: str = "typical") -> list[Answer]:
        """Answers to all questions, asked in few statements; those without a truth or a known interval are left out."""
        return [answer for together in statements(questions) for answer in self._asked(release, together, interval)]

    def _asked(self, release: Release, questions: Sequence[Question], interval: str) -> Iterable[Answer]:
        by, kind, sql = questions[0].by, questions[0].kind, self.sql(questions)
        truths, none = self.truths(sql, len(by)), (None,) * len(questions)
        shown = f"{sql} ORDER BY q0 DESC LIMIT {LARGEST}" if kind == TOP else sql
        try:
            result = release.query(shown, interval=interval, simultaneous=kind == AT_ONCE)
        except QueryError:
            if interval == "typical":
                raise
            result = release.query(shown, simultaneous=kind == AT_ONCE)  # no guaranteed interval of these
        for row in result.rows:
            group = row[: len(by)]
            for question, estimate, truth in zip(questions, row[len(by) :], truths.get(group, none), strict=True):
                sums = question.column.startswith(("COUNT(", "SUM(")) and " / " not in question.column
                value = truth if truth is not None else 0.0 if sums else nan  # a sum over no rows is 0
                if isinstance(estimate, Estimate) and isfinite(estimate.value) and isfinite(value):
                    yield Answer(question, group, estimate, float(value))

    def sql(self, questions: Sequence[Question]) -> str:
        """SELECT statement for questions that share their groups."""
        by = ", ".join(map(quoted, questions[0].by))
        columns = ", ".join(f"{question.column} AS q{place}" for place, question in enumerate(questions))
        listed, group = (f"{by}, {columns}", f" GROUP BY {by}") if by else (columns, "")
        return f"SELECT {listed} FROM {quoted(self.schema.dataset)}{group}"

    def draw(self, random: Random, number: int, *, sets: int, kinds: Iterable[str] | None = None) -> list[Question]:
        """Draw `number` questions about `sets` sets of attributes, kinds in turn, as far as the table allows them."""
        chosen, wanted = [_Drawing(self, random) for _ in range(sets)], list(KINDS if kinds is None else kinds)
        drawn: dict[Question, None] = {}
        for place in range(TRIES * number):
            if len(drawn) == number:
                break
            question = chosen[place // len(wanted) % sets].question(wanted[place % len(wanted)])
            drawn |= {} if question is None else {question: None}
        return list(drawn)


def statements(questions: Iterable[Question]) -> list[list[Question]]:
    """Group questions that one statement can ask: same groups, same attributes, same kind of interval."""
    found: dict[Any, list[Question]] = defaultdict(list)
    for question in questions:
        alone = question if question.kind in (AT_ONCE, TOP) else question.kind.startswith(("STDDEV", "VAR"))  # not sure
        found[question.by, frozenset(question.attributes), alone].append(question)
    return [each[start : start + MANY] for each in found.values() for start in range(0, len(each), MANY)]


def _rows(brackets: Match[str]) -> str:
    """FILTER clause for the condition names in a template's brackets."""
    return " FILTER (WHERE " + " AND ".join(f"{{{name}}}" for name in brackets[1].split()) + ")"


def _holds(low: float, high: float, truth: float) -> bool:
    slack = ROUNDED * (1.0 + abs(truth))
    return low - slack <= truth <= high + slack


@dataclass(frozen=True, eq=False)
class _Drawing:
    """Generator of questions about one set of attributes: up to three to cut, and one to group by."""

    ground: Ground
    random: Random

    @cached_property
    def roles(self) -> dict[str, str]:
        """Attribute or measure that each letter of the templates stands for; letters without one are left out."""
        axes, chance = [axis for axis in self.ground.schema.domain if axis.kind != "date"], self.random
        few = [axis for axis in axes if axis.size <= FEW and axis.kind != "number"]
        words = [axis.name for axis in few if axis.values] or [axis.name for axis in few]
        by = chance.choice(words) if words and len(axes) > 1 else None
        order = {axis.name: (bool(axis.values) or axis.size < LEAST_CUT, chance.random()) for axis in axes}
        cut = sorted((name for name in order if name != by), key=order.__getitem__)
        found = dict(zip("abc", cut, strict=False)) | ({} if by is None else {"g": by})
        keys = [axis for axis in axes if axis.kind != "number" and axis.name != by]
        found |= {"z": max(keys, key=lambda axis: axis.size).name} if keys else {}
        return found | dict(zip("m", self.ground.schema.measures, strict=False))

    def question(self, kind: str) -> Question | None:
        """Draw a question of a kind; None where the table has none."""
        template = self.random.choice(KINDS[kind])
        keys, _, column = template.rpartition(": ")
        column = sub(r"\[(.*?)\]", _rows, column)
        parts = sorted({name for _, name, _, _ in Formatter().parse(column) if name})
        letters = {part[0].lower() for part in parts} | set(keys)
        if not letters <= self.roles.keys():
            return None
        averaged = self.ground.schema.domain[self.roles["a"]].kind if "a" in parts else "integer"
        if averaged not in ("integer", "number"):
            return None
        drawn: dict[str, str] = {}
        for part in parts:
            drawn |= self._drawn(part)
        by = tuple(self.roles[letter] for letter in keys)
        kind += OF_BINS if averaged == "number" else ""
        return Question(kind, column.format(**drawn), tuple(self.roles[one] for one in sorted(letters - {"m"})), by)

    def _drawn(self, part: str) -> dict[str, str]:
        """SQL text for a placeholder of a template, and for placeholders that are drawn together with it."""
        name = self.roles[part[0].lower()]
        if part.islower():
            return {part: quoted(name)}
        first, second, last = self._cell(name), self._cell(name), self.ground.schema.domain[name].size - 1
        if part in ("G", "A0", "B0"):
            return {part: self._between(name, first, first)}
        if len(part) > 1:
            cut = min(first, last - 1)
            return {f"{part[0]}1": self._between(name, 0, cut), f"{part[0]}2": self._between(name, cut + 1, last)}
        return {part: self._between(name, *sorted((first, second)))}

    def _cell(self, name: str) -> int:
        """Random cell of an attribute: mostly that of a random row, otherwise uniform."""
        axis, rows = self.ground.schema.domain[name], self.ground.rows
        if rows.num_rows and self.random.random() < BY_ROWS:
            value = rows[name][self.random.randrange(rows.num_rows)].as_py()
            if axis.values and value in axis.values:
                return axis.values.index(value)
            if not axis.values and value is not None:
                return min(max(bisect_right(axis.edges.tolist(), value) - 1, 0), axis.size - 1)
        return self.random.randrange(axis.size)

    def _between(self, name: str, low: int, high: int) -> str:
        """SQL condition that a value lies in the cells `low` to `high`."""
        axis, column = self.ground.schema.domain[name], quoted(name)
        if axis.values:
            return f"{column} IN ({', '.join(literal(value) for value in axis.values[low : high + 1])})"
        start, end = axis.edges[low], axis.edges[high + 1]
        if axis.kind == "integer":
            return f"{column} BETWEEN {start:.0f} AND {end - 1:.0f}"
        return f"{column} >= {start:g}" + ("" if high == axis.size - 1 else f" AND {column} < {end:g}")


FLOOR = 0.85  # of single questions; 95 % is promised on average over questions of a kind
FALSE_ALARM = 1e-6  # over all questions that one search confirms
DOUBT = 0.025  # that one of the two bounds which are shown is wrong


@dataclass(frozen=True)
class Search:
    """Effort of a search: questions drawn, sets of attributes they are about, releases, and questions confirmed."""

    questions: int = 200
    sets: int = 8
    pilot: int = 10
    worst: int = 5
    confirmations: int = 20


@dataclass(frozen=True, eq=False)
class WorstQuestion:
    """Coverage of one of the worst pilot questions on new releases. shares: of groups that held, (releases,)."""

    kind: str
    sql: str
    pilot: float
    shares: Floats  # (releases,)
    alpha: float

    @property
    def held(self) -> float:
        return float(self.shares.mean())

    @property
    def between(self) -> tuple[float, float]:
        """Confidence bounds on the coverage, each wrong with probability 2.5 %."""
        return mean_at_least(self.shares, DOUBT), mean_at_most(self.shares, DOUBT)

    @property
    def broken(self) -> bool:
        """Whether the coverage is significantly below the floor."""
        return mean_at_most(self.shares, self.alpha) < FLOOR

    def __str__(self) -> str:
        low, high = self.between
        told = f"held {self.held:.1%} of {len(self.shares)} new releases ({low:.0%} to {high:.0%})"
        return f"{'BROKEN: ' if self.broken else ''}{told}, {self.pilot:.1%} of the pilot: {self.kind}: {self.sql}"


def worst_questions(
    ground: Ground,
    release: Callable[[], Release],
    search: Search | None = None,
    *,
    seed: int = 1,
    kinds: Iterable[str] | None = None,
) -> list[WorstQuestion]:
    """Search one table for the questions of lowest coverage. release: makes a fresh release on each call."""
    search = search or Search()
    questions = ground.draw(Random(f"worst {seed}"), search.questions, sets=search.sets, kinds=kinds)  # noqa: S311
    pilot = _shares(ground, release, questions, search.pilot)
    worst = sorted(pilot, key=lambda one: float(pilot[one].mean()))[: search.worst]
    again, alpha = _shares(ground, release, worst, search.confirmations), FALSE_ALARM / max(1, len(worst))
    found = (WorstQuestion(one.kind, ground.sql([one]), float(pilot[one].mean()), again[one], alpha) for one in again)
    return sorted(found, key=lambda one: one.held)


def share_held(answers: Sequence[Answer]) -> float:
    """Share of a question's groups that held in one release; 0 or 1 for simultaneous intervals."""
    held = [answer.held for answer in answers]
    return float(all(held)) if answers[0].question.kind == AT_ONCE else sum(held) / len(held)


def _shares(
    ground: Ground, release: Callable[[], Release], questions: list[Question], releases: int
) -> dict[Question, Floats]:
    """Share of intervals that hold the truth, for each question in each release: (releases,) by question."""
    found: dict[Question, list[float]] = defaultdict(list)
    for _ in range(releases):
        by_question: dict[Question, list[Answer]] = defaultdict(list)
        for answer in ground.ask(release(), questions):
            by_question[answer.question].append(answer)
        for question, answers in by_question.items():
            found[question].append(share_held(answers))
    return {question: np.array(each) for question, each in found.items()}
