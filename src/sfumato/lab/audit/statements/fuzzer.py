"""SQL fuzzer: draw statements, ask releases, judge the answers, and shrink a failing statement.

Every answer must keep these rules, whichever mechanism made the release. A refusal is one typed line. A number lies
within its interval, which has two ends in order. Every format shows every answer. Where a release is exact, a plain
engine gives the same names, the same rows and the same numbers. A failure is reported so that it can be repeated.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from random import Random
from typing import Any

from sfumato.answers.results import Estimate, Result, as_json, when
from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.lab.audit.statements.grammar import Statement, draw
from sfumato.lab.audit.statements.worlds import World, makers
from sfumato.models import find_mechanism

LONGEST = 1_000  # characters of a refusal
CLOSE = 1e-6  # of two numbers that are worked out in another order, relative to the larger


@dataclass(frozen=True)
class Asked:
    """Options of `Release.query` with which a statement is asked."""

    interval: str = "typical"
    confidence: float = 0.95
    possible: bool = False
    simultaneous: bool = False


@dataclass(frozen=True)
class Judged:
    """Verdict on one statement. complaint: the fault, in a line; compared: whether with a plain engine."""

    answered: bool
    complaint: str | None = None
    compared: bool = False


def judge(world: World, statement: Statement, asked: Asked) -> Judged:
    """Ask a release a statement, and judge the answer or refusal."""
    # Guaranteed ends and those of whole rows stop at what is possible (docs/intervals.md); noisy values do not.
    clipped = asked.possible or asked.interval != "typical" or find_mechanism(world.release.mechanism).holds.by_margins
    clipped = clipped and not world.exact  # whose values are the truth
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            answer = world.release.query(statement.text, **vars(asked))
            complaint = _shown(answer) or next(_numbers(answer, clipped), None)
    except SfumatoError as refusal:
        return Judged(False, _refused(str(refusal)))
    except Exception as error:
        return Judged(False, f"untyped: {type(error).__name__}: {error}"[:200])
    if complaint is None and world.exact and statement.careful:
        return Judged(True, *_against_engine(world, statement, answer))
    return Judged(True, complaint)


def _refused(message: str) -> str | None:
    """Complaint about the form of a refusal: empty, several lines, or too long; None if it is fine."""
    if not message.strip():
        return "a refusal without a word"
    if "\n" in message or "Traceback" in message or "internal" in message.lower():
        return f"a refusal that is no plain line: {message[:100]!r}"
    return f"a refusal of {len(message):,} characters" if len(message) > LONGEST else None


def _shown(answer: Result) -> str | None:
    """Complaint about an output format (JSON, CSV, Arrow, HTML, text) that misrepresents the answer; None if none."""
    records = answer.records()
    if json.loads(as_json(records)) != json.loads(json.dumps(records)):
        return "JSON that reads back as something else"
    repr(answer)
    answer._repr_html_()
    lines = answer.to_csv(notes=True).splitlines()
    headers, rows = answer.texts()
    if any(len(row) != len(headers) for row in rows):
        return "a table whose rows are of other lengths than its head"
    if not lines or len(answer.to_arrow()) != len(answer.rows):
        return "a table of another length in Arrow"
    if any(not set(record) <= set(answer.headers) for record in records):
        return "a column that the heading does not have"
    return None


def _numbers(answer: Result, clipped: bool) -> Iterator[str]:
    """Complaints about numbers and intervals. clipped: ends stop at what is possible; a value may lie beyond."""
    for row in answer.rows:
        for name, cell in zip(answer.columns, row, strict=True):
            if not isinstance(cell, Estimate):
                if isinstance(cell, float) and not math.isfinite(cell):
                    yield f"{name} is {cell}"
                continue
            value, low, high = cell.value, cell.low, cell.high
            if math.isnan(low) or math.isnan(high) or low > high:
                yield f"the interval of {name} is {low} to {high}"
            if math.isinf(value):
                yield f"{name} is {value}"
            if math.isnan(value):
                continue
            if not (clipped or low <= value <= high):
                yield f"{name} is {value} and its interval {low} to {high}"
            nothing_known = math.isnan(cell.stderr) and math.isinf(high - low)
            if math.isinf(cell.stderr) or not (cell.stderr >= 0.0 or nothing_known):
                yield f"the error of {name} is {cell.stderr}"
            if cell.sure is not None and not cell.sure[0] <= cell.sure[1]:
                yield f"the guaranteed interval of {name} is {cell.sure[0]} to {cell.sure[1]}"


def _against_engine(world: World, statement: Statement, answer: Result) -> tuple[str | None, bool]:
    """Difference from a plain engine's answer, and whether that engine answers at all."""
    import duckdb

    try:
        cursor = world.engine.execute(statement.text)
        names, rows = [str(one[0]) for one in cursor.description or []], cursor.fetchall()
    except duckdb.Error:
        return None, False
    if list(answer.columns) != names:
        return f"columns are {', '.join(answer.columns)} and not {', '.join(names)}", True
    ours, theirs = ([tuple(map(_plain, row)) for row in table] for table in (answer.rows, rows))
    if not statement.ordered:
        ours, theirs = sorted(ours, key=_order), sorted(theirs, key=_order)
    if len(ours) != len(theirs):
        if any(word in statement.text for word in ("VAR", "STDDEV")):
            return None, False  # a variance that is a whole number comes out a little less or more, and is compared
        return f"{len(ours)} rows and not {len(theirs)}", True
    for mine, other in zip(ours, theirs, strict=True):
        if not all(_same(a, b) for a, b in zip(mine, other, strict=True)):
            return f"a row is {mine} and not {other}", True
    return None, True


