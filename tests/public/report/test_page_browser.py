"""The page in a real browser, from disk: in both themes, on a phone, on paper. Pictures are kept in screenshots/."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from accessibility import complaints
from drawn_areas import quarters
from exploring import HOSTILE

import sfumato as sf

PICTURES = Path(__file__).parents[3] / "screenshots"
SCHEMA = {
    "dataset": "household_survey",
    "privacy_unit": "row",
    "budget": {"epsilon": 9},
    "attributes": {
        "age": {"type": "integer", "lower": 0, "upper": 99, "width": 5},
        "work": {"type": "category", "values": ["in education", "employed", "self-employed", "seeking", "retired"]},
        "region": {"type": "category", "values": ["North", "South", "East", "West", "Islands"]},
        "rooms": {"type": "integer", "lower": 1, "upper": 8},
        "said <b>about</b> it": {"type": "category", "values": HOSTILE},
    },
    "measures": {"rent": {"lower": 0, "upper": 4000}},
}


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    """The report of a made-up survey in which age goes with work and rooms."""
    folder, some, rows = tmp_path_factory.mktemp("report"), np.random.default_rng(8), 20_000
    age = np.clip(some.gamma(5, 8.5, rows), 0, 99).astype(int)
    works = np.where(age < 20, 0, np.where(age > 64, 4, some.choice([1, 2, 3, 0], rows, p=[0.72, 0.14, 0.08, 0.06])))
    attributes = SCHEMA["attributes"]
    table = pa.table(
        {
            "age": age,
            "work": [attributes["work"]["values"][place] for place in works],
            "region": some.choice(attributes["region"]["values"], rows, p=[0.4, 0.3, 0.2, 0.09, 0.01]),
            "rooms": np.clip(some.poisson(1.5 + age / 30), 1, 8),
            "said <b>about</b> it": some.choice(HOSTILE, rows),
            "rent": some.gamma(4, 200, rows),
        }
    )
    made = sf.release(table, sf.Schema.from_dict(SCHEMA), epsilon=1, mechanism="margins", ledger=folder / "ledger")
    maps = {"region": quarters(folder / "regions.geojson", ["North", "South", "East", "Islands"])}
    saved = made.save(folder / "survey.sfumato")
    for language in ("en", "de", "fr"):
        page = sf.report(saved, maps=maps, language=language)
        (folder / f"survey-{language}.html").write_text(page, encoding="utf-8")
    return folder / "survey-en.html"


class Reading:
    """The page as somebody opens it from disk without a network: nothing may be asked for, nothing may complain."""

    def __init__(self, browser, path: Path, width: int = 1180, theme: str = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=theme, offline=True, reduced_motion="reduce"
        )
        self.page, self.troubles, self.asked = self.context.new_page(), [], []
        self.page.on("console", lambda said: self.troubles.append(said.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: self.troubles.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def __enter__(self):
        return self.page

    def __exit__(self, *_) -> None:
        self.context.close()
        assert self.troubles == [] and len(self.asked) == 1  # the file itself


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1180, 320])
def test_it_opens_from_disk_and_fits(browser, page_file, theme, width):
    with Reading(browser, page_file, width, theme) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        lightness = sum(map(int, re.findall(r"\d+", paper)[:3])) / 3
        assert (lightness < 60) if theme == "dark" else (lightness > 200)
        assert page.locator("svg.picture").count() >= 5
        PICTURES.mkdir(exist_ok=True)
        page.screenshot(path=PICTURES / f"report-{'phone-' * (width < 400)}{theme}.png", full_page=True)


@pytest.mark.parametrize(("theme", "language"), [("light", "en"), ("dark", "en"), ("light", "de"), ("dark", "fr")])
def test_axe_finds_nothing(browser, page_file, theme, language):
    """With what is folded away unfolded."""
    with Reading(browser, page_file.with_stem(f"survey-{language}"), theme=theme) as page:
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert complaints(page) == []


def test_labels_that_are_out_to_do_harm_are_text(browser, page_file):
    with Reading(browser, page_file) as page:
        shown = page.text_content("body")
        assert page.title() == "household_survey: a differentially private release"
        for label in HOSTILE:
            if "\u202e" not in label:
                assert label in shown
        assert "\\u202eevil\\u202c" in shown and "\u202e" not in shown
        assert page.locator("main img, main script, h3 b").count() == 0


@pytest.mark.parametrize("language", ["de", "fr"])
def test_other_languages_fit_a_phone(browser, page_file, language):
    with Reading(browser, page_file.with_stem(f"survey-{language}"), 320) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert page.locator("html").get_attribute("lang") == language
        page.screenshot(path=PICTURES / f"report-phone-{language}.png", full_page=True)


def test_it_prints_on_a_few_pages(browser, page_file):
    with Reading(browser, page_file, theme="dark") as page:
        printed = page.pdf(path=PICTURES / "report.pdf", format="A4")
        pages = len(re.findall(rb"/Type\s*/Page\b", printed))
        assert 4 <= pages <= 12
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") in (
            "rgb(255, 255, 255)",
            "rgba(0, 0, 0, 0)",
        )
