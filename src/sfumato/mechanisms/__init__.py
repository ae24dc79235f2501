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
    from sfumato.releases.cube import Cube
    from sfumato.schema import Schema


@dataclass(frozen=True)
class Mechanism:
    """A recipe that turns a private table into something to publish."""

    name: str
    summary: str
    run: Callable[[Curator, Schema, Budget], Cube]


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
