"""Counts and sums as measured, where releases shrink them."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from curators import curator_of
from sure_coverage import most_misses

from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SIZES = {"x": 40, "y": 3, "z": 2, "w": 4}
SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {name: {"type": "integer", "lower": 0, "upper": size - 1} for name, size in SIZES.items()},
    }
)
COUNTS = np.where(np.arange(40)[:, None, None, None] % 8 == 0, 30, 0) * np.ones((40, 3, 2, 4), dtype=int)
BY_X = "SELECT x, COUNT(*) AS n FROM t GROUP BY x"


@cache
def release_by(mechanism: str, seed: int = 1, epsilon: int = 1) -> Release:
    curator = curator_of(SCHEMA, COUNTS, epsilon=epsilon, entropy=TestingEntropy(seed))
    content = find_mechanism(mechanism).run(curator, SCHEMA, Budget.pure(epsilon), None)
    return Release(content, mechanism, describe_guarantee(Budget.pure(epsilon), SCHEMA), False)


def test_margins_as_measured_may_be_negative_and_their_intervals_are_those_of_the_noise():
    """Three releases, 120 counts of which 105 are of no rows. By noise alone at 95 %, one run in 1e6 fails by chance.

    Drawn towards nothing, hardly one is below it, and the sum over values without rows is above it every time.
    """
    missed, below, sums, spreads = 0, 0, [], []
    for seed in range(3):
        found = release_by("margins", seed).query(BY_X, unbiased=True)
        truths = COUNTS.sum(axis=(1, 2, 3))
        missed += sum(not one.low <= truths[x] <= one.high for x, one in found)
        below += sum(one.value < 0 for _, one in found)
        assert all(one.model == 0 and one.stderr == one.noise > 0 for _, one in found)
        empty = release_by("margins", seed).query("SELECT COUNT(*) AS n FROM t WHERE x % 8 <> 0", unbiased=True)
        sums.append(empty.rows[0][0].value)
        spreads.append(empty.rows[0][0].stderr)
        assert any("as measured" in note for note in found.notes)
    assert missed <= most_misses(120, 1e-6) and below > 25
    assert abs(sum(sums)) < 4.9 * np.sqrt(np.square(spreads).sum())
    shrunk = release_by("margins").query(BY_X).column("n")
    assert min(one.value for one in shrunk) >= 0.0


def test_they_are_least_squares_of_all_noisy_tables():
    """A dense twin: every noisy table as rows of a matrix over all cells, weighed by precision."""
    release = release_by("margins")
    content, shape = release.content.as_measured(), tuple(SIZES.values())
    cells = np.array(list(product(*map(range, shape))))
    blocks, answers, weights = [], [], []
    for places, one in content.measured:
        sizes = [shape[place] for place in places]
        codes = np.ravel_multi_index(tuple(cells[:, place] for place in places), sizes) if places else 0 * cells[:, 0]
        blocks.append((np.arange(len(one.answers))[:, None] == codes).astype(float))
        answers.append(one.answers)
        weights.append(np.full(len(one.answers), 1 / np.sqrt(one.noise.variance)))
    matrix, weight = np.concatenate(blocks), np.concatenate(weights)
    inverse = np.linalg.pinv(matrix * weight[:, None], rcond=1e-10)
    x_hat = inverse @ (np.concatenate(answers) * weight)
    for place, name in enumerate(SIZES):
        found = release.query(f"SELECT {name}, COUNT(*) AS n FROM t GROUP BY {name}", unbiased=True).column("n")
        for value, one in enumerate(found):
            asked = (cells[:, place] == value).astype(float)
            assert one.value == pytest.approx(asked @ x_hat, abs=0.01)  # tables are kept in 1024ths
            assert one.stderr == pytest.approx(np.linalg.norm(asked @ inverse), abs=0.01)


def test_what_was_not_measured_together_is_refused_in_one_line_that_says_what_was():
    release = release_by("margins")
    sets = {len(places) for places, _ in release.content.as_measured().measured}
    assert max(sets) < 4
    with pytest.raises(QueryError, match="were not measured together") as refusal:
        release.query("SELECT COUNT(*) FROM t WHERE x < 20 AND y = 1 AND z = 0 AND w > 1", unbiased=True)
    assert "\n" not in str(refusal.value) and "ask about" in str(refusal.value)


@pytest.mark.parametrize("mechanism", ["cells", "hierarchical", "residual"])
def test_what_is_unbiased_already_stays_as_it_is(mechanism):
    release = release_by(mechanism)
    assert release.content.as_measured() is release.content
    plain, unbiased = release.query(BY_X), release.query(BY_X, unbiased=True)
    assert [one.value for one in plain.column("n")] == [one.value for one in unbiased.column("n")]


def test_cells_that_buckets_were_found_in_are_there_and_what_noise_chose_is_not():
    release = release_by("kdtree")
    found = release.query("SELECT COUNT(*) AS n FROM t WHERE x = 0", unbiased=True).rows[0][0]
    assert found.model == 0 and found.low <= 720 <= found.high
    for mechanism in ("dawa",):
        with pytest.raises(QueryError, match="no unbiased counts; ask without unbiased"):
            release_by(mechanism).query(BY_X, unbiased=True)


def test_a_file_holds_what_is_needed(tmp_path):
    release = release_by("margins")
    release.save(tmp_path / "r.sfumato")
    again = Release.load(tmp_path / "r.sfumato")
    assert again.query(BY_X, unbiased=True).rows == release.query(BY_X, unbiased=True).rows
