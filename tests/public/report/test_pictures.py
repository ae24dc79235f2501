"""Columns stand beside the numbers of their axis, not under them; those that hold less by their nature are pale."""

from __future__ import annotations

import re
from datetime import date
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.answers.results import Estimate
from sfumato.public.report.distributions import cut, distribution_of
from sfumato.public.report.pictures import as_file, columns, line
from sfumato.public.report.report import attributes
from sfumato.schema import Schema

COUNTS = [Estimate(value, 3.0, value - 6, value + 6, 0.95, 3.0) for value in (90.0, 1200.0, 800.0, 30.0)]
LABELS = ["2024-W01", "2024-W02", "2024-W03", "2024-W04"]


def shares(drawn: str, name: str, key: str) -> list[float]:
    """Attribute of all elements of a name, where it is a share of the width."""
    return [float(found) for found in re.findall(rf'<{name}\b[^>]*? {key}="([0-9.]+)%"', drawn)]


def test_no_number_of_the_axis_lies_on_a_column():
    drawn = columns("x", "rows", LABELS, COUNTS)
    ends = [float(found) for found in re.findall(r'x="([0-9.]+)%" text-anchor="end" class="small"', drawn)]
    assert len(ends) == 4 and max(ends) < min(shares(drawn, "rect", "x"))  # 0, 500, 1,000, 1,500
    assert max(shares(drawn, "rect", "x")) < 100


def test_columns_that_are_shorter_by_their_nature_are_pale():
    drawn = columns("x", "rows", LABELS, COUNTS, pale={0, 3})
    assert drawn.count('opacity="0.4"') == 4  # the solid and the fading part of two
    assert 'opacity="0.4"' not in columns("x", "rows", LABELS, COUNTS)


@pytest.mark.parametrize(
    ("by", "most", "short"),
    [
        ("week", 40, {0: "5 of 7 days", 7: "2 of 7 days"}),
        ("day", 60, {}),
        ("day", 20, {16: "1 of 3 steps"}),
        ("day", 7, {}),  # 49 days in 7 groups of 7
    ],
)
def test_a_cut_knows_which_groups_are_shorter(by, most, short):
    days = {"type": "date", "lower": date(2024, 1, 3), "upper": date(2024, 2, 20), "by": by, "missing": "keep"}
    axis = sf.Schema(dataset="t", privacy_unit="row", attributes={"day": days}).domain["day"]
    assert cut(axis, most + axis.missing).cut_short == short


def test_a_file_of_a_picture_is_whole_and_says_what_it_shows():
    text = as_file(columns("x", "rows", LABELS, COUNTS), "Rows <by> week", "at epsilon 1", 500, 190)
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and root.get("width") == "532"
    assert "Rows <by> week" in "".join(root.itertext()) and "href" not in text


@pytest.mark.parametrize(("label", "many"), [("{}", 4), ("2024-W{:02}", 3), ("2024-01-{:02} to 2024", 2)])
def test_labels_below_columns_are_as_many_as_have_room_on_a_phone(label, many):
    """Of 247 pixels, which a card has there, a letter takes up to 7."""
    labels = [label.format(place) for place in range(27)]
    below = re.findall(r"<text x=[^>]* y=\"183\"[^>]*>([^<]*)<", columns("x", "rows", labels, COUNTS[1:2] * 27))
    assert len(below) == many and sum(7 * len(words) for words in below) < 247 * 0.86


def test_an_axis_of_grouped_days_begins_and_ends_with_a_day(tmp_path):
    days = {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31", "by": "day"}
    schema = {"dataset": "t", "privacy_unit": "row", "budget": {"epsilon": 9}, "attributes": {"day": days}}
    table = pa.table({"day": [date(2024, 2, 3)] * 50})
    release = sf.release(table, Schema.from_dict(schema), 1, ledger=tmp_path / "ledger", mechanism="hierarchical")
    axis = release.domain["day"]
    one = distribution_of(release, axis, 0.95)
    assert one is not None and not one.cut.whole
    drawn = attributes([one], [], 0.95)
    below = re.findall(r'class="small" text-anchor="(?:start|end)">([^<]*)<', drawn)
    assert below[0] == "2024-01-01" and below[-1] == "2024-12-31" and "to…" not in drawn


def test_a_line_over_time_breaks_where_a_period_is_missing_and_goes_below_zero():
    counts = [Estimate(value, 3.0, value - 6, value + 6, 0.95, 3.0) for value in (90.0, -20.0, 30.0, 40.0)]
    text = as_file(line("x", "change", LABELS, counts, [0, 1, 3, 5]), "Change", "at epsilon 1", 500, 190)
    root = ElementTree.fromstring(text)
    drawn = [found.get("points").split() for found in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(points) for points in drawn] == [2, 1, 1]  # two, and two that stand alone
    assert [points[0].split(",")[0] for points in drawn] == ["0.5", "3.5", "5.5"]
    below, zero = float(drawn[0][1].split(",")[1]), re.search(r'y="([0-9.]+)"[^>]*>0<', text)
    assert zero is not None and below > float(zero[1]) - 4
    unknown = Estimate(float("nan"), float("inf"), float("-inf"), float("inf"), 0.95, 3.0)
    assert line("x", "t", LABELS[:2], [unknown, counts[0]], [0, 1]).count("<circle") == 1
