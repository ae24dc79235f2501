"""What intervals.py makes of its hits: coverage with standard errors by release, and what is not as promised.

Questions on one release share its noise, so a release counts once, by the share of its intervals of a kind that held.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import log

import numpy as np

from sfumato.lab.audit.calibration.calibrate import evidence_below

CONFIDENCE = 0.95
LEAST, MOST, ON_A_TABLE = 0.93, 0.97, 0.88  # what typical intervals may cover: by kind, and on any table
FALSE_ALARM = 1e-6  # over all tests of guaranteed intervals that one run makes
DOUBT = 2.0  # standard errors within which a figure may be on the other side of its bound


@dataclass(frozen=True)
class Key:
    """What was asked, by what: a kind of interval, a kind of question, a table at an epsilon, a mechanism."""

    way: str
    kind: str
    table: str
    mechanism: str


@dataclass(frozen=True, eq=False)
class Pool:
    """Shares held and mean widths, one of each for a release; a row of them for each table, and tables count alike."""

    held: tuple[np.ndarray, ...]
    widths: tuple[np.ndarray, ...]

    @property
    def coverage(self) -> float:
        return float(np.mean([each.mean() for each in self.held]))

    @property
    def error(self) -> float:
        """The standard error of the coverage; unknown where there was one release of a table."""
        if min(map(len, self.held)) < 2:
            return float("nan")
        return float(np.sqrt(sum(each.var(ddof=1) / len(each) for each in self.held)) / len(self.held))

    @property
    def width(self) -> float:
        return float(np.mean([each.mean() for each in self.widths]))

    def shown(self, *, width: bool = True) -> str:
        return f"{100 * self.coverage:7.1f} +-{100 * self.error:4.1f}" + (f"{_short(self.width):>11}" if width else "")


class Found:
    """All that was found, in the order in which it was."""

    def __init__(self) -> None:
        self._held: dict[Key, list[float]] = defaultdict(list)
        self._widths: dict[Key, list[float]] = defaultdict(list)
        self._single: dict[tuple[Key, int], list[bool]] = defaultdict(list)

    def add(self, key: Key, held: list[bool], widths: list[float]) -> None:
        """One release: every interval of a kind."""
        self._held[key].append(float(np.mean(held)))
        self._widths[key].append(float(np.mean(widths)))
        for place, one in enumerate(held):
            self._single[key, place].append(one)

    def values(self, part: str) -> list[str]:
        """The mechanisms, tables, kinds or ways there are."""
        return list(dict.fromkeys(getattr(key, part) for key in self._held))

    def pool(self, **wanted: str) -> Pool | None:
        keys = [key for key in self._held if all(getattr(key, part) == value for part, value in wanted.items())]
        if not keys:
            return None
        return Pool(
            tuple(np.array(self._held[key]) for key in keys), tuple(np.array(self._widths[key]) for key in keys)
        )

    def broken(self) -> tuple[int, list[str]]:
        """How many tests of guaranteed intervals were made, and which failed: a kind on a table, or one question."""
        sure = [key for key in self._held if key.way == "guaranteed"]
        singles = [(key, place) for key, place in self._single if key.way == "guaranteed"]
        tests = len(sure) + len(singles)
        needed, found = log(max(1, tests) / FALSE_ALARM), []
        for key in sure:
            shares = np.array(self._held[key])
            if shares.mean() < CONFIDENCE and evidence_below(shares, CONFIDENCE) >= needed:
                found.append(f"{_where(key)}: guaranteed intervals held {shares.mean():.1%}")
        for key, place in singles:
            shares = np.array(self._single[key, place], dtype=np.float64)
            if shares.mean() < CONFIDENCE and evidence_below(shares, CONFIDENCE) >= needed:
                found.append(f"{_where(key)}, number {place + 1}: guaranteed interval held {shares.mean():.1%}")
        return tests, found

    def off(self) -> Iterable[str]:
        """Where typical intervals do not hold as often as they should, or hold too often."""
        for mechanism in self.values("mechanism"):
            for kind in self.values("kind"):
                pool = self.pool(way="typical", kind=kind, mechanism=mechanism)
                if pool is not None and not LEAST <= pool.coverage <= MOST:
                    bound = LEAST if pool.coverage < LEAST else MOST
                    yield f"{mechanism}, {kind}: typical {pool.coverage:.1%}{_doubt(pool, bound)}"
            for table in self.values("table"):
                pool = self.pool(way="typical", table=table, mechanism=mechanism)
                if pool is not None and pool.coverage < ON_A_TABLE:
                    yield f"{mechanism}, {table}, all kinds: typical {pool.coverage:.1%}{_doubt(pool, ON_A_TABLE)}"


def _where(key: Key) -> str:
    return f"{key.mechanism}, {key.table}, {key.kind}"


def _doubt(pool: Pool, bound: float) -> str:
    """What is said where chance may explain it; where all releases are alike they say little of their spread."""
    least = np.sqrt(bound * (1.0 - bound) / sum(map(len, pool.held)))
    return "" if abs(pool.coverage - bound) > DOUBT * max(pool.error, least) else " (may be chance)"


def _short(number: float) -> str:
    return "unbounded" if not np.isfinite(number) else f"{number:,.3g}" if number < 10 else f"{number:,.0f}"
