"""Values that a question does not tell apart, taken together: the same sums as cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.domain import Axis, Domain
from sfumato.releases.answers.gathered import gathered_by_kind

SHAPE = (6, 1, 5, 4)


@pytest.mark.parametrize("seed", range(8))
def test_every_gathered_cell_is_the_sum_of_the_cells_of_its_kinds(seed):
    some = np.random.default_rng(seed)
    domain = Domain(tuple(Axis(f"a{place}", "integer", np.arange(size + 1.0)) for place, size in enumerate(SHAPE)))
    places = [0, 1, 3]
    kinds = {place: _numbered_as_met(some.integers(0, 3, SHAPE[place])) for place in places}
    values = some.integers(-50, 50, SHAPE).astype(float)
    found = gathered_by_kind(domain, {"count": values.sum(axis=2).reshape(-1)}, kinds)
    assert found.merged == 5 and found.many is not None and found.many.sum() * found.merged == domain.size
    for cell in range(found.size):
        codes = {place: int(found.codes[f"a{place}"][cell]) for place in places}
        inside = [np.flatnonzero(kinds[place] == kinds[place][codes[place]]) for place in places]
        assert all(codes[place] == group[0] for place, group in zip(places, inside, strict=True))
        block = values[np.ix_(inside[0], inside[1], range(5), inside[2])]
        assert found.values["count"][cell] == block.sum() and found.many[cell] * 5 == block.size


def _numbered_as_met(drawn):
    """Kinds numbered in the order in which they first appear, as `kinds_asked` numbers them."""
    order = list(dict.fromkeys(drawn.tolist()))
    return np.array([order.index(one) for one in drawn.tolist()])
