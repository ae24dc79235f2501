"""Calibration: do intervals hold the truth as often as they say?

Every mechanism is run many times on tables of several shapes, smooth, sparse and adversarial, and every kind of query
is asked. An interval that rests on the noise alone must cover its confidence, no less and hardly more. One that allows
for any spread of rows inside or outside published cells may cover more, and is listed apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.kernel.aggregate import Aggregate
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.curator import Curator
from sfumato.kernel.entropy import Entropy
from sfumato.mechanisms import MECHANISMS
from sfumato.publish import describe_guarantee
from sfumato.releases.estimate import Estimate
from sfumato.releases.release import Release
from sfumato.schema import Schema

Whole = NDArray[np.int64]

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "x": {"type": "integer", "lower": 0, "upper": 49},
            "g": {"type": "category", "values": ["a", "b"]},
        },
        "measures": {"m": {"lower": 0, "upper": 100, "step": 1}},
    }
)
QUERIES = (
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM t WHERE x BETWEEN 10 AND 29",
    "SELECT COUNT(*) FROM t WHERE g = 'a' OR x > 40",
    "SELECT SUM(m) FROM t WHERE g = 'a'",
    "SELECT SUM(x) FROM t WHERE g = 'b'",
    "SELECT AVG(m) FROM t WHERE x < 25",
    "SELECT COUNT(*) FILTER (WHERE x < 20) / COUNT(*) FROM t",
)
NEARLY_EXACT = Fraction(10**5)


@dataclass(frozen=True)
class Coverage:
    """How often the intervals of one query held the truth. exact: they rest on the noise alone, in every run."""

    shape: str
    query: str
    hits: int
    runs: int
    exact: bool

    @property
    def rate(self) -> float:
        return self.hits / self.runs


def shapes() -> dict[str, tuple[Whole, Whole]]:
    """Counts, and sums of the measure around its centre, for tables of several shapes."""
    x, g = np.meshgrid(np.arange(50), np.arange(2), indexing="ij")
    found = {
        "smooth": 200 + 60 * np.sin(x / 8) + 30 * g,
        "sparse": np.where((x * 7 + g * 3) % 11 == 0, 300 + x, 0),
        "one spike": np.where((x == 12) & (g == 0), 10**6, 0),
        "alternating": np.where((x + g) % 2 == 0, 500, 0),
        "empty": 0 * x,
    }
    tables = {name: counts.astype(np.int64) for name, counts in found.items()}
    return {name: (counts, counts * (g * 20 - x % 7)) for name, counts in tables.items()}


def release_of(
    mechanism: str, table: tuple[Whole, Whole], epsilon: Fraction, entropy: Entropy, schema: Schema = SCHEMA
) -> Release:
    """A release of counts, and sums of the schema's one measure, that are given, not read.

    Everything else is the product's own line.
    """
    counts, sums = (part.reshape(-1) for part in table)
    ((name, measure),) = schema.measures.items()
    held, budget = np.flatnonzero(counts), Budget.pure(epsilon)
    aggregate = Aggregate(held, counts[held], {name: sums[held]})
    charge = Charge(budget, schema.privacy_unit.contributions, schema.domain.size)
    curator = Curator(schema.domain, aggregate, {"count": 1, name: measure.half_units}, charge, entropy)
    cube = MECHANISMS[mechanism].run(curator, schema, budget, None)
    return Release(cube, mechanism, describe_guarantee(budget, schema), entropy.private)


def calibrate(
    mechanism: str,
    runs: int,
    entropy: Entropy,
    *,
    epsilon: Fraction = Fraction(1, 2),
    progress: Callable[[int], None] = lambda done: None,
) -> list[Coverage]:
    """How often 95 % intervals hold the truth, for every shape of table and every query."""
    found = []
    for shape, table in shapes().items():
        nearly_exact = release_of("cells", table, NEARLY_EXACT, entropy)  # not every mechanism is exact without noise
        truths = [_only(nearly_exact, sql).value for sql in QUERIES]
        hits, exact = [0] * len(QUERIES), [True] * len(QUERIES)
        for run in range(runs):
            release = release_of(mechanism, table, epsilon, entropy)
            for place, sql in enumerate(QUERIES):
                answer, truth = _only(release, sql), truths[place]
                # An average or share of no rows has no truth to miss.
                hits[place] += bool(np.isnan(truth) or answer.low <= truth <= answer.high)
                exact[place] &= answer.model == 0 and not np.isnan(answer.value) and not np.isnan(truth)
            progress(run)
        found += [Coverage(shape, sql, hits[place], runs, exact[place]) for place, sql in enumerate(QUERIES)]
    return found


def _only(release: Release, sql: str) -> Estimate:
    ((answer,),) = release.query(sql).rows
    if not isinstance(answer, Estimate):
        raise TypeError("calibration asks for numbers")
    return answer
