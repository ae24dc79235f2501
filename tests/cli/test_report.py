"""sfumato report, as a user calls it."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn_areas import quarters
from running import sfumato
from small_release import refused, release, write_small_table


def test_a_page_is_written_and_nothing_is_overwritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_small_table()
    release()
    run = sfumato("report", "r.sfumato", "-o", "r.html")
    assert run.returncode == 0 and "MB, one file" in run.stdout
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and page.endswith("</html>\n")
    assert "kept as r.html.~1~" in sfumato("report", "r.sfumato", "-o", "r.html").stdout
    assert sfumato("report", "r.sfumato", "-o", "q.html", "-q", "--with", "curator=The Office").stdout == ""
    assert "The Office" in (tmp_path / "q.html").read_text(encoding="utf-8")


def test_refusals_are_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_small_table()
    release()
    refused(sfumato("report", "missing.sfumato", "-o", "r.html"), "cannot open")
    refused(sfumato("report", "r.sfumato", "-o", "."), "is a folder")
    refused(sfumato("report", "r.sfumato", "-o", "r.html", "--require-signature", "k.pub"), "cannot be read")
    refused(sfumato("report", "r.sfumato", "-o", "r.html", "--confidence", "7"), "confidence")
    assert not (tmp_path / "r.html").exists()


def test_a_map_is_drawn_from_a_file_of_boundaries(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_small_table()
    release()
    quarters(Path("sexes.geojson"), ["F", "M", "x", "y"])
    run = sfumato("report", "r.sfumato", "-o", "r.html", "--map", "sex=sexes.geojson")
    assert run.returncode == 0, run.stderr
    assert Path("r.html").read_text(encoding="utf-8").count("<path class=") == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["sex"], "--map takes COLUMN=FILE such as region=regions.geojson, not 'sex'"),
        (["sex="], "--map takes COLUMN=FILE"),
        (["sex=a", "sex=b"], "--map names sex twice"),
        (["nope=sexes.geojson"], "no column 'nope' that a map can show; columns that have areas: age, sex"),
        (["sex=none.geojson"], "none.geojson cannot be read"),
        (["sex=t.csv"], "t.csv is no GeoJSON"),
        (["age=sexes.geojson"], "no property of sexes.geojson has values of age, such as '0'"),
    ],
)
def test_a_map_that_cannot_be_drawn_is_refused_in_one_line(small, monkeypatch, given, words):
    monkeypatch.chdir(small)
    options = [word for one in given for word in ("--map", one)]
    refused(sfumato("report", "r.sfumato", "-o", "q.html", *options), words)
    assert not Path("q.html").exists()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A folder with the table, its release and boundaries."""
    folder = tmp_path_factory.mktemp("small")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SFUMATO_LEDGER", str(folder / "ledger.sqlite"))
        write_small_table()
        release()
        quarters(Path("sexes.geojson"), ["F", "M", "x", "y"])
    return folder
