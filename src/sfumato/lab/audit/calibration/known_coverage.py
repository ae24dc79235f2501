"""Where intervals are known to hold too seldom, and what is said of a mechanism's intervals in the light of that.

Every mechanism has its list, and together they are the table of docs/known-limits.md. What is listed does not count
against a mechanism, but it has to be true: a figure that is no longer what is measured is a complaint too, so the list
cannot rot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sfumato.lab.audit.calibration.calibrate import Answered, pooled
from sfumato.lab.audit.calibration.tables import wide_cases
from sfumato.models import MECHANISMS
from sfumato.models.base.mechanism import Limit

FALSE_ALARM = 1e-6  # for all mechanisms together, whose intervals hold 95 % everywhere
POOLS = 3  # all tables, those of few attributes, those of many
PARTS = 100  # looked at by themselves, at most: tables, kinds of question on each, listed figures
ROUNDED = 0.005  # figures are whole per cent


def unlisted(answers: Iterable[Answered], limits: Sequence[Limit]) -> list[Answered]:
    """The answers that nothing bad is known of."""
    known = {(limit.table, limit.kind) for limit in limits}
    return [one for one in answers if (one.case, one.kind) not in known]


def pool_alpha() -> float:
    """The chance of a false alarm about one of the pools of one mechanism: together half of what is allowed."""
    return FALSE_ALARM / 2 / len(MECHANISMS) / POOLS


def part_alpha() -> float:
    """The same about one of its parts: together the other half."""
    return FALSE_ALARM / 2 / len(MECHANISMS) / PARTS


def complaints(mechanism: str, answers: Sequence[Answered], limits: Sequence[Limit]) -> list[str]:
    """What is wrong with a mechanism's intervals: in a pool, on one table, for one kind of question on one table."""
    clean, alpha = unlisted(answers, limits), part_alpha()
    many = {case.name for case in wide_cases()}
    pools = {
        "all tables": pooled(clean),
        "tables of few attributes": pooled(one for one in clean if one.case not in many),
        "tables of many attributes": pooled(one for one in clean if one.case in many),
    }
    found = [
        f"{mechanism}, {name}: 95 % intervals hold {pool.covered:.1%}"
        for name, pool in pools.items()
        if pool.too_few(pool_alpha())
    ]
    for part in sorted({(one.case, kind) for one in clean for kind in ("all", one.kind)}):
        case, kind = part
        pool = pooled(one for one in clean if one.case == case and kind in ("all", one.kind))
        if pool.too_few(alpha):
            found.append(f"{mechanism}, {case}, {kind}: 95 % intervals hold {pool.covered:.1%}")
    return found + _stale(mechanism, answers, limits)


def _stale(mechanism: str, answers: Sequence[Answered], limits: Sequence[Limit]) -> list[str]:
    found = []
    for limit in limits:
        pool = pooled(one for one in answers if (one.case, one.kind) == (limit.table, limit.kind))
        low, high = pool.within(part_alpha())
        if not low - ROUNDED <= limit.covered <= high + ROUNDED:
            said = f"{limit.covered:.0%} is listed and {pool.covered:.1%} measured"
            found.append(f"{mechanism}, {limit.table}, {limit.kind}: {said}")
    return found
