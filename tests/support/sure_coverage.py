"""How often guaranteed intervals miss, on tables made so that a model of them is wrong."""

from __future__ import annotations

from math import exp, lgamma, log, log1p

import numpy as np
from curators import curator_of

from sfumato.answers.question import Manner
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy, TestingEntropy
from sfumato.models import find_mechanism
from sfumato.releases.contents.content import Content
from sfumato.schema import Schema
from sfumato.sql import compile_statement

SIDE = 12
GRID = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {name: {"type": "integer", "lower": 0, "upper": SIDE - 1} for name in ("x", "y")},
    }
)
SURVEY = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {name: {"type": "category", "values": ["0", "1"]} for name in "abcdefg"},
    }
)


def checkerboard() -> np.ndarray:
    """Neighbours are never alike, so every region that was taken as even is not."""
    return np.indices((SIDE, SIDE)).sum(axis=0) % 2 * 12


def spike() -> np.ndarray:
    """All rows in one cell, which no cut comes near at first."""
    counts = np.zeros((SIDE, SIDE), dtype=np.int64)
    counts[7, 4] = 500
    return counts


def small_spikes() -> np.ndarray:
    """Cells about as large as the noise: each is evened out, and all of them together are many rows."""
    return np.where(np.arange(SIDE**2).reshape(SIDE, SIDE) * 7 % 11 == 0, 5, 0)


def dependent() -> np.ndarray:
    """Seven answers, of which any six look independent and the seventh follows from them."""
    return np.where(np.indices((2,) * 7).sum(axis=0) % 2 == 0, 9, 0)


def mean_of(counts: np.ndarray, axis: int) -> float:
    along = counts.sum(axis=tuple(one for one in range(counts.ndim) if one != axis))
    return float(along @ np.arange(len(along)) / counts.sum())


GRID_QUESTIONS = {
    "SELECT COUNT(*) FROM t": lambda c: c.sum(),
    "SELECT COUNT(*) FROM t WHERE x = 7 AND y = 4": lambda c: c[7, 4],
    "SELECT COUNT(*) FROM t WHERE x = 7 AND y = 5": lambda c: c[7, 5],
    "SELECT COUNT(*) FROM t WHERE x < 7 AND y >= 5": lambda c: c[:7, 5:].sum(),
    "SELECT COUNT(*) FROM t WHERE x = 3 OR y = 4": lambda c: c[3].sum() + c[:, 4].sum() - c[3, 4],
    "SELECT COUNT(*) FILTER (WHERE x = 7) / COUNT(*) FROM t": lambda c: c[7].sum() / c.sum(),
    "SELECT AVG(y) FROM t": lambda c: mean_of(c, 1),
}
SURVEY_QUESTIONS = {
    "SELECT COUNT(*) FROM t": lambda c: c.sum(),
    "SELECT COUNT(*) FROM t WHERE d = '1'": lambda c: c[:, :, :, 1].sum(),
    "SELECT COUNT(*) FROM t WHERE a = '1' AND g = '0'": lambda c: c[1, ..., 0].sum(),
    "SELECT COUNT(*) FROM t WHERE a='0' AND b='1' AND c='0' AND d='1' AND e='0' AND f='0' AND g='0'": lambda c: c[
        0, 1, 0, 1, 0, 0, 0
    ],
}
TABLES = {
    "checkerboard": (GRID, checkerboard, GRID_QUESTIONS),
    "spike": (GRID, spike, GRID_QUESTIONS),
    "small spikes": (GRID, small_spikes, GRID_QUESTIONS),
    "dependent": (SURVEY, dependent, SURVEY_QUESTIONS),
}


def content_of(mechanism: str, table: str, epsilon: int = 1, seed: int | None = None) -> Content:
    """A release of one of the tables, with noise nobody can foretell unless a seed is given."""
    schema, counts, _ = TABLES[table]
    entropy = SystemEntropy() if seed is None else TestingEntropy(seed)
    curator = curator_of(schema, counts(), epsilon=epsilon, entropy=entropy)
    return find_mechanism(mechanism).run(curator, schema, Budget.pure(epsilon))


def misses(mechanism: str, table: str, releases: int, kind: str = "guaranteed") -> dict[str, int]:
    """For each question, how many of so many releases have an interval of 95 % without the truth."""
    schema, counts, questions = TABLES[table]
    found = dict.fromkeys(questions, 0)
    plans = {sql: compile_statement(sql, schema) for sql in questions}
    for _ in range(releases):
        content = content_of(mechanism, table)
        for sql, truth in questions.items():
            ((estimate,),) = content.select_as(plans[sql], 0.95, Manner(kind)).rows
            found[sql] += not estimate.low - 1e-9 <= truth(counts()) <= estimate.high + 1e-9
    return found


def most_misses(releases: int, false_alarm: float, chance: float = 0.05) -> int:
    """The most misses of intervals that miss with some chance; more come up less often than `false_alarm`."""

    def mass(k: int) -> float:
        ways = lgamma(releases + 1) - lgamma(k + 1) - lgamma(releases - k + 1)
        return exp(ways + k * log(chance) + (releases - k) * log1p(-chance))

    beyond, most = 0.0, releases
    while beyond + mass(most) < false_alarm:
        beyond, most = beyond + mass(most), most - 1
    return most
