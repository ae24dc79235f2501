"""The page in a real browser: what a person sees, clicks, hears and saves. Pictures of it are kept in screenshots/."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest
from accessibility import complaints
from drawn_areas import quarters
from exploring import serving
from waiting import PATIENCE

import sfumato as sf

PICTURES = Path(__file__).parents[3] / "screenshots"


class Visit:
    """A page that must not complain: every error of the console fails the test."""

    def __init__(self, browser, address, *, width=1180, height=860, theme="light", locale="en-GB", **state) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, locale=locale, accept_downloads=True
        )
        self.page, self.errors = self.context.new_page(), []
        self.page.set_default_timeout(1000 * PATIENCE)
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: self.errors.append("a dialog: " + dialog.message))
        self.page.goto(address + ("#" + quote(json.dumps(state)) if state else ""))
        self.page.wait_for_selector("html[data-ready]")

    def __enter__(self):
        return self.page

    def __exit__(self, *_) -> None:
        self.context.close()
        assert self.errors == []

    def picture(self, name: str) -> None:
        PICTURES.mkdir(exist_ok=True)
        self.page.wait_for_selector(".busy", state="detached")
        self.page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def fits(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_load_filter_slide_and_save(browser, address):
    visit = Visit(browser, address)
    with visit as page:
        page.wait_for_selector("#chart svg[role=img]")
        assert page.text_content("#title") == "Number of rows by age"
        assert page.text_content("#promise").startswith("epsilon 5")
        said = page.get_attribute("#chart svg", "aria-label")
        assert said.startswith(("Number of rows by age. Highest", "Number of rows by age. Among the highest"))
        page.click("#as-table summary")
        page.wait_for_selector("#table tbody td")
        page.select_option("#add-filter", "sex")
        page.uncheck(".ticks label:has-text('M') input")
        page.wait_for_selector("#title:has-text('sex F')")
        wide = _widths(page)
        visit.picture("bars")
        page.focus("#confidence")
        page.keyboard.press("Home")
        page.wait_for_selector("#figure[data-confidence='0.5']")
        assert page.text_content("#confidence-shown") == "50 %" and _widths(page) < wide
        page.check("input[value=guaranteed]", force=True)
        page.wait_for_selector("#sure-hint:has-text('every table')")
        page.select_option("#by-2", "region")
        page.check("input[value=heat]", force=True)
        page.wait_for_selector("#chart svg [data-mark=cell]")
        visit.picture("heat")
        for kind, begins in (("csv", b"age,region,n"), ("svg", b"<svg"), ("png", b"\x89PNG")):
            with page.expect_download() as saving:
                page.click(f"[data-save={kind}]")
            body = Path(saving.value.path()).read_bytes()
            assert body.startswith(begins) and saving.value.suggested_filename == f"survey-age-region.{kind}"
        page.click("#elsewhere summary")
        page.wait_for_selector("#copies pre")
        assert "curl -s 'http" in page.text_content("#copies") and "import sfumato as sf" in page.text_content(
            "#copies"
        )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_any_view(browser, address, theme):
    with Visit(browser, address, theme=theme) as page:
        page.wait_for_selector("#chart svg[role=img]")
        page.click("#as-table summary")
        page.select_option("#add-filter", "sex")
        for view in ("explore", "compare", "sql", "about"):
            page.click(f"#tab-{view}")
            page.wait_for_selector(f"#view-{view}", state="visible")
            page.wait_for_selector(
                {"compare": "#compare-chart svg", "sql": "#sql-table td"}.get(view, f"#view-{view} h2")
            )
            assert complaints(page) == [], view


@pytest.mark.parametrize(
    ("locale", "title", "shown", "confidence"),
    [
        ("de-AT", "Zahl der Zeilen nach age", "Erkunden", "99,9 %"),
        ("fr-CA", "Nombre de lignes par age", "Explorer", "99,9 %"),
        ("it-IT", "Number of rows by age", "Explore", "99.9 %"),
    ],
)
def test_it_speaks_the_readers_language(browser, address, locale, title, shown, confidence):
    visit = Visit(browser, address, locale=locale)
    with visit as page:
        page.wait_for_selector("#chart svg[role=img]")
        language = {"it": "en"}.get(locale[:2], locale[:2])
        assert page.get_attribute("html", "lang") == language == page.input_value("#language")
        assert page.text_content("#title") == title and page.text_content("#tab-explore") == shown
        page.focus("#confidence")
        page.keyboard.press("End")
        assert page.text_content("#confidence-shown") == confidence
        page.wait_for_selector("#figure[data-confidence='0.999']")
        if language != "en":
            assert complaints(page) == []
            visit.picture(f"bars-{language}")
            page.select_option("#language", "en")
            page.wait_for_selector("#title:has-text('Number of rows by age')")


def _widths(page) -> float:
    """Of the first interval that the table beside the chart shows."""
    low, high = page.text_content("#table tbody tr td:last-child").replace(",", "").split(" to ")
    return float(high.replace("−", "-")) - float(low.replace("−", "-"))


def test_sql_by_keyboard_alone(browser, address):
    visit = Visit(browser, address)
    with visit as page:
        page.focus("#tab-explore")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.id") == "tab-sql" and page.is_visible("#view-sql")
        page.wait_for_selector("#sql-table td")
        while page.evaluate("document.activeElement.id") != "sql":
            page.keyboard.press("Tab")
        page.keyboard.press("Control+a")
        page.keyboard.type("SELECT reg")
        assert page.get_attribute("#sql", "aria-activedescendant") == "suggestion-0" and page.is_visible("#suggestions")
        assert page.text_content("#suggestions [aria-selected=true] bdi") == "region"
        page.keyboard.press("Tab")
        page.keyboard.type(", COUNT(*) AS n FROM survey WHERE region = 'No")
        page.keyboard.press("Tab")
        page.keyboard.type(" GROUP BY region")
        page.keyboard.press("Escape")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("#sql-table tbody:has-text('North')")
        assert (
            page.input_value("#sql")
            == "SELECT region, COUNT(*) AS n FROM survey WHERE region = 'North' GROUP BY region"
        )
        visit.picture("sql")
        page.keyboard.press("Control+a")
        page.keyboard.type("DROP TABLE survey ")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("#sql-refused:not([hidden])")
        assert "DROP is not supported" in page.text_content("#sql-refused")
        visit.errors.clear()  # the browser itself notes that a request was refused


def test_two_groups_in_plain_words_and_what_is_promised(browser, address):
    visit = Visit(browser, address, tab="compare", release="survey")
    with visit as page:
        page.select_option("#compare select[aria-label=Attribute]", "sex")
        page.wait_for_selector("#statement:has-text('“F” is lower')")
        assert "more than the privacy noise can explain" in page.text_content("#statement")
        visit.picture("compare")
        page.click("#tab-about")
        assert "148 ×" in page.text_content("#view-about") and "What it cannot answer" in page.text_content(
            "#view-about"
        )
        visit.picture("about")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_in_both_themes(browser, address, theme):
    visit = Visit(browser, address, width=320, height=640, theme=theme)
    with visit as page:
        for tab in ("explore", "compare", "sql", "about"):
            page.click(f"#tab-{tab}")
            page.wait_for_timeout(150)
            assert fits(page), tab
            visit.picture(f"phone-{tab}-{theme}")
        paper = "getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(paper)
        for _ in range(2 if theme == "light" else 1):
            page.click("#theme")
        assert page.evaluate(paper) != before


def test_on_paper_there_are_answers_and_notes_and_no_controls(browser, address):
    """From the dark theme. What was chosen is said; a long table is not cut, and notes are not folded away."""
    with Visit(browser, address, theme="dark") as page:
        page.wait_for_selector("#chart svg[role=img]")
        page.emulate_media(media="print")
        ground = "getComputedStyle(document.body).backgroundColor"
        assert page.evaluate(ground) == "rgb(255, 255, 255)" and page.locator("#title").is_visible()
        for control in (".tabs", ".panel", ".tools", "#confidence", "#language", "#theme", ".foot"):
            assert not page.locator(control).first.is_visible(), control
        assert page.locator("#confidence-shown").is_visible() and page.locator("#release").is_visible()
        assert page.locator("#notes li").last.evaluate("(one) => one.checkVisibility({ contentVisibilityAuto: true })")
        page.emulate_media(media="screen")
        page.click("#tab-sql")
        page.fill("#sql", "SELECT age, sex, COUNT(*) AS n FROM survey GROUP BY age, sex")
        page.click("#ask button[type=submit]")
        hidden = "(one) => one.scrollHeight - one.clientHeight"
        page.locator("#sql-table tbody tr").last.wait_for()
        for _ in range(200):  # until the long answer is there instead of the first one
            if page.locator("#sql-table").evaluate(hidden) > 100:
                break
            page.wait_for_timeout(100)
        assert page.locator("#sql-table").evaluate(hidden) > 100  # long, and cut on a screen
        page.emulate_media(media="print")
        assert page.locator("#sql-table").evaluate(hidden) <= 1
        assert not page.locator("#examples").is_visible()


def test_names_and_labels_that_are_out_to_do_harm_are_shown_as_text(browser, address):
    visit = Visit(browser, address, release="harm", by=["<b>place</b>", 'say "hi"'], shape="heat")
    with visit as page:
        page.wait_for_selector("#chart svg [data-mark=cell]")
        assert "<b>place</b>" in page.text_content("#title")
        page.click("#as-table summary")
        page.wait_for_selector("#table tbody td")
        table = page.text_content("#table")
        assert "<script>document.title='owned'</script>" in table and "\\u202eevil\\u202c" in table
        assert "\u202e" not in page.text_content("body")
        assert page.locator("main img, main script, #view-explore b").count() == 0
        page.click("#tab-compare")
        page.wait_for_selector("#compare-chart svg")
        page.click("#tab-sql")
        page.wait_for_selector("#sql-table td")
        page.click("#tab-about")
        assert page.title() == "harm: Sfumato explorer"
        visit.picture("harm")


def test_the_csv_that_a_browser_saves_is_the_chart(browser, address):
    visit = Visit(browser, address, release="survey", by=["sex"])
    with visit as page:
        page.wait_for_selector("#chart svg")
        with page.expect_download() as saving:
            page.click("[data-save=csv]")
        rows = list(csv.DictReader(io.StringIO(Path(saving.value.path()).read_text())))
        page.click("#as-table summary")
        page.wait_for_selector("#table tbody td")
        shown = page.text_content("#table tbody tr td.number").replace(",", "")
        assert rows[0]["sex"] == "F" and abs(float(rows[0]["n"]) - float(shown)) <= 0.5


KINDS = ["taxi", "hire", "van", "bike", "ferry"]
RIDES = {
    "dataset": "rides",
    "privacy_unit": "row",
    "budget": {"epsilon": 100},
    "attributes": {
        "kind": {"type": "category", "values": KINDS},
        "hour": {"type": "integer", "lower": 0, "upper": 23},
        "day": {"type": "date", "lower": "2024-01-03", "upper": "2024-02-20", "by": "week"},
    },
}


@pytest.fixture(scope="module")
def rides(tmp_path_factory):
    """The address of a server with rides by week, of which taxis make nearly all."""
    folder, some, rows = tmp_path_factory.mktemp("rides"), np.random.default_rng(2), 40_000
    table = pa.table(
        {
            "kind": some.choice(KINDS, rows, p=[0.96, 0.02, 0.01, 0.007, 0.003]),
            "hour": some.integers(0, 24, rows),
            "day": np.datetime64("2024-01-03") + some.integers(0, 49, rows),
        }
    )
    made = sf.release(table, sf.Schema.from_dict(RIDES), 20, mechanism="cells", ledger=folder / "ledger")
    with serving([made.save(folder / "rides.sfumato")]) as found:
        yield found.split(maxsplit=1)[0]


def numbers(page) -> list[str]:
    return page.locator("#chart [aria-description=numbers] text").all_text_contents()


def test_dates_come_first_and_weeks_that_are_cut_are_hollow(browser, rides):
    visit = Visit(browser, rides)
    with visit as page:
        page.wait_for_selector("#chart [aria-description='cut short'] circle")
        assert page.text_content("#title") == "Number of rows by day"
        assert page.locator("#chart [aria-description='cut short'] circle").count() == 2
        assert "2024-W01 has 5 of 7 days, 2024-W08 has 2 of 7 days" in page.text_content("#key")
        visit.picture("weeks")


def test_bars_have_numbers_can_be_sorted_and_go_by_the_logarithm_where_one_dwarfs_the_rest(browser, rides):
    visit = Visit(browser, rides, release="rides", by=["kind"])
    with visit as page:
        page.wait_for_selector("#key:has-text('logarithmic')")
        visit.picture("logarithmic")
        listed = numbers(page)
        assert len(listed) == 5 and page.locator("#chart [data-mark=bar] rect").count() == 0
        page.select_option("#scale", "zero")
        page.wait_for_selector("#chart [data-mark=bar] rect")
        assert "logarithmic" not in page.text_content("#key")
        tops = {}
        for order in ("highest", "lowest"):
            page.select_option("#order", order)
            words = page.locator("#chart [aria-description=numbers] text")
            heights = [words.nth(place).bounding_box()["y"] for place in range(5)]
            tops[order] = numbers(page)[heights.index(min(heights))]
        values = [int(text.replace(",", "")) for text in listed]
        assert [int(tops[order].replace(",", "")) for order in tops] == [max(values), min(values)]


def test_an_axis_that_does_not_begin_at_nothing_says_so(browser, rides):
    with Visit(browser, rides, release="rides", by=["hour"], shape="lines") as page:
        page.wait_for_selector("#chart [aria-label=torn]")
        assert "does not begin at 0" in page.text_content("#key")
        page.select_option("#scale", "zero")
        page.wait_for_selector("#chart [aria-label=torn]", state="detached")
        assert "does not begin at 0" not in page.text_content("#key")


def test_a_heat_map_has_a_legend_with_numbers_also_where_it_is_saved(browser, rides):
    with Visit(browser, rides, release="rides", by=["hour", "kind"], shape="heat") as page:
        page.wait_for_selector("#legend canvas")
        texts = page.locator("#legend .along span").all_text_contents()
        shown = [float(text.replace(",", "")) for text in texts]
        assert len(shown) == 5 and shown == sorted(shown) and shown[-1] > 1000
        with page.expect_download() as saving:
            page.click("[data-save=svg]")
        saved = Path(saving.value.path()).read_text()
        assert all(f">{text}</text>" in saved for text in texts)


def test_a_legend_stays_in_view_beside_a_chart_that_is_longer_than_the_window(browser, address):
    with Visit(browser, address, height=260, width=420, release="survey", by=["age", "sex"], shape="bars") as page:
        page.wait_for_selector("#legend i.c1")
        assert page.locator("#chart svg").bounding_box()["height"] > 300
        page.evaluate("window.scrollBy(0, document.querySelector('#chart svg').getBoundingClientRect().bottom - 150)")
        box = page.locator("#legend").bounding_box()
        assert page.locator("#chart svg").bounding_box()["y"] < -100 and 0 <= box["y"] < 10


def test_an_address_with_a_release_that_is_not_there_says_so(browser, rides):
    with Visit(browser, rides, release="no such", by=["kind"]) as page:
        assert "There is no release “no such” here" in page.text_content("#no-release:not([hidden])")
        assert page.text_content("#title") == "Number of rows by day"
    with Visit(browser, rides, release="rides") as page:
        assert page.is_hidden("#no-release")


def test_one_note_is_shown_and_the_others_are_folded_away(browser, address):
    with Visit(browser, address, release="survey", tab="sql") as page:
        page.fill("#sql", "SELECT sex, COUNT(*) AS n FROM survey WHERE paid < 100 GROUP BY sex")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("#sql-notes p:has-text('cuts the bin')")
        assert page.locator("#sql-notes > p").count() == 1
        assert not page.is_visible("#sql-notes li")
        page.click("#sql-notes summary")
        assert "Counted: " in page.text_content("#sql-notes li")


def test_columns_have_the_names_and_units_that_the_schema_gives_them(browser, tmp_path):
    schema = {
        "dataset": "visits",
        "privacy_unit": "row",
        "budget": {"epsilon": 9},
        "attributes": {
            "agevis": {"type": "integer", "lower": 0, "upper": 3, "label": "Age <at> visit", "unit": "years"}
        },
        "measures": {"cost": {"lower": 0, "upper": 9, "label": "Cost", "unit": "EUR", "description": "As paid."}},
    }
    table = pa.table({"agevis": [0, 1, 2, 3] * 500, "cost": [1.0, 2.0, 3.0, 4.0] * 500})
    made = sf.release(table, sf.Schema.from_dict(schema), 3, ledger=tmp_path / "ledger")
    path = made.save(tmp_path / "visits.sfumato")
    with serving([path]) as found, Visit(browser, found.split(maxsplit=1)[0]) as page:
        page.wait_for_selector("#title:has-text('Number of rows by Age <at> visit (years)')")
        page.select_option("#amount", label="Average of Cost (EUR)")
        page.wait_for_selector("#title:has-text('Average Cost (EUR) by Age <at> visit (years)')")
        page.click("#tab-about")
        assert "As paid." in page.text_content("#view-about")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_column_with_boundaries_is_a_map(browser, releases, tmp_path, theme):
    file = quarters(tmp_path / "a.geojson", ["North", "South", "East", "Sea"])
    with serving([releases[0]], "--map", f"region={file}") as found:
        visit = Visit(browser, found.split(maxsplit=1)[0], theme=theme, release="survey", by=["region"])
        with visit as page:
            page.wait_for_selector("#chart [data-mark=bar]")
            page.check("input[value=map]", force=True)
            page.wait_for_selector("#chart [data-mark=geo] path")
            assert page.locator("#chart [data-mark=geo] path").count() == 3
            assert "Not on the map: West." in page.text_content("#key")
            box = page.locator("#chart [data-mark=geo] path").first.bounding_box()
            page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            page.wait_for_function("document.querySelector('#chart svg').textContent.includes('North')")
            assert len(page.locator("#legend .along span").all_text_contents()) == 5
            page.select_option("#add-filter", "region")
            page.uncheck(".ticks label:has-text('South') input")
            page.wait_for_selector("#key:has-text('only outlined')")
            with page.expect_download() as saving:
                page.click("[data-save=svg]")
            assert Path(saving.value.path()).read_text().count("<path") >= 3
            assert complaints(page) == []
            visit.picture(f"map-{theme}")
            page.select_option("#by-1", "sex")
            page.wait_for_selector("#title:has-text('by sex')")
            assert page.is_disabled("input[value=map]") and page.is_checked("input[value=bars]")
        with Visit(
            browser, found.split(maxsplit=1)[0], width=320, theme=theme, release="survey", by=["region"], shape="map"
        ) as page:
            page.wait_for_selector("#chart [data-mark=geo] path")
            assert fits(page)


def test_without_boundaries_no_map_is_offered(browser, address):
    with Visit(browser, address, release="survey", by=["region"], shape="map") as page:
        page.wait_for_selector("#chart [data-mark=bar]")
        assert page.is_hidden("#shape-map") and page.is_checked("input[value=bars]")
