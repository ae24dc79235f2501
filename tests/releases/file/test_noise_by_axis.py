"""Noise numbers by axis in a file: the same answers after reading, and damaged codes refused."""

from __future__ import annotations

import numpy as np
import pytest
from curators import curator_of

from sfumato.errors import ReleaseFileError
from sfumato.kernel import charge
from sfumato.kernel.budget import Budget
from sfumato.models.linear.spine import MECHANISM
from sfumato.publishing.publish import describe_guarantee
from sfumato.queries import strategy
from sfumato.releases.file.fit_records import Arrays, Reading, write_fits
from sfumato.releases.release import Release
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "sex": {"type": "category", "values": ["F", "M"]},
            "block": {
                "type": "category",
                "values": [f"b{n}" for n in range(40)],
                "groups": {"county": {f"c{n}": size for n, size in enumerate((1, 1, 4, 9, 5, 20))}},
            },
        },
    }
)


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Release:
    """Release of areas that count as too many for a number for each row, and to be tracked by cell."""
    monkeypatch.setattr(strategy, "MOST_DENSE", 10)
    monkeypatch.setattr(charge, "MOST_TRACKED", 10)
    curator = curator_of(SCHEMA, np.arange(80).reshape(2, 40) * 5)
    content = MECHANISM.run(curator, SCHEMA, Budget.pure(1), None)
    assert curator.charge.fullest == 1  # all that the budget allows: the bound of each block is exact
    return Release(content, "spine", describe_guarantee(Budget.pure(1), SCHEMA), False)


def test_a_release_answers_the_same_after_it_was_written(release, tmp_path):
    release.save(tmp_path / "r.sfumato")
    again = Release.load(tmp_path / "r.sfumato")
    (record,) = write_fits(release.content.fits, SCHEMA.domain).fits
    assert isinstance(record.measurements[0].which, list)
    for text in (
        "SELECT county, COUNT(*) FROM t GROUP BY county",
        "SELECT sex, COUNT(*) FROM t GROUP BY sex",
        "SELECT COUNT(*) FROM t WHERE block IN ('b0', 'b7', 'b39') AND sex = 'F'",
    ):
        assert again.query(text).rows == release.query(text).rows


@pytest.mark.parametrize("damage", ["fewer axes", "a code too many", "below zero", "another noise"])
def test_codes_that_do_not_fit_are_refused(release, damage):
    written = write_fits(release.content.fits, SCHEMA.domain)
    (record,) = written.fits
    which, arrays = record.measurements[0].which, list(written.arrays.all)
    if damage == "fewer axes":
        which.pop()
    elif damage == "a code too many":
        arrays[which[0]] = np.append(arrays[which[0]], 0)
    else:
        changed = arrays[which[1]].copy()
        changed[0] = -1 if damage == "below zero" else changed.max() + 1
        arrays[which[1]] = changed
    with pytest.raises(ReleaseFileError):
        Reading(written.queries, Arrays(arrays), SCHEMA.domain).fit(record, None)
