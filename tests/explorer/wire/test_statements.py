"""Which release a statement is about, where names are alike."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.explorer.shelf import Shelf
from sfumato.explorer.wire.failures import Failure
from sfumato.explorer.wire.statements import as_release_reads_it, release_asked


def test_releases_of_one_dataset_are_told_apart_by_their_files(releases):
    release = sf.open(releases[0])
    shelf = Shelf.of([("survey-2023.sfumato", release), ("survey-2024.sfumato", release)])
    text = 'SELECT t.sex, COUNT(*) FROM public."survey-2024" AS t GROUP BY t.sex'
    book, tree = release_asked(text, shelf)
    assert book.name == "survey-2024"
    assert as_release_reads_it(text, tree, book, changed=False) == (
        'SELECT t.sex, COUNT(*) FROM release AS "t" GROUP BY t.sex'
    )
    with pytest.raises(Failure, match="several releases") as refused:
        release_asked("SELECT COUNT(*) FROM survey", shelf)
    assert refused.value.code == "42P09" and "survey-2023, survey-2024" in refused.value.hint
    with pytest.raises(Failure, match="one table"):
        release_asked('SELECT COUNT(*) FROM "survey-2023" UNION ALL SELECT COUNT(*) FROM "survey-2024"', shelf)


def test_a_table_that_with_makes_is_none_of_the_catalogue(shelf):
    book, _ = release_asked("WITH pg_class AS (SELECT COUNT(*) AS n FROM survey) SELECT n FROM pg_class", shelf)
    assert book.name == "survey"
    assert release_asked("SELECT relname FROM pg_catalog.pg_class", shelf) is None
    text = "SELECT COUNT(*) FROM survey"
    assert as_release_reads_it(text, release_asked(text, shelf)[1], book, changed=False) is text
