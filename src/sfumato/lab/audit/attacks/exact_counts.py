"""Exact audit of releases with exact counts: the loss among tables that agree on what the ledger's entry names.

Every small table on two attributes is released: its curator is made as `opening.py` makes it, hands out exactly what it
does not refuse, and adds noise to every cell. A release is then a tuple of exact numbers and of independent discrete
Laplace noise whose scale is that of the curator at work, so that its law is known to 60 digits. Of tables that agree on
the declared counts, those at d rows from each other may differ by d epsilon (docs/privacy.md, theorem 17), and
everything that was handed out exactly must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from math import inf

import numpy as np

from sfumato.errors import PrivacyError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.curator import Curator
from sfumato.kernel.opening import curator_of
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.attacks.exact import TOLERANCE, Counts, Distribution, ExactFinding, discrete_laplace, exact_loss
from sfumato.lab.audit.subjects.subject import square_schema
from sfumato.measurement import Laplace
from sfumato.queries import Identity
from sfumato.schema.invariants import ExactSets

MOST_ROWS = 4
EPSILON = Fraction(1, 2)
DECLARED: tuple[ExactSets, ...] = (((),), (("a",),), ((), ("b",)), (("a",), ("b",)))


@dataclass(frozen=True, eq=False)
class Released:
    """What a table's release shows: exact counts by attributes, and the law of each noisy one."""

    exact: dict[tuple[str, ...], Counts]
    noisy: tuple[Distribution, ...]


def released(counts: Counts, declared: ExactSets, kind: type[Curator] = Curator) -> Released:
    """Release a table, asking for every exact count that there is."""
    schema, held = square_schema(1), np.array(counts, dtype=np.int64)
    cells = np.flatnonzero(held)
    budget, entropy = Budget.pure(EPSILON), TestingEntropy(1)
    curator = curator_of(schema, Aggregate(cells, held[cells]), budget, entropy, kind, exact=declared)
    shown, names = {}, schema.domain.names
    for asked in (each for size in range(len(names) + 1) for each in combinations(names, size)):
        try:
            shown[asked] = tuple(curator.disclose(asked).tolist())
        except PrivacyError:
            continue
    noise = curator.measure(Identity(len(counts)), budget).noise
    assert isinstance(noise, Laplace)  # noqa: S101 (the budget is pure)
    return Released(shown, tuple(discrete_laplace(count, noise.scale, MOST_ROWS) for count in counts))


def agreeing_pairs(declared: ExactSets) -> Iterator[tuple[Counts, Counts]]:
    """Pairs of different tables of up to MOST_ROWS rows that agree on the declared counts."""
    domain = square_schema(1).domain
    groups: dict[tuple[Counts, ...], list[Counts]] = {}
    for rows in range(MOST_ROWS + 1):
        for cells in combinations_with_replacement(range(domain.size), rows):
            counts = tuple(cells.count(cell) for cell in range(domain.size))
            table, places = np.reshape(counts, domain.shape), range(len(domain.shape))
            along = ([domain.place(name) for name in names] for names in declared)
            sums = (table.sum(axis=tuple(place for place in places if place not in kept)) for kept in along)
            groups.setdefault(tuple(tuple(np.ravel(each).tolist()) for each in sums), []).append(counts)
    for alike in groups.values():
        yield from combinations(alike, 2)


def loss_per_row(declared: ExactSets, kind: type[Curator] = Curator) -> tuple[float, int]:
    """Largest loss between tables that agree, divided by the rows in which they differ, and the number of pairs."""
    worst, pairs, made = 0.0, 0, dict[Counts, Released]()
    for one, other in agreeing_pairs(declared):
        for counts in (one, other):
            made[counts] = made.get(counts) or released(counts, declared, kind)
        mine, its = made[one], made[other]
        apart = sum(abs(a - b) for a, b in zip(one, other, strict=True))
        lost = exact_loss(mine.noisy, its.noisy) if mine.exact == its.exact else inf
        worst, pairs = max(worst, lost / apart), pairs + 1
    return worst, pairs


def tells_more(kind: type[Curator]) -> str | None:
    """Complaint if tables that agree on what the ledger names lose more a row than is charged for; else None."""
    for declared in DECLARED:
        worst, _ = loss_per_row(declared, kind)
        if worst > float(EPSILON) + TOLERANCE:
            return f"exact counts of {declared} were named, and tables that agree on them lose {worst:.3g} a row"
    return None


def exact_count_findings() -> list[ExactFinding]:
    """Exact audit of the kernel's own curator, for every declaration, in epsilon a row."""
    return [ExactFinding(f"exact counts of {each}, a row", EPSILON, *loss_per_row(each)) for each in DECLARED]
