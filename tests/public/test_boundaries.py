"""Boundaries of areas: matched with the values of a column, simplified so that neighbours keep touching, or refused."""

from __future__ import annotations

import json
import math

import pytest
from drawn_areas import feature, polygon, quarters, rectangle, several, wobbly, write

from sfumato.errors import QueryError
from sfumato.public import boundaries
from sfumato.public.boundaries import boundaries_of, columns_with_areas
from sfumato.public.outlines import MOST_POINTS, POINTS_OF_AREA, STEPS, effective_areas, twice_area
from sfumato.schema import Schema

SIDES = ["North", "South", "East", "West"]
LAND = {"type": "category", "values": ["07", "08", "09"], "labels": {"07": "Hill", "08": "Dale"}, "other": True}
TOWNS = {"type": "category", "values": ["a", "b", "c"], "groups": {"county": {"K": ["a", "b"], "L": ["c"]}}}


def schema(**attributes) -> Schema:
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})


REGION = schema(region={"type": "category", "values": SIDES}, age={"type": "integer", "lower": 0, "upper": 99})


def square(at: float, side: float = 1.0):
    return polygon(rectangle(at, 0, at + side, side))


def edges(shape) -> set[frozenset]:
    rings = [ring for part in shape for ring in part]
    return {frozenset(pair) for ring in rings for pair in zip(ring, [*ring[1:], ring[0]], strict=True)}


# -- matching


def test_the_property_that_matches_most_values_names_the_areas(tmp_path):
    rows = zip(SIDES, ["North", "b", "c", "d"], strict=True)
    shapes = [feature(square(n), wrong=other, title=one) for n, (one, other) in enumerate(rows)]
    found = boundaries_of(REGION, "region", write(tmp_path / "a.geojson", shapes))
    assert list(found.areas) == SIDES and found.note is None


def test_what_does_not_match_is_counted_and_told(tmp_path):
    file = quarters(tmp_path / "a.geojson", ("North", "South", "Elsewhere", "Nowhere"))
    found = boundaries_of(REGION, "region", file)
    assert found.without == ("East", "West") and (found.unknown, found.features) == (2, 4)
    assert found.note == (
        "2 values of region without boundaries: East, West; 2 of 4 features of the file are no value of region"
    )


def test_areas_are_named_by_labels_or_by_the_codes_behind_them_and_other_needs_none(tmp_path):
    land = schema(land=LAND)
    by_code = write(tmp_path / "a.geojson", [feature(square(n), key=f"0{n}") for n in (7, 8, 9)])
    by_label = write(tmp_path / "b.geojson", [feature(square(n), key=one) for n, one in enumerate(["Hill", "Dale"])])
    assert list(boundaries_of(land, "land", by_code).areas) == ["Hill", "Dale", "09"]
    assert boundaries_of(land, "land", by_code).without == ()
    assert boundaries_of(land, "land", by_label).without == ("09",)


def test_columns_of_groups_and_whole_numbers_have_areas_too(tmp_path):
    towns = schema(
        town=TOWNS,
        ward={"type": "integer", "lower": 1, "upper": 3},
        day={"type": "number", "lower": 0, "upper": 1, "bins": 2},
    )
    assert set(columns_with_areas(towns)) == {"town", "ward", "county"}
    file = write(tmp_path / "a.geojson", [feature(square(0), county="K"), feature(square(1), county="L")])
    assert list(boundaries_of(towns, "county", file).areas) == ["K", "L"]
    wards = write(tmp_path / "b.geojson", [feature(square(n)) | {"id": float(n)} for n in (1, 2, 3)])
    found = boundaries_of(towns, "ward", wards)
    assert list(found.areas) == [1, 2, 3]
    assert [one["properties"]["label"] for one in found.geojson()["features"]] == [1, 2, 3]


# -- simplification


