"""COUNT(DISTINCT attribute): how many listed values have rows, with an interval that holds."""

from __future__ import annotations

import numpy as np
import pytest
from curators import curator_of
from scipy.stats import binom

from sfumato.answers.distinct import values_with_rows
from sfumato.answers.noise_sum import Ends
from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "town": {"type": "category", "values": list("abcdefgh")},
            "sex": {"type": "category", "values": ["F", "M"]},
            "income": {"type": "number", "lower": 0, "upper": 10, "bins": 2},
        },
    }
)
ROWS = np.array([0, 0, 0, 1, 2, 5, 20, 80])  # of each town, in one cell


def released(mechanism: str, epsilon: float, seed: int) -> Release:
    counts = np.zeros(SCHEMA.domain.shape, dtype=np.int64)
    counts[:, 1, 0] = ROWS
    curator = curator_of(SCHEMA, counts, epsilon=epsilon, entropy=TestingEntropy(seed))
    content = MECHANISMS[mechanism].run(curator, SCHEMA, Budget.pure(epsilon))
    return Release(content, mechanism, describe_guarantee(Budget.pure(epsilon), SCHEMA), False)


def test_the_interval_holds_the_true_number():
    """5 of 8 towns have rows. 100 releases; 95 % intervals that hold as often as stated fail this once in a million."""
    held, told = 0, 0
    for seed in range(100):
        ((found,),) = released("cells", 1.0, seed).query("SELECT COUNT(DISTINCT town) FROM t").rows
        assert found.value == found.low <= found.high
        held += found.low <= 5 <= found.high
        told += found.low > 0 and found.high - found.low < 8
    assert held >= binom.ppf(1e-6, 100, 0.95)
    assert told == 100  # 80 rows show through the noise of 4 cells


def test_values_that_surely_have_rows_are_counted_by_group_and_condition():
    release = released("cells", 1000.0, 1)
    answer = release.query("SELECT sex, COUNT(DISTINCT town) AS n FROM t GROUP BY sex")
    assert [(sex, n.value, n.low, n.high) for sex, n in answer.rows] == [("F", 0, 0, 0), ("M", 5, 5, 5)]
    assert "that of the 8 listed ones that surely have rows" in answer.notes[0]
    ((some, share),) = release.query(
        "SELECT COUNT(DISTINCT town) FILTER (WHERE town IN ('a', 'd')), COUNT(DISTINCT town) / COUNT(*) FROM t"
    ).rows
    assert (some.value, some.high) == (1, 1) and share.value == pytest.approx(5 / 108)
    for kind in ("guaranteed", "both"):
        ((found,),) = release.query("SELECT COUNT(DISTINCT town) FROM t", interval=kind).rows
        assert (found.low, found.high) == (5, 5)


def test_the_values_of_the_key_itself():
    """A group of one town has no cells of the others."""
    for mechanism in ("cells", "wavelet", "hierarchical"):
        for epsilon in (0.001, 1000.0):
            rows = released(mechanism, epsilon, 2).query("SELECT COUNT(DISTINCT town) FROM t GROUP BY town").rows
            assert all(0 <= n.low <= n.value <= n.high <= 1 for (n,) in rows)


def test_an_interval_that_holds_no_whole_number_is_that_of_a_value_with_rows():
    between = [Ends(0.2, 0.8), Ends(-1.0, 0.5), Ends(0.0, 2.0), Ends(3.0, 4.0)]
    assert values_with_rows(between) == (2, 3)


def test_a_model_is_asked_for_its_measurements_alone():
    ((found,),) = released("sfumato", 4.0, 1).query("SELECT COUNT(DISTINCT town) FROM t").rows
    assert 0 < found.low <= 5 <= found.high == 8


def test_margins_are_asked_for_guaranteed_intervals_of_their_counts():
    """Margins keep no measurements of single regions; bounds that hold for every table decide what is sure."""
    release = released("margins", 4.0, 1)
    ((found,),) = release.query("SELECT COUNT(DISTINCT town) FROM t").rows
    assert 0 < found.value == found.low <= 5 <= found.high <= 8 and found.stderr > 0
    ((sure,),) = release.query("SELECT COUNT(DISTINCT town) FROM t", interval="guaranteed").rows
    assert (sure.value, sure.low, sure.high) == (found.value, found.low, found.high)


@pytest.mark.parametrize(
    ("mechanism", "sql", "message"),
    [
        ("cells", "SELECT COUNT(DISTINCT income) FROM t", "known by its bins"),
        ("cells", "SELECT COUNT(DISTINCT town, sex) FROM t", r"COUNT\(DISTINCT town, sex\) is not supported"),
        ("sparse-cells", "SELECT COUNT(DISTINCT town) FROM t", "leaves out small cells; the counts themselves"),
    ],
)
def test_what_cannot_be_said_is_refused_by_name(mechanism, sql, message):
    with pytest.raises(QueryError, match=message):
        released(mechanism, 1.0, 1).query(sql)
