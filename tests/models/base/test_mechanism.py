"""What a value says of itself where nothing was said, and how it refuses."""

from __future__ import annotations

import pytest

from sfumato.arrays import MOST_DENSE
from sfumato.errors import MechanismError
from sfumato.models import MECHANISMS
from sfumato.models.base.mechanism import Holds, Mechanism
from sfumato.schema import Schema

PLAIN = Mechanism("plain", "does nothing", lambda c, s, b, w=None: None)


def square(side: int) -> Schema:
    axis = {"type": "integer", "lower": 0, "upper": side - 1}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"x": axis, "y": axis}})


def test_a_name_a_summary_and_a_function_are_enough():
    assert PLAIN.error == "simulated" and not PLAIN.adaptive and not PLAIN.as_measured and PLAIN.docs == "plain.md"
    assert PLAIN.why_not(square(10)) is None and not PLAIN.is_sparse(square(10))
    assert PLAIN.forecast.work(square(10), None, None, 0) == 128 * 100


def test_too_many_cells_are_refused_in_one_wording_with_a_name_that_takes_them():
    small = Mechanism("small", "", PLAIN.run, holds=Holds(most_cells=50))
    assert small.why_not(square(10)) == "small takes at most 50 cells, there are 100; use hierarchical or cells"
    for one in (small, PLAIN):
        with pytest.raises(MechanismError, match=f"^{one.name} takes at most .* cells, .* use sparse-cells"):
            one.check(square(6000))
    for one in MECHANISMS.values():
        named = one.why_not(square(6000))
        takes = one.as_measured or one.holds.by_margins or (one.holds.most_cells or 0) >= 6000**2
        assert (named is None) == takes and (named is None or "use sparse-cells" in named)
    assert MOST_DENSE < 6000**2 and MECHANISMS["cells"].is_sparse(square(6000))
    assert not MECHANISMS["cells"].is_sparse(square(10))


def test_another_reason_is_said_by_name():
    picky = Mechanism("picky", "", PLAIN.run, refuses=lambda schema, workload: "no; use cells")
    with pytest.raises(MechanismError, match=r"^picky does not fit: no; use cells$"):
        picky.check(square(10))


def test_how_an_error_is_known_follows_from_the_rest():
    kinds = {name: one.error for name, one in MECHANISMS.items()}
    assert kinds["matrix"] == "exact" and kinds["kdtree"] == "simulated" and kinds["mwem"] == "measured"
    assert [one.name for one in MECHANISMS.values() if one.adaptive] == ["sfumato"]