def test_neighbours_keep_one_border_however_much_is_left_out(tmp_path):
    """The areas are a tiling before and after: every border but the outer one belongs to exactly two of them."""
    names = [str(n) for n in range(400)]
    areas = schema(area={"type": "category", "values": names})
    found = boundaries_of(areas, "area", write(tmp_path / "a.geojson", wobbly(20, 20)))
    assert list(found.areas) == names and max(found.grid.size) == STEPS
    kept = sum(len(ring) for shape in found.areas.values() for part in shape for ring in part)
    assert 400 * 4 < kept <= MOST_POINTS + POINTS_OF_AREA * 400 < 400 * 4 * 59
    uses: dict[frozenset, int] = {}
    for shape in found.areas.values():
        for edge in edges(shape):
            uses[edge] = uses.get(edge, 0) + 1
    outer = [edge for edge, times in uses.items() if times == 1]
    assert {*uses.values()} == {1, 2}
    at = dict.fromkeys(corner for edge in outer for corner in edge)
    beside = {corner: [] for corner in at}
    for one, other in outer:
        beside[one].append(other)
        beside[other].append(one)
    border, before = [next(iter(at))], None
    while (step := next(one for one in beside[border[-1]] if one != before)) != border[0]:
        before = border[-1]
        border.append(step)
    inside = sum(twice_area(ring) for shape in found.areas.values() for part in shape for ring in part)
    assert len(border) == len(outer) and inside == twice_area(border)  # one line around all, and no gap between areas


def test_an_area_in_a_hole_of_another_fills_it_exactly(tmp_path):
    around = [(2 + math.cos(n / 50 * math.pi), 2 + math.sin(n / 50 * math.pi)) for n in range(100)]
    hole, inner = [*around, around[0]], [*around[50:], *around[:50], around[50]][::-1]
    shapes = [feature(polygon(rectangle(0, 0, 4, 4), hole), n="North"), feature(polygon(inner), n="South")]
    found = boundaries_of(REGION, "region", write(tmp_path / "a.geojson", shapes))
    (ring,) = found.areas["South"][0]
    outer, gap = found.areas["North"][0]
    assert edges([[ring]]) == edges([[gap]]) and len(outer) == 4 and len(ring) > 20


def test_parts_of_one_area_are_one_and_the_antimeridian_is_left_alone(tmp_path):
    parts = several([rectangle(170, 50, 180, 60)], [rectangle(-180, 50, -170, 60)])
    shapes = [feature(parts, n="North"), feature(square(0), n="South"), feature(square(5), n="South")]
    found = boundaries_of(REGION, "region", write(tmp_path / "a.geojson", shapes))
    assert [len(found.areas[one]) for one in ("North", "South")] == [2, 2]
    west = [x for part in found.geojson()["features"][0]["geometry"]["coordinates"] for ((x, _), *_) in part]
    assert west == pytest.approx([170, -180], abs=0.1)
    assert found.grid.aspect == pytest.approx(math.cos(math.radians(30)), abs=1e-9)


def test_a_tiny_area_becomes_a_small_square_and_plane_coordinates_stay_as_they_are(tmp_path):
    tiny = polygon([(400_000, 5_000_000), (400_001, 5_000_000), (400_000, 5_000_001), (400_000, 5_000_000)])
    shapes = [feature(polygon(rectangle(300_000, 4_900_000, 700_000, 5_500_000)), n="North"), feature(tiny, n="South")]
    found = boundaries_of(REGION, "region", write(tmp_path / "a.geojson", shapes))
    assert found.grid.aspect == 1.0
    ((ring,),) = found.areas["South"]
    assert len(ring) == 4 and twice_area(ring) > 0
    corners = [corner for part in found.geojson()["features"][0]["geometry"]["coordinates"] for corner in part[0]]
    assert corners[0] == (300_000, 4_900_000)


def test_corners_on_a_straight_line_spikes_and_repeated_corners_go(tmp_path):
    ring = [(0, 0), (1, 0), (2, 0), (2, 0), (4, 0), (4, 9), (4, 4), (0, 4), (0, 0)]
    found = boundaries_of(REGION, "region", write(tmp_path / "a.geojson", [feature(polygon(ring), n="East")]))
    assert len(found.areas["East"][0][0]) == 4
    assert effective_areas(((0, 0), (2, 0), (2, 2), (0, 2), (0, 0)))[1:-1].count(math.inf) == 2


