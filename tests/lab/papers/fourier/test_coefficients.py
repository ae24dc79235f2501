"""A file of coefficients: the same answers after it was saved, and made-up ones refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from curators import curator_of

from sfumato.errors import ReleaseFileError
from sfumato.kernel.budget import Budget
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.file.artifact import write_artifact
from sfumato.releases.release import Release, contents_of


def release(table: str = "program") -> Release:
    mechanism = find_mechanism("fourier").with_options({"table": table})
    schema = mechanism.lab.example(1)
    curator = curator_of(schema, np.arange(6).reshape(3, 2) * 40)
    content = mechanism.run(curator, schema, Budget.pure(1), None)
    return Release(content, "fourier", describe_guarantee(Budget.pure(1), schema), False)


@pytest.mark.parametrize("table", ["program", "raise"])
def test_saved_and_opened_it_answers_the_same_and_is_written_the_same(table, tmp_path):
    made = release(table)
    opened = Release.load(made.save(tmp_path / "r.sfumato"))
    assert opened.marginal("a", "b").records() == made.marginal("a", "b").records()
    assert opened.save(tmp_path / "again.sfumato").read_bytes() == (tmp_path / "r.sfumato").read_bytes()


def put(place: int, value: int):
    def change(numbers: np.ndarray) -> np.ndarray:
        numbers[place] = value
        return numbers

    return change


@pytest.mark.parametrize(
    ("member", "column", "change", "message"),
    [
        ("cells", "cell", put(0, 6), "outside its schema"),
        ("cells", "cell", put(-1, 0), "not in order"),
        ("cells", "count", put(0, 0), "hold no rows"),
        ("attributes", "attribute", put(0, 2), "outside its schema"),
        ("attributes", "attribute", put(0, 1), "not those of coefficients"),
        ("sets", "attributes", put(0, 1), "do not go together"),
        ("answers", "answer", lambda answers: answers[:-1], "does not hold the coefficients"),
    ],
)
def test_files_that_were_made_up_are_refused(tmp_path, member, column, change, message):
    contents = contents_of(release())
    members = {name: dict(columns) for name, columns in contents.members.items()}
    members[member][column] = change(members[member][column].copy())
    with pytest.raises(ReleaseFileError, match=message):
        write_artifact(tmp_path / "r.sfumato", contents.manifest, members)
        Release.load(tmp_path / "r.sfumato")


def test_a_table_that_the_manifest_denies_and_other_details_are_refused(tmp_path):
    contents = contents_of(release())
    for details in ({**contents.manifest.details, "table": False}, {**contents.manifest.details, "more": 1}):
        with pytest.raises(ReleaseFileError):
            write_artifact(tmp_path / "r.sfumato", replace(contents.manifest, details=details), contents.members)
            Release.load(tmp_path / "r.sfumato")
