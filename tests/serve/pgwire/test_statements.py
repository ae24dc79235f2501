"""Which release a statement is about, where names are alike."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.errors import QueryError
from sfumato.serve.pgwire.protocol import INT8S, Failure, Given, decoded
from sfumato.serve.pgwire.statements import as_release_reads_it, places_of, put_values, release_asked
from sfumato.serve.web.requests import Shelf
from sfumato.sql.reading import parse


def test_releases_of_one_dataset_are_told_apart_by_their_files(releases):
    release = sf.open(releases[0])
    shelf = Shelf.of([("survey-2023.sfumato", release), ("survey-2024.sfumato", release)])
    text = 'SELECT t.sex, COUNT(*) FROM public."survey-2024" AS t GROUP BY t.sex'
    book, tree, _ = release_asked(text, shelf)
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
    book, _, _ = release_asked("WITH pg_class AS (SELECT COUNT(*) AS n FROM survey) SELECT n FROM pg_class", shelf)
    assert book.name == "survey"
    assert release_asked("SELECT relname FROM pg_catalog.pg_class", shelf) is None
    text = "SELECT COUNT(*) FROM survey"
    assert as_release_reads_it(text, release_asked(text, shelf)[1], book, changed=False) is text


def test_values_do_not_make_a_statement_of_any_length():
    """One long value in many places, or a list without end, would be written out before it is found too long."""
    tree = parse("SELECT COUNT(*) FROM census WHERE " + " OR ".join(["sex = $1 "] * 300))
    with pytest.raises(QueryError, match="300,600 characters are in the values of a statement, and 20,000 is the most"):
        put_values(places_of(tree), ["x" * 1000], casts=True)
    with pytest.raises(QueryError, match="characters are in a list of values, and 20,000 is the most"):
        decoded(Given(b"{" + b"1," * 300_000 + b"1}", False), INT8S)
