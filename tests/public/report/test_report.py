"""The whole page: well-formed, self-contained, harmless, and there for releases of every kind."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest
from curators import curator_of
from months import MONTHS, months_of

import sfumato as sf
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.models import SPECIAL, find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.file.series import append_part
from sfumato.releases.release import Release

LABELS = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\u202edesrever", "تل أبيب", "a\tb", "&amp;"]
VOID = {"meta", "br", "hr"}


class Outline(HTMLParser):
    """What stands on a page: elements that are closed, ids, links, texts; and whatever could act."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    schema = {
        "dataset": "census",
        "privacy_unit": {"column": "</b>who", "contributions": 1},
        "budget": {"epsilon": 9},
        "attributes": {
            "<b>town</b>": {"type": "category", "values": LABELS},
            "age": {"type": "integer", "lower": 0, "upper": 299, "missing": "keep"},
            "ill": {"type": "boolean"},
        },
        "measures": {"<i>pay": {"lower": 0, "upper": 10}},
    }
    rng = np.random.default_rng(1)
    place = rng.integers(0, 6, 3000)
    rows = pa.table(
        {
            "</b>who": np.arange(3000),
            "<b>town</b>": [LABELS[one] for one in place],
            "age": place * 40 + rng.integers(0, 50, 3000),
            "ill": rng.random(3000) < place / 6,
            "<i>pay": rng.random(3000) * 10,
        }
    )
    made = sf.release(rows, sf.Schema.from_dict(schema), 2, mechanism="margins", ledger=folder / "ledger")
    return sf.report(made.save(folder / "it's <x> r.sfumato"))


@pytest.mark.full
def test_it_is_one_well_formed_page_that_asks_nobody_for_anything(hostile):
    found = Outline(hostile)
    assert found.open == [] and len(set(found.ids)) == len(found.ids)
    assert not {"script", "link", "iframe", "img", "object", "embed", "form", "base"} & set(found.tags)
    assert found.tags.count("style") == 1
    for name, value in found.attributes:
        assert not name.startswith("on") and name not in ("style", "src", "srcset", "action")
        assert name != "href" or value.startswith("#")
        assert "javascript:" not in value
    style = re.search(r"<style>(.*?)</style>", hostile, re.S).group(1)
    assert "url(" not in style and "@import" not in style and "http" not in style
    known = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [value for name, value in found.attributes if name == "content" and "default-src" in value]
    assert policy == f"default-src 'none'; style-src 'sha256-{known}'; base-uri 'none'; form-action 'none'"
    assert {value[1:] for name, value in found.attributes if name == "href"} <= set(found.ids)


def test_labels_are_text_and_are_all_there(hostile):
    found = Outline(hostile)
    said = "\n".join(found.texts)
    for label in (
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        r"\u202edesrever",
        "تل أبيب",
        r"a\x09b",
    ):
        assert label in said
    assert "<b>town</b>" in said and "&amp;" in said and "\u202e" not in hostile


def test_every_picture_has_a_title_a_description_and_a_table(hostile):
    found = Outline(hostile)
    titles = {one for one in found.ids if one.endswith("-title")}
    assert {one.removesuffix("-title") + "-desc" for one in titles} <= set(found.ids) and len(titles) >= 7
    labelled = [value.split() for name, value in found.attributes if name == "aria-labelledby"]
    assert {one for pair in labelled for one in pair} <= set(found.ids)
    assert found.tags.count("article") == found.tags.count("details") - 1 >= 4  # each card, and the certificate


def test_it_says_what_is_promised_left_out_and_how_to_ask(hostile):
    said = " ".join(" ".join(Outline(hostile).texts).split())
    for words in (
        "right at most about 88 times of 100",
        "For families",
        "99.97 %",
        "Left out by rule",
        "What it cannot tell",
    ):
        assert words in said
    assert "at most 1 row of each </b>who is counted" in said and "drawn in 101 groups" in said
    assert "SELECT COUNT(*)" in said and "import sfumato as sf" in said and "discrete Laplace" in said


@pytest.mark.parametrize("name", [*SPECIAL, "sparse-cells", "laplace"])
def test_there_is_a_page_for_releases_of_every_kind(name, tmp_path):
    mechanism = find_mechanism(name)
    schema = mechanism.lab.example(1) if mechanism.lab.example else find_mechanism("fourier").lab.example(1)
    mechanism = mechanism.with_options(mechanism.lab.tried_with)
    shape, budget = schema.domain.shape, Budget.pure(2)
    counts = (20 + np.arange(schema.domain.size) * 7 % 23).reshape(shape)
    sums = dict.fromkeys(schema.measures, 0 * counts)
    curator = curator_of(schema, counts, epsilon=2, sums=sums, entropy=SystemEntropy())
    content = mechanism.run(curator, schema, budget, None)
    release = Release(content, name, describe_guarantee(budget, schema), private=True, options=mechanism.chosen)
    found = Outline(sf.report(release.save(tmp_path / "r.sfumato")))
    assert found.open == [] and {"promise", "trust", "limits", "ask", "certificate"} <= set(found.ids)
    assert "attributes" in found.ids or "findings" in found.ids


def test_a_series_is_drawn_as_a_line_and_a_missed_month_is_no_month_without_visits(tmp_path):
    path = tmp_path / "visits.sfumato"
    for month, one in zip(MONTHS, months_of("cells"), strict=True):
        append_part(path, replace(one, published=None, private=True).save(tmp_path / month), month)
    page = sf.report(path)
    assert "Not known from this release" not in page and "3 periods, without 2026-03" in page
    (card,) = re.findall(r"<article.*?</article>", page, re.S)[:1]
    assert card.count("<polyline") == 2 and card.count("<circle") == 3 and ">2026-03<" not in card
    assert "Over time, a line runs in the band" in page
    words = re.sub(r"<[^>]*>", "", page)
    assert "rows (3 periods, 2026-01 to 2026-04). The table of each period was measured once" in words
    assert "any one row in a month" in words


def test_columns_have_the_names_and_units_that_the_schema_gives_them(tmp_path):
    rng = np.random.default_rng(3)
    age = rng.integers(0, 4, 4000)
    told = {"label": "Age at <visit>", "unit": "years", "description": "On the day itself."}
    schema = {
        "dataset": "visits",
        "privacy_unit": "row",
        "budget": {"epsilon": 9},
        "attributes": {
            "agevis": {"type": "integer", "lower": 0, "upper": 3, **told},
            "ill": {"type": "boolean", "label": "Was ill"},
        },
    }
    table = pa.table({"agevis": age, "ill": age > 1})
    made = sf.release(table, sf.Schema.from_dict(schema), 3, ledger=tmp_path / "ledger")
    page = sf.report(made.save(tmp_path / "visits.sfumato"))
    assert "<h3><bdi>Age at &lt;visit&gt;</bdi></h3>" in page and "Rows by Age at &lt;visit&gt;" in page
    assert "whole numbers in 4 steps, in years" in page and "On the day itself." in page
    assert "Column <code><bdi>agevis</bdi></code>." in page
    assert re.search(r"<h3><bdi>(Was ill|Age at &lt;visit&gt;)</bdi> and <bdi>", page)
    assert "<bdi>agevis</bdi></h3>" not in page
