"""Tables over the cells of a domain: parts lie inside parts, and queries say which table they sum."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.domain import Axis, Domain
from sfumato.errors import QueryError
from sfumato.models.sums.posterior import MOST_IN_ALL, Table, candidates, chain, part_of
from sfumato.queries import Identity, Kron, Prefix, Ranges, Total


@pytest.mark.parametrize("side", [1, 2, 9, 40, 100, 1000])
def test_parts_lie_inside_parts_and_are_about_even(side):
    for finer, coarser in zip(chain(side), chain(side)[1:], strict=False):
        inside, outside = part_of(side, finer), part_of(side, coarser)
        pairs = {(int(a), int(b)) for a, b in zip(inside, outside, strict=True)}
        assert len(pairs) == finer and set(outside) == set(range(coarser))
        assert (np.diff(outside) >= 0).all() and np.ptp(np.bincount(outside)) <= max(2, side // coarser)


def test_queries_sum_the_regions_of_a_table_and_tell_which():
    cells = np.arange(3 * 40.0)
    for parts in [(1, 1), (3, 1), (1, 5), (3, 5), (3, 40)]:
        table = Table((3, 40), parts)
        asked = table.queries()
        assert np.array_equal(asked @ cells, np.bincount(table.labels(), weights=cells))
        assert Table.asked((3, 40), asked) == table
        assert (asked.column_sums() == 1).all()


@pytest.mark.parametrize(
    "queries",
    [
        Kron(Identity(3), Prefix(40)),
        Identity(40),
        Kron(Total(3), Ranges(40, [0, 9, 16, 24, 32], [8, 15, 23, 31, 39])),
        Kron(Identity(3), Ranges(40, [0, 20], [19, 39])),
    ],
)
def test_other_queries_are_no_table(queries):
    with pytest.raises(QueryError):
        Table.asked((3, 40), queries)


def test_candidates_begin_with_the_total_and_end_with_the_cells_and_are_few():
    axes = [Axis(f"x{place}", "integer", np.arange(n + 1.0)) for place, n in enumerate((9, 100, 40, 7, 5))]
    found = candidates(Domain(tuple(axes)))
    assert found[0].size == 1 and found[-1].parts == found[-1].sides
    assert sum(table.size for table in found[:-1]) <= MOST_IN_ALL and len(set(found)) == len(found)
    assert candidates(Domain((Axis("x", "integer", np.arange(2.0)),)))[-1].size == 1
