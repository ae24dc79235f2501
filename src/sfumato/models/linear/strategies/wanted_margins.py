"""Which margins are wanted, and how much each matters: those that a workload asks for, or all of few attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import comb, prod

from sfumato.domain import Domain
from sfumato.queries import Kron, Queries, Stack, Total, Workload, default_workload

Places = tuple[int, ...]  # of axes in their domain, rising

ORDERS = 3  # attributes of a margin that is wanted if nothing is stated
MOST_SETS = 5_000  # margins of one order; where there are more of them, none of that order or above
MOST_CELLS = 2**14  # of a margin of several attributes
MOST_IN_ALL = 2**23  # cells of all margins of one order; where there are more, none of that order or above


def wanted_margins(domain: Domain, workload: Workload | None = None) -> dict[Places, float]:
    """Margins, by the places of their axes, and their weights; axes of one value tell nothing and are left out.

    >>> import numpy as np
    >>> from sfumato.domain import Axis
    >>> domain = Domain(tuple(Axis(name, "integer", np.arange(3.0)) for name in ("a", "b")))
    >>> wanted_margins(domain)
    {(): 1.0, (0,): 1.0, (1,): 1.0, (0, 1): 1.0}
    """
    sizes = domain.shape
    if workload is None or workload is default_workload(domain):
        return dict.fromkeys(small_margins(sizes), 1.0)
    found: dict[Places, float] = {}
    for block in workload.blocks:
        for places in dict.fromkeys(_asked(block, sizes)):
            found[places] = found.get(places, 0.0) + 1.0
    return found


def small_margins(sizes: Sequence[int]) -> list[Places]:
    """The total, all attributes, and all pairs and threes of few cells, as far as these are not too many."""
    places = [place for place, size in enumerate(sizes) if size > 1]
    found: list[Places] = [(), *((place,) for place in places)]
    for order in range(2, ORDERS + 1):
        if comb(len(places), order) > MOST_SETS:
            break
        cells = {part: prod(sizes[place] for place in part) for part in combinations(places, order)}
        small = [part for part, number in cells.items() if number <= MOST_CELLS]
        if sum(cells[part] for part in small) > MOST_IN_ALL:
            break
        found += small
    return found


def _asked(queries: Queries, sizes: Sequence[int]) -> Iterator[Places]:
    """The axes along which queries tell cells apart."""
    if isinstance(queries, Stack):
        for block in queries.blocks:
            yield from _asked(block, sizes)
        return
    found: list[int] = []
    place = 0
    for factor in queries.factors if isinstance(queries, Kron) else (queries,):
        first, cells = place, 1
        while cells < factor.columns:
            cells *= sizes[place]
            place += 1
        if not isinstance(factor, Total):
            found += [axis for axis in range(first, place) if sizes[axis] > 1]
    yield tuple(found)
