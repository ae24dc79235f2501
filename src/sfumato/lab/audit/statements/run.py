"""The fuzzer: statements drawn, asked and judged; what is wrong is made small, and told so that it can be repeated."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from random import Random
from typing import Any

from sfumato.frozen import dataclass
from sfumato.lab.audit.statements.grammar import Statement, draw
from sfumato.lab.audit.statements.verdicts import Asked, judge
from sfumato.lab.audit.statements.worlds import World, makers

PER_ROUND = 100  # statements drawn from one seed
SHARED = 20  # rounds, one seed after the other, that ask the same releases
EXACT, CAREFUL = 0.4, 0.8  # how many statements go to an exact release, and how many of those can be compared
PLAINLY = 0.7  # how many are asked without options
MOST_TRIALS = 200  # statements that are tried to make one small

Change = Callable[[World], World]


@dataclass(frozen=True)
class Found:
    """Something wrong: with which release, in which statement, and the smallest that shows it. seed: of its round."""

    seed: int
    world: str
    text: str
    small: str
    complaint: str

    @property
    def again(self) -> str:
        """The command that finds it again."""
        return f"sfumato audit --sql {PER_ROUND} --seed {self.seed}"


@dataclass(frozen=True)
class Round:
    """What some statements came to: how many were asked, answered, and compared with a plain engine."""

    asked: int = 0
    answered: int = 0
    compared: int = 0
    found: tuple[Found, ...] = ()

    def __add__(self, other: Round) -> Round:
        """Both together, with one example of each thing that is wrong."""
        known = {kind_of(one.complaint) for one in self.found}
        new = tuple(one for one in other.found if kind_of(one.complaint) not in known)
        numbers = (self.asked + other.asked, self.answered + other.answered, self.compared + other.compared)
        return Round(*numbers, self.found + new)


def fuzz(seed: int, statements: int = PER_ROUND, change: Change | None = None) -> Round:
    """One round: statements drawn from a seed, and judged. change: what a mutant does to a release."""
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
    """Every release that statements are asked of, and what is wrong with those that cannot be made."""
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
    """Options of a question."""
    if random.random() < PLAINLY:
        return Asked()
    return Asked(
        random.choice(["typical", "guaranteed", "both"]),
        random.choice([0.95, 0.5, 0.999999, 1e-9]),
        random.random() < 0.2,
        random.random() < 0.2,
    )


def kind_of(complaint: str) -> str:
    """What is wrong, without the numbers and names in it: two of a kind are told once."""
    return "".join(" " if character.isdigit() else character for character in complaint)[:60]


def shrunk(world: World, statement: Statement, asked: Asked, kind: str) -> str:
    """The smallest statement met, part by part left out, that is wrong in the same way."""
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
            return best
    return best


def _smaller(text: str) -> Iterator[str]:
    """The same statement with one part left out, or put in the place of what it is part of."""
    import sqlglot

    try:
        tree: Any = sqlglot.parse_one(text, dialect="duckdb")
    except sqlglot.errors.SqlglotError:
        return
    for place in range(1, len(list(tree.walk()))):
        for change in (_dropped, _lifted):
            copy, smaller = tree.copy(), text
            with suppress(Exception):  # not every part can be left out of what it is part of
                change(list(copy.walk())[place])
                smaller = copy.sql(dialect="duckdb")
            if len(smaller) < len(text):
                yield smaller


def _dropped(node: Any) -> None:
    """Leave a clause or an item of a list out."""
    node.pop()


def _lifted(node: Any) -> None:
    """Put a part in the place of the whole."""
    node.replace(node.this.copy())
