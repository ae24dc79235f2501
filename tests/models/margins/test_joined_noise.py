"""The errors of joined answers: what no attribute of a question touches has no part in them.

Answers by SQL from whole releases of margins stand in test_contents_margins.py; here the terms of one table of
2 x 3 cells are compared with the covariance of its cells written out.
"""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.kernel.budget import Budget
from sfumato.models.margins.content import Margins
from sfumato.models.margins.scales import Spreads
from sfumato.models.margins.table import Table, subsets, sum_out
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "sex": {"type": "category", "values": ["F", "M"]},
            "job": {"type": "category", "values": ["a", "b", "c"]},
        },
    }
)
TRUTH = np.array([[300.0, 200.0, 100.0], [100.0, 200.0, 100.0]])
VARIANCES = {(): 4.0, (0,): 9.0, (1,): 16.0, (0, 1): 25.0}


def content(unbiased: bool = False, pairs: bool = True) -> Margins:
    tables = {}
    for part in subsets((0, 1)):
        if pairs or len(part) < 2:
            each = sum_out(TRUTH, part, (0, 1))
            tables[part] = Table(part, each, np.full(each.shape, VARIANCES[part]), np.zeros(each.shape))
    return Margins(SCHEMA, {"count": tables}, {"count": Spreads((0.0, 2.0))}, unbiased=unbiased)


def asked(made: Margins, sql: str):
    release = Release(made, "toy", describe_guarantee(Budget.pure(1), SCHEMA), True)
    return [row[-1] for row in release.query(sql).rows]


def covariance() -> np.ndarray:
    """Of all cells: each part spread by the margins' shares, and centred along its own axes.

    One-way margins are centred evenly, as they are brought to the total, and the error of the total moves them so.
    """
    bases = [TRUTH.sum(axis=1) / TRUTH.sum(), TRUTH.sum(axis=0) / TRUTH.sum()]
    evenly = [np.full(len(base), 1 / len(base)) for base in bases]
    found = np.zeros((6, 6))
    for part, variance in VARIANCES.items():
        spread = np.ones((1, 1))
        for axis, base in enumerate(bases):
            centre = evenly[axis] if len(part) == 1 else base
            own = np.eye(len(base)) - np.outer(centre, np.ones(len(base)))
            spread = np.kron(spread, own if axis in part else base[:, None])
        if not part:
            moved = np.kron(evenly[0] - bases[0], bases[1]) + np.kron(bases[0], evenly[1] - bases[1])
            spread = spread + moved[:, None]
        found += variance * spread @ spread.T
    return found


@pytest.mark.parametrize(
    ("where", "weights"),
    [
        ("", [1, 1, 1, 1, 1, 1]),
        (" WHERE sex = 'F'", [1, 1, 1, 0, 0, 0]),
        (" WHERE job IN ('a', 'c')", [1, 0, 1, 1, 0, 1]),
        (" WHERE sex = 'M' AND job = 'b'", [0, 0, 0, 0, 1, 0]),
        (" WHERE sex = 'F' OR job = 'c'", [1, 1, 1, 0, 0, 1]),
    ],
)
def test_a_sum_has_the_variance_of_its_cells(where, weights):
    """Files keep standard errors to a thousandth of a row."""
    (found,) = asked(content(), f"SELECT COUNT(*) FROM t{where}")
    assert found.stderr == pytest.approx(np.sqrt(np.array(weights) @ covariance() @ weights), rel=2e-3)


def test_groups_have_the_errors_of_the_same_questions_one_by_one():
    grouped = asked(content(), "SELECT job, COUNT(*) FROM t WHERE sex = 'F' GROUP BY job")
    alone = [asked(content(), f"SELECT COUNT(*) FROM t WHERE sex = 'F' AND job = '{job}'")[0] for job in "abc"]
    assert [each.stderr for each in grouped] == pytest.approx([each.stderr for each in alone])


def test_a_share_knows_that_its_parts_go_together():
    """One minus a share has the error of the share: numerator and denominator carry the same errors."""
    part, rest = (
        asked(content(), f"SELECT COUNT(*) FILTER (WHERE sex = '{sex}') / COUNT(*) FROM t")[0] for sex in "FM"
    )
    assert part.value + rest.value == pytest.approx(1.0) and part.stderr == pytest.approx(rest.stderr, rel=0.01)
    (found,) = asked(content(), "SELECT COUNT(*) / COUNT(*) FROM t")
    assert found.value == 1.0 and found.stderr == pytest.approx(0.0, abs=1e-9)


def test_what_was_not_measured_has_the_models_share():
    sql = "SELECT COUNT(*) FROM t WHERE sex = 'F' AND job = 'a'"
    (known,), (joined,) = asked(content(), sql), asked(content(pairs=False), sql)
    assert known.model == 0.0 < joined.model
    base = np.outer(TRUTH.sum(axis=1), TRUTH.sum(axis=0)) / TRUTH.sum()
    one, two = (np.eye(len(sums))[0] - (sums / TRUTH.sum())[0] for sums in (TRUTH.sum(axis=1), TRUTH.sum(axis=0)))
    expected = 2.0 * (base * np.outer(one**2, two**2)).sum()
    assert joined.model**2 == pytest.approx(expected, rel=0.01)


def test_only_what_depends_on_the_unknown_is_unknown():
    made = content(unbiased=True, pairs=False)
    (one,) = asked(made, "SELECT COUNT(*) FROM t WHERE sex = 'F' AND job IN ('a', 'b', 'c')")
    assert np.isfinite(one.stderr) and one.value == pytest.approx(600.0)
    (cell,) = asked(made, "SELECT COUNT(*) FROM t WHERE sex = 'F' AND job = 'a'")
    assert not np.isfinite(cell.high)
