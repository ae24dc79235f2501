"""A release has one name: its dataset's, in the page, in psql and in Python, whatever its file is called."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.serve.pgwire.asking import Answer, Asked, answer
from sfumato.serve.pgwire.catalogue.tables import Catalogue, Who
from sfumato.serve.web.answers import list_of
from sfumato.serve.web.questions import Query
from sfumato.serve.web.requests import Refusal, Shelf

sqlalchemy = pytest.importorskip("sqlalchemy")
LISTED = "SELECT tablename FROM pg_catalog.pg_tables ORDER BY tablename"


def wire(shelf, catalogue, text):
    return Answer.unpacked(answer(shelf, catalogue, Asked(text, Who("me", "db"), Query(sql="-"))))


def test_it_is_the_datasets_name_whatever_the_file_is_called(releases, tmp_path):
    path = tmp_path / "Final results (2).sfumato"
    path.write_bytes(releases[0].read_bytes())
    shelf = Shelf.of([(path, sf.open(path))])
    (book,) = shelf
    assert [one["name"] for one in list_of(shelf)["releases"]] == ["survey"]
    catalogue = Catalogue(shelf)
    listed = wire(shelf, catalogue, LISTED).rows
    assert b"survey" in listed and b"Final" not in listed
    sqlalchemy.dialects.registry.register("sfumato", "sfumato.dbapi.sqlalchemy_dialect", "SfumatoDialect")
    engine = sqlalchemy.create_engine(sqlalchemy.URL.create("sfumato", database=str(path)))
    assert sqlalchemy.inspect(engine).get_table_names() == ["survey"]
    engine.dispose()
    text = "SELECT sex, COUNT(*) AS n FROM survey GROUP BY sex"
    rows = wire(shelf, None, text).rows
    assert len(sf.open(path).query(text)) == 2
    for other in ('"Final results (2)"', 'public."final results (2)"', "SURVEY", "release"):  # and so it is understood
        assert wire(shelf, None, text.replace("survey", other)).rows == rows
    assert shelf.find("survey") is book and shelf.find("Final-results-2") is book
    with pytest.raises(Refusal, match="no release of this name"):
        shelf.find("other")


def test_releases_of_one_dataset_have_the_names_of_their_files(shelf):
    survey, harm, _ = (book.release for book in shelf)
    listed = [("2023/s.sfumato", survey), ("2024/s.sfumato", survey), ("harm.sfumato", survey), ("x.sfumato", harm)]
    assert [book.name for book in Shelf.of(listed)] == ["s", "s-2", "harm-2", "harm"]
