"""Values that a question does not tell apart, taken together: the same sums as cell by cell."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.answers import question as module
from sfumato.answers.question import gathered, gathered_by_kind
from sfumato.domain import Axis, Domain

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


QUESTIONS = [
    "SELECT COUNT(*) AS n FROM t",
    "SELECT a, COUNT(*) AS n, AVG(m) AS mean FROM t WHERE b <> 3 GROUP BY a",
    "SELECT a, b, SUM(m) AS s FROM t WHERE a BETWEEN 2 AND 4 OR b = 1 GROUP BY a, b",
    "SELECT c, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM t WHERE a > 1 GROUP BY c",
    "SELECT COUNT(*) FILTER (WHERE a = 2) / COUNT(*) AS share FROM t WHERE b < 2.5",
    "SELECT AVG(m) FILTER (WHERE c = 'x') - AVG(m) FILTER (WHERE c = 'y') AS apart FROM t WHERE b IN (0, 4)",
    "SELECT c, MEDIAN(a) AS middle, STDDEV(a) AS spread, AVG(b) AS b FROM t WHERE b > 1 GROUP BY c",
    "SELECT FLOOR(a / 3) AS third, COUNT(*) AS n FROM t WHERE NOT (b = 2 AND c = 'x') GROUP BY third",
]


@pytest.mark.parametrize("how", [{}, {"interval": "both"}, {"simultaneous": True, "possible": True}])
def test_answers_and_their_intervals_are_those_of_single_cells(tmp_path, monkeypatch, how):
    """To the last digits: the same sums of whole numbers, and as many noises of each weight."""
    some = np.random.default_rng(2)
    table = {"a": some.integers(0, 8, 400), "b": some.random(400) * 5, "c": some.choice(["x", "y"], 400)}
    schema = sf.Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": "row",
            "budget": {"epsilon": 9},
            "attributes": {
                "a": {"type": "integer", "lower": 0, "upper": 7},
                "b": {"type": "number", "lower": 0, "upper": 5, "bins": 5},
                "c": {"type": "category", "values": ["x", "y"]},
            },
            "measures": {"m": {"lower": 0, "upper": 10}},
        }
    )
    rows = pa.table(table | {"m": some.random(400) * 10})
    release = sf.release(rows, schema, epsilon=2, mechanism="cells", ledger=tmp_path / "ledger")
    together = [release.query(text, **how).records() for text in QUESTIONS]
    monkeypatch.setattr(module, "gathered_by_kind", lambda domain, summed, kinds: gathered(domain, summed, list(kinds)))
    for text, found in zip(QUESTIONS, together, strict=True):
        alone = release.query(text, **how).records()
        assert [row.keys() for row in found] == [row.keys() for row in alone], text
        for one, other in zip(found, alone, strict=True):
            numbers = [name for name, value in other.items() if isinstance(value, float | int)]
            assert {**one, **dict.fromkeys(numbers)} == {**other, **dict.fromkeys(numbers)}, text
            close = pytest.approx([other[name] for name in numbers], rel=1e-9, abs=1e-9)
            assert [one[name] for name in numbers] == close, text


def _numbered_as_met(drawn):
    """Kinds numbered in the order in which they first appear, as `kinds_asked` numbers them."""
    order = list(dict.fromkeys(drawn.tolist()))
    return np.array([order.index(one) for one in drawn.tolist()])
