"""The replay audit where a descent has something to decide.

On the few cells of the other audits a tree is looked at once and there is nothing to adapt to. Here are 128 cells with
enough rows that what the first looks say changes how the next are asked and paid for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import cast

from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.lab.audit.attacks.replay import Complaint, ReplayFinding, Run, replay
from sfumato.lab.audit.subjects.small_tables import Row, Table, small_schema
from sfumato.models import find_mechanism

CELLS = 128
CROWDS = (
    (),
    ((1, 60), (64, 9)),
    tuple((cell, 3) for cell in range(0, CELLS, 2)),
)  # nobody, two crowds, people all over
OWN = (0, 1, 64, CELLS - 1)  # the cell of the person who comes and goes
SEEDS = 4


def crowded_tables() -> Iterator[tuple[Table, Table]]:
    """Tables with and without a person."""
    for crowd, cell in product(CROWDS, OWN):
        cells = [place for place, rows in crowd for _ in range(rows)]
        others = [Row(person, place) for person, place in enumerate(cells, 1)]
        yield [*others, Row(0, cell)], others


def descent_finding(
    name: str, budget: Budget, run: Run | None = None, *, curator: type[Curator] = Curator
) -> ReplayFinding:
    """A mechanism on all of these tables, each with several seeds; the mechanism of that name if no other is given."""
    run = run or cast(Run, find_mechanism(name).run)  # the default workload
    schema = small_schema(CELLS, 1, measured=False)
    worst, complaints = 0.0, list[Complaint]()
    cases = list(product(range(SEEDS), crowded_tables()))
    for seed, (one, other) in cases:
        found = replay(run, schema, one, other, budget, curator=curator, seed=seed)
        worst = max(worst, found.loss)
        complaints += found.complaints
    what = f"{name}, a descent over {CELLS} cells, {budget}"
    return ReplayFinding(what, budget.amount, worst, len(cases), complaints)