def _plain(cell: Any) -> Any:
    """Cell of either answer as a comparable value; infinite and unknown numbers both become None."""
    if isinstance(cell, Estimate):
        if cell.dates:
            return when(cell.value, timed=cell.timed)
        return None if math.isnan(cell.value) else _rounded(cell.value)
    if isinstance(cell, datetime):
        cell = cell.date()
    if isinstance(cell, date):
        return cell.isoformat()
    if isinstance(cell, bool) or cell is None or isinstance(cell, str):
        return cell
    number = float(cell) if isinstance(cell, Decimal) else cell
    return _rounded(number) if math.isfinite(number) else None


def _rounded(number: float) -> float:
    """Round to nine significant digits, so that the order of summation does not show."""
    return float(f"{number:.9g}") + 0.0


def _order(row: tuple[Any, ...]) -> list[str]:
    # A sum of no rows, NULL there and 0 here, stands in the same place, unless nothing else tells rows apart.
    texts = [f"{cell or 0.0:030.6f}" if cell is None or isinstance(cell, float) else str(cell) for cell in row]
    return texts + [str(cell is None) for cell in row]


def _same(ours: Any, theirs: Any) -> bool:
    """Whether two cells are equal; a sum of no rows is 0 here and NULL in a plain engine."""
    if theirs is None and ours == 0.0:
        return True
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=CLOSE, abs_tol=CLOSE)
    return bool(ours == theirs)


PER_ROUND = 100  # statements drawn from one seed
SHARED = 20  # rounds, one seed after the other, that ask the same releases
EXACT, CAREFUL = 0.4, 0.8  # how many statements go to an exact release, and how many of those can be compared
PLAINLY = 0.7  # how many are asked without options
MOST_TRIALS = 200  # statements that are tried to make one small

Change = Callable[[World], World]


@dataclass(frozen=True)
class Found:
    """Fault: its release, its statement, and the smallest statement that shows it. seed: of its round."""

    seed: int
    world: str
    text: str
    small: str
    complaint: str

    @property
    def again(self) -> str:
        """Command that reproduces the fault."""
        return f"sfumato audit --sql {PER_ROUND} --seed {self.seed}"


