"""Maps of the report: every area once, shaded by its count, hatched where noise has drowned it, named as text."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from drawn_areas import feature, polygon, quarters, rectangle, write

import sfumato as sf
from sfumato.answers.results import Estimate
from sfumato.public.boundaries import boundaries_of
from sfumato.public.report.maps import Chart, choropleth, lost

NAMES = ["North", "<b>South</b>", "East", "West", "Sea"]
SCHEMA = {
    "dataset": "survey",
    "privacy_unit": "row",
    "budget": {"epsilon": 100},
    "attributes": {
        "region": {
            "type": "category",
            "values": NAMES,
            "groups": {"half": {"upper": NAMES[:2], "lower": NAMES[2:]}},
            "label": "Place <of> work",
        },
        "street": {"type": "category", "values": [f"s{n}" for n in range(150)]},
    },
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder, some = tmp_path_factory.mktemp("maps"), np.random.default_rng(2)
    rows = pa.table(
        {
            "region": some.choice(NAMES, 4000, p=[0.6, 0.2, 0.199, 0.001, 0]),
            "street": [f"s{n % 150}" for n in range(4000)],
        }
    )
    schema = sf.Schema.from_dict(SCHEMA)
    return sf.release(rows, schema, 1, mechanism="margins", ledger=folder / "ledger").save(folder / "r.sfumato")


@pytest.fixture(scope="module")
def regions(tmp_path_factory):
    return quarters(tmp_path_factory.mktemp("files") / "a.geojson", NAMES[:4])


def paths(page: str) -> list[tuple[str, str]]:
    """Attributes and title of every area."""
    return re.findall(r'<path class="(area[^>]*)><title>([^<]*)</title></path>', page)


def test_every_area_is_there_once_and_the_hatched_ones_are_those_that_noise_has_drowned(made, regions):
    page = sf.report(made, maps={"region": regions})
    (card,) = [one for one in re.findall(r"<article.*?</article>", page, re.S) if "<path" in one]
    counts = {row[0]: row[1] for row in sf.open(made).marginal("region").rows}
    shown = {title.rpartition(": ")[0]: attributes for attributes, title in paths(card)}
    assert list(shown) == ["North", "&lt;b&gt;South&lt;/b&gt;", "East", "West"] and "<b>South" not in page
    for name, attributes in zip(NAMES, shown.values(), strict=False):
        assert ("url(#a" in attributes) == lost(counts[name])
        assert f"{counts[name].value:,.0f} ± " in page
    assert "url(#a" in shown["West"] and 'fill-opacity="0.' in shown["North"]
    assert "1 value of region without boundaries: Sea." in card and "lost in the noise" in card
    assert "Map of rows by Place &lt;of&gt; work" in card and " rows</span>" in card
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(set(ids)) == len(ids) and "All areas" not in card
    assert "On a map the colour is stronger" in page and "On a map" not in sf.report(made)


def test_a_column_of_groups_has_a_card_of_its_own_and_a_long_attribute_all_its_areas(made, tmp_path):
    halves = [feature(polygon(rectangle(0, n, 2, n + 1)), at=one) for n, one in enumerate(["upper", "lower"])]
    streets = [feature(polygon(rectangle(n, 0, n + 1, 1)), at=f"s{n}") for n in range(150)]
    files = {"half": write(tmp_path / "h.geojson", halves), "street": write(tmp_path / "s.geojson", streets)}
    page = sf.report(made, maps=files)
    cards = {re.search("<bdi>(.*?)</bdi>", one)[1]: one for one in re.findall(r"<article.*?</article>", page, re.S)}
    assert "2 groups of region" in cards["half"] and len(paths(cards["half"])) == 2
    assert "All 2 numbers are known to within 50" in cards["half"] and "<td><bdi>upper</bdi></td>" in cards["half"]
    assert len(paths(cards["street"])) == 150 and "All areas" in cards["street"]
    assert "<td><bdi>s149</bdi></td>" in cards["street"]


def test_a_map_that_cannot_be_drawn_is_refused(made, regions, tmp_path):
    with pytest.raises(sf.SfumatoError, match="no column 'nope' that a map can show"):
        sf.report(made, maps={"nope": regions})
    with pytest.raises(sf.SfumatoError, match="cannot be read"):
        sf.report(made, maps={"region": tmp_path / "none"})


def chart(tmp_path, values: dict[str, tuple[float, float]]) -> Chart:
    """Areas in a row with such counts and errors."""
    attributes = {"a": {"type": "category", "values": ["u", *values]}}
    schema = sf.Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})
    shapes = [feature(polygon(rectangle(n, 0, n + 1, 1)), a=one) for n, one in enumerate(["u", *values])]
    counts = {
        label: Estimate(value, error, value - 2 * error, value + 2 * error, 0.95, error)
        for label, (value, error) in values.items()
    }
    return Chart(boundaries_of(schema, "a", write(tmp_path / "a.geojson", shapes)), counts)


def test_shades_follow_the_counts_and_an_area_without_a_number_is_outlined(tmp_path):
    values = {"v": (100, 1), "w": (50, 1), "x": (10, 30), "y": (-3, 1), "z": (float("nan"), 1)}
    drawn = chart(tmp_path, values)
    assert drawn.scale().marks == (0, 50, 100) and not drawn.scale().logarithmic
    found = {title[0]: attributes for attributes, title in paths(choropleth("m", "A map", drawn))}
    assert 'fill-opacity="0.94"' in found["v"] and 'fill-opacity="0.5"' in found["w"]
    assert "url(#m-hatch)" in found["x"] and "url(#m-hatch)" in found["y"]
    assert found["u"].startswith('area blank"') and found["z"].startswith('area blank"')
    assert "fill" not in found["u"].replace("fill-rule", "") and "no number" in choropleth("m", "A map", drawn)


def test_the_scale_is_logarithmic_where_one_area_dwarfs_the_others(tmp_path):
    values = {"v": (1e6, 1), "w": (300, 1), "x": (200, 1), "y": (20, 1)}
    scale = chart(tmp_path, values).scale()
    assert scale.logarithmic and scale.marks == (10, 100, 1e3, 1e4, 1e5, 1e6)
    assert "equal steps are equal factors" in choropleth("m", "A map", chart(tmp_path, values))
    nothing = chart(tmp_path, {"v": (0, 5), "w": (-2, 5)})
    assert nothing.scale().marks[0] == 0 and "hatch" in choropleth("m", "A map", nothing)


def test_north_is_up(tmp_path):
    """The lower end of the northern of two areas is the middle of the picture."""
    attributes = {"a": {"type": "category", "values": ["n", "s"]}}
    schema = sf.Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})
    shapes = [feature(polygon(rectangle(0, y, 1, y + 1)), a=one) for one, y in (("n", 50), ("s", 49))]
    found = boundaries_of(schema, "a", write(tmp_path / "a.geojson", shapes))
    drawn = choropleth("m", "A map", Chart(found, {}))
    lowest = {}
    for top, steps, name in re.findall(r'd="M\d+ (\d+)l([-\d ]+)z"[^>]*><title>(\w):', drawn):
        lowest[name] = max(int(top) + down for down in np.cumsum([0, *map(int, steps.split()[1::2])]))
    assert lowest == {"n": 1000, "s": 2000}
