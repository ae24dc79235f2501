"""Plots and the page: well-formed, complete, and nothing outside the frame."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.lab.reproduce.exhibits import HEIGHT, WIDTH, Exhibit, Line, Picture, Plot, Study, draw, draw_grids, write

SVG = "{http://www.w3.org/2000/svg}"


def points(svg):
    curves = ElementTree.fromstring(svg).iter(SVG + "polyline")
    return [[tuple(map(float, point.split(","))) for point in c.get("points").split()] for c in curves]


@pytest.mark.parametrize("log", [False, True])
def test_a_curve_lies_inside_and_rises_where_its_values_do(log):
    lines = [Line("first & last", [0.1, 1, 10], [1, 5, 200], bars=[0.5, 1, 2]), Line("flat", [0.1, 10], [3, 3])]
    svg = draw(Plot("a < b", "x", "y", lines, log_x=log, log_y=log, bound=(2.0, "here")))
    rising, flat = points(svg)
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in rising + flat)
    assert rising[0][1] > rising[1][1] > rising[2][1] and rising[0][0] < rising[1][0] < rising[2][0]
    assert flat[0][1] == flat[1][1]
    words = [text.text for text in ElementTree.fromstring(svg).iter(SVG + "text")]
    assert {"a < b", "x", "y", "first & last", "flat", "here"} <= set(words)


def test_equal_steps_on_a_logarithmic_scale_are_equal_ratios():
    ((a, b, c),) = points(draw(Plot("t", "x", "y", [Line("l", [1, 10, 100], [1, 10, 100])], log_x=True, log_y=True)))
    assert b[0] - a[0] == pytest.approx(c[0] - b[0], abs=0.2) and a[1] - b[1] == pytest.approx(b[1] - c[1], abs=0.2)


def test_what_a_logarithmic_scale_cannot_show_is_left_out():
    ((*shown,),) = points(draw(Plot("t", "x", "y", [Line("l", [1, 2, 3], [0, 10, float("nan")])], log_y=True)))
    assert len(shown) == 1


def test_many_names_get_several_rows():
    svg = draw(Plot("t", "x", "y", [Line(f"a rather long name {n}", [0, 1], [n, n]) for n in range(7)]))
    legends = [t for t in ElementTree.fromstring(svg).iter(SVG + "text") if "rather" in t.text]
    assert len({t.get("y") for t in legends}) > 1 and all(float(t.get("x")) < WIDTH - 100 for t in legends)


def test_grids_are_pictures_inside_the_picture():
    svg = draw_grids("two", [("a", np.eye(4)), ("b", np.zeros((4, 4)))])
    images = list(ElementTree.fromstring(svg).iter(SVG + "image"))
    assert len(images) == 2 and all(image.get("href").startswith("data:image/png;base64,") for image in images)


def test_the_page_holds_everything_and_needs_no_network(tmp_path):
    picture = Picture("figure-1", draw(Plot("t", "x", "y", [Line("l", [0, 1], [0, 1])])))
    exhibit = Exhibit("Table 1", "Title <b>", "Why & how.", ("", "paper"), (("row", "1"),), pictures=(picture,))
    page = write([Study("paper", "The paper", (exhibit,))], tmp_path / "new" / "folder")
    text = page.read_text()
    assert "Title &lt;b&gt;" in text and "Why &amp; how." in text and "<svg" in text
    assert "src=" not in text and "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert (page.parent / "paper-figure-1.svg").read_text() == picture.svg


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path):
    Path(tmp_path / "file").write_text("")
    with pytest.raises(SfumatoError, match="cannot write into"):
        write([], tmp_path / "file" / "folder")