def test_coordinates_have_few_digits_and_are_near_the_truth(tmp_path):
    found = boundaries_of(REGION, "region", quarters(tmp_path / "a.geojson")).geojson()
    assert len(json.dumps(found)) < 1200 and found["type"] == "FeatureCollection" and found["column"] == "region"
    (ring,) = found["features"][1]["geometry"]["coordinates"][0]
    assert (
        ring[0] == ring[-1]
        and {x for x, _ in ring} == {3.0, 6.0}
        and max(y for _, y in ring) == pytest.approx(4, abs=0.01)
    )


# -- refusals


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name,size\nNorth,3\n", "is no GeoJSON"),
        ("[" * 100_000, "is no GeoJSON"),
        ('{"type": "FeatureCollection", "features": [], "features": []}', "is no GeoJSON"),
        ('{"type": "Topology"}', "is no FeatureCollection"),
        ('{"type": "FeatureCollection"}', "has no list of features"),
        ('{"type": "FeatureCollection", "features": [3, null, {}]}', "has no Polygon"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_line(tmp_path, text, words):
    (tmp_path / "a.geojson").write_text(text)
    with pytest.raises(QueryError, match=words) as refused:
        boundaries_of(REGION, "region", tmp_path / "a.geojson")
    assert refused.value.kind == "file" and "\n" not in str(refused.value) and ";" in str(refused.value)


@pytest.mark.parametrize(
    "coordinates",
    [
        "[[[0, 0], [1, 0], [0, 0]]]",
        '[[[0, 0], ["1", 0], [1, 1], [0, 0]]]',
        "[[[0, 0], [1e999, 0], [1, 1], [0, 0]]]",
        "[[[0, 0], [1], [1, 1], [0, 0]]]",
        "[[0, 0], [1, 0], [1, 1], [0, 0]]",
        "[[[0, 0], [true, 0], [1, 1], [0, 0]]]",
        f"[[[0, 0], [1{'0' * 400}, 0], [1, 1], [0, 0]]]",
        "[[[-1e308, 0], [1e308, 0], [1, 1], [-1e308, 0]]]",
        "7",
    ],
)
def test_an_outline_that_is_none_is_refused_with_its_place(tmp_path, coordinates):
    shape = '{"type": "Polygon", "coordinates": ' + coordinates + "}"
    one = '{"type": "Feature", "properties": {"n": "North"}, "geometry": ' + shape + "}"
    (tmp_path / "a.geojson").write_text('{"type": "FeatureCollection", "features": [' + one + "]}")
    with pytest.raises(QueryError, match="wrong outline in feature 1"):
        boundaries_of(REGION, "region", tmp_path / "a.geojson")


def test_nan_is_no_json_and_a_missing_file_and_a_folder_are_refused(tmp_path):
    file = quarters(tmp_path / "a.geojson")
    file.write_text(file.read_text().replace("12", "NaN"))
    for path, words in ((file, "is no GeoJSON"), (tmp_path / "no", "cannot be read"), (tmp_path, "cannot be read")):
        with pytest.raises(QueryError, match=words):
            boundaries_of(REGION, "region", path)


def test_a_file_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(boundaries, "MOST_BYTES", 2**10)
    (tmp_path / "a.geojson").write_text(" " * 2000)
    with pytest.raises(QueryError, match="is larger than 0 MB; simplify"):
        boundaries_of(REGION, "region", tmp_path / "a.geojson")


def test_a_column_without_areas_or_with_too_many_is_refused(tmp_path, monkeypatch):
    file = quarters(tmp_path / "a.geojson")
    with pytest.raises(QueryError, match="no column 'nope' that a map can show; columns that have areas: region, age"):
        boundaries_of(REGION, "nope", file)
    monkeypatch.setattr(boundaries, "MOST_AREAS", 3)
    with pytest.raises(QueryError, match="region has 4 values and a map shows at most 3; name a column of groups"):
        boundaries_of(REGION, "region", file)


def test_where_nothing_matches_the_properties_are_named(tmp_path):
    shapes = [feature(square(0), NAME="Nord", size=2.5) | {"id": 7}]
    with pytest.raises(QueryError) as refused:
        boundaries_of(REGION, "region", write(tmp_path / "a.geojson", shapes))
    assert "such as 'North'" in str(refused.value) and "these: NAME ('Nord'), id ('7')" in str(refused.value)