@dataclass(frozen=True)
class Round:
    """Result of a round of fuzzing: statements asked, answered, and compared with a plain engine; faults."""

    asked: int = 0
    answered: int = 0
    compared: int = 0
    found: tuple[Found, ...] = ()

    def __add__(self, other: Round) -> Round:
        """Sum of two rounds, keeping one example of each kind of fault."""
        known = {kind_of(one.complaint) for one in self.found}
        new = tuple(one for one in other.found if kind_of(one.complaint) not in known)
        numbers = (self.asked + other.asked, self.answered + other.answered, self.compared + other.compared)
        return Round(*numbers, self.found + new)


def fuzz(seed: int, statements: int = PER_ROUND, change: Change | None = None) -> Round:
    """Draw statements from a seed, ask and judge them. change: what a mutant does to a release."""
    random = Random(f"statements {seed}")  # noqa: S311 (statements, not noise)
    worlds, broken = worlds_of(seed // SHARED)
    found = {kind_of(complaint): Found(seed, name, "", "", complaint) for name, complaint in broken}
    answered = compared = 0
    exact = [world for world in worlds if world.exact]
    for _ in range(statements):
        world = random.choice(exact if exact and random.random() < EXACT else worlds)
        statement = draw(world.schema, random, careful=world.exact and random.random() < CAREFUL)
        asked = _asked(random)
        released = world if change is None else change(world)
        judged = judge(released, statement, asked)
        answered, compared = answered + judged.answered, compared + judged.compared
        if judged.complaint is None:
            continue
        kind = kind_of(judged.complaint)
        if kind not in found:  # one of each kind is made small, which takes time
            small = shrunk(released, statement, asked, kind)
            found[kind] = Found(seed, f"{world.name}; {asked}", statement.text, small, judged.complaint)
    return Round(statements, answered, compared, tuple(found.values()))


@lru_cache(maxsize=1)
def worlds_of(seed: int) -> tuple[list[World], list[tuple[str, str]]]:
    """All releases to ask, and (name, complaint) of those that could not be made."""
    worlds: list[World] = []
    broken: list[tuple[str, str]] = []
    for name, make in makers(seed):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                worlds.append(make())
        except Exception as error:  # that there is none is what is judged
            broken.append((name, f"it cannot be released: {error!r}"[:200]))
    return worlds, broken


def _asked(random: Random) -> Asked:
    """Random options of a query."""
    if random.random() < PLAINLY:
        return Asked()
    return Asked(
        random.choice(["typical", "guaranteed", "both"]),
        random.choice([0.95, 0.5, 0.999999, 1e-9]),
        random.random() < 0.2,
        random.random() < 0.2,
    )


def kind_of(complaint: str) -> str:
    """Complaint without its numbers and names: two of a kind are reported once."""
    return "".join(" " if character.isdigit() else character for character in complaint)[:60]


def shrunk(world: World, statement: Statement, asked: Asked, kind: str) -> str:
    """Shrink a failing statement part by part while it fails in the same way (delta debugging)."""
    best, trials = statement.text, MOST_TRIALS
    while trials > 0:
        for text in _smaller(best):
            trials -= 1
            complaint = judge(world, Statement(text, statement.careful, statement.ordered), asked).complaint
            if complaint is not None and kind_of(complaint) == kind:
                best = text
                break
            if trials <= 0:
                break
        else:
            break
    return best


def _smaller(text: str) -> Iterator[str]:
    """Variants of a statement with one syntax node removed, or replaced by its child."""
    import sqlglot

    try:
        tree: Any = sqlglot.parse_one(text, dialect="duckdb")
    except sqlglot.errors.SqlglotError:
        return
    for place in range(1, len(list(tree.walk()))):
        for lifted in (False, True):
            copy, smaller = tree.copy(), text
            with suppress(Exception):  # not every part can be left out of what it is part of
                node = list(copy.walk())[place]
                node.replace(node.this.copy()) if lifted else node.pop()
                smaller = copy.sql(dialect="duckdb")
            if len(smaller) < len(text):
                yield smaller
