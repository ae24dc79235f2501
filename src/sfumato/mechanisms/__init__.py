"""The mechanisms, by name: one paper, one file, one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import MechanismError
from sfumato.mechanisms.cells import cells, sparse_cells

if TYPE_CHECKING:
    from sfumato.kernel.budget import Budget
    from sfumato.kernel.curator import Curator
    from sfumato.queries import Workload
    from sfumato.releases.cube import Cube
    from sfumato.schema import Schema
    from sfumato.strategies.strategy import Strategy


@dataclass(frozen=True)
class Mechanism:
    """A recipe that turns a private table into something to publish.

    strategy: for linear mechanisms, what they ask (schema, workload, whether the budget is pure epsilon); their error is
    known before any data is. gaussian: whether it also takes rho-zCDP. refuses: why it does not fit a schema, or None.
    """

    name: str
    summary: str
    run: Callable[[Curator, Schema, Budget, Workload | None], Cube]
    strategy: Callable[[Schema, Workload, bool], Strategy] | None = None
    gaussian: bool = False
    refuses: Callable[[Schema, Workload], str | None] = lambda schema, workload: None


MECHANISMS = {
    mechanism.name: mechanism
    for mechanism in (
        Mechanism("cells", "noise on every cell", cells),
        Mechanism("sparse-cells", "noise on every cell, published above a threshold only", sparse_cells),
    )
}


def find_mechanism(name: str) -> Mechanism:
    """The mechanism of that name; `auto` leaves the choice to us.

    >>> find_mechanism("auto").name
    'cells'
    """
    if name == "auto":
        name = "cells"
    if name not in MECHANISMS:
        raise MechanismError(f"no mechanism {name!r}; there are auto, {', '.join(MECHANISMS)}")
    return MECHANISMS[name]
