"""Boundaries in the explorer's API: GeoJSON whose labels are those of charts, refused where there is none."""

from __future__ import annotations

import gzip
import json

import pytest
from drawn_areas import feature, polygon, quarters, rectangle, write
from exploring import client_for

import sfumato as sf
from sfumato.serve.web.maps import with_maps
from sfumato.serve.web.requests import Limits, Shelf
from sfumato.serve.web.working import ANSWERS, LENGTH, what_to_open


@pytest.fixture(scope="module")
def regions(tmp_path_factory):
    return quarters(tmp_path_factory.mktemp("maps") / "regions.geojson")


@pytest.fixture(scope="module")
def mapped(shelf, regions):
    return client_for(with_maps(shelf, {"region": regions}))


def test_the_areas_of_a_map_are_labelled_as_the_keys_of_a_chart(mapped):
    answer = mapped.get("/api/releases/survey/map/region")
    found = answer.json()
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/geo+json"
    chart = mapped.post("/api/releases/survey/chart", json={"by": ["region"]}).json()
    assert [[one["properties"]["label"]] for one in found["features"]] == chart["keys"]
    assert found["column"] == "region" and found["note"] is None and 0.9 < found["aspect"] <= 1
    assert mapped.get("/api/releases/survey").json()["maps"] == ["region"]
    assert mapped.get("/api/releases/harm").json()["maps"] == []


def test_a_browser_keeps_its_copy(mapped):
    answer = mapped.get("/api/releases/survey/map/region")
    again = mapped.get("/api/releases/survey/map/region", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304 and again.content == b""
    assert answer.headers["content-encoding"] == "gzip" and len(gzip.compress(answer.content)) < 5000


@pytest.mark.parametrize("address", ["survey/map/age", "survey/map/no%2Fsuch", "harm/map/region", "none/map/region"])
def test_what_has_no_map_is_not_found(mapped, address):
    answer = mapped.get(f"/api/releases/{address}")
    assert answer.status_code == 404 and answer.json()["kind"] == "not_found" and answer.json()["what_to_do"]


def test_the_address_takes_no_other_method(mapped):
    assert mapped.post("/api/releases/survey/map/region", json={}).status_code == 405


def test_the_document_describes_a_map(mapped):
    (found,) = [one for path, one in mapped.get("/api/openapi.json").json()["paths"].items() if "/map/" in path]
    assert [one["name"] for one in found["get"]["parameters"]] == ["name", "column"]
    assert "application/geo+json" in found["get"]["responses"]["200"]["content"] and "404" in found["get"]["responses"]


def test_names_with_slashes_and_signs_have_addresses_too(shelf, tmp_path):
    place = "<b>place</b>"
    label = shelf.find("harm").release.domain[place].values[0]
    file = write(tmp_path / "a.geojson", [feature(polygon(rectangle(0, 0, 1, 1)), at=label)])
    client = client_for(with_maps(shelf, {place: file}))
    found = client.get("/api/releases/harm/map/%3Cb%3Eplace%3C%2Fb%3E").json()
    assert found["features"][0]["properties"]["label"] == label and "6 values of" in found["note"]


def test_a_file_that_fits_no_release_is_refused(shelf, regions, tmp_path):
    with pytest.raises(sf.SfumatoError, match="no release here has a column 'nope' that a map can show"):
        with_maps(shelf, {"nope": regions})
    with pytest.raises(sf.SfumatoError, match="has values of sex, such as 'F'"):
        with_maps(shelf, {"sex": regions})
    with pytest.raises(sf.SfumatoError, match="cannot be read"):
        with_maps(shelf, {"region": tmp_path / "none"})


def test_a_worker_of_its_own_is_told_which_columns_have_maps(shelf, releases, regions):
    told = what_to_open(with_maps(shelf, {"region": regions}), releases, ANSWERS, Limits())
    assert [file[4] for file in json.loads(told[LENGTH.size :])["files"]] == [["region"], [], []]
    assert all(book.maps == {} for book in Shelf(shelf.books))
