"""Reports in other languages: every message, real releases with nothing left in English, names as they are."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from datetime import date, timedelta
from importlib.resources import files

import numpy as np
import pyarrow as pa
import pytest
from curators import curator_of
from months import MONTHS, months_of

import sfumato as sf
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.models import MECHANISMS, find_mechanism
from sfumato.public.report import distributions, report, sections
from sfumato.public.report.tongue import figure, figures, read_messages, retold, speaking
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.file.series import append_part
from sfumato.releases.release import Release

LANGUAGES = ("de", "fr")
LISTED = {  # from lists that the code passes on, or that answers and the dates of an axis have
    *(text for grade in distributions.GRADES for text in grade),
    *("{0} values", "{0} groups of values", distributions.OTHERS),
    *report.KINDS.values(),
    *("strong", "clear", "weak", "faint"),
    *(*sections.PARTS.values(), *sections.TOGETHER.values(), sections.NOT_PRIVATE, sections.WEAK),
    *("{0}-{1}-{2}T{3}", "{0}-{1}-{2}", "{0}-{1}", "{0}-W{1}", "{0}-Q{1}"),
    *("and", "or", "unbounded", "anything", "guaranteed", "± std. error"),
}


def said() -> set[str]:
    """All texts that the code of the report puts into the language of the page."""
    found = set(LISTED)
    for one in files("sfumato.public.report").iterdir():
        for node in ast.walk(ast.parse(one.read_text(encoding="utf-8"))) if one.name.endswith(".py") else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("t", "said", "many"):
                texts = node.args[1:3] if node.func.id == "many" else node.args[:1]
            elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "words":
                texts = [node.value]
            else:
                continue
            found |= {text.value for text in texts if isinstance(text, ast.Constant)}
    return found


def places(text: str) -> list[str]:
    return sorted(set(re.findall(r"\{(\d)[#!]?\}", text)))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_message_is_in_every_language_and_none_is_left_over(language):
    english, own = said(), read_messages(language)["page"]
    assert len(english) > 150
    assert sorted(english - own.keys()) == [] and sorted(own.keys() - english) == []
    assert [text for text, message in own.items() if not message.strip() or places(text) != places(message)] == []


def test_sentences_from_elsewhere_have_the_same_forms_in_every_language():
    german, french = (read_messages(language)["told"] for language in LANGUAGES)
    assert list(german) == list(french)
    assert [form for form in german if not places(form) == places(german[form]) == places(french[form])] == []


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    """A release with attributes of every kind; two have names that are words of English sentences."""
    rng, rows, folder = np.random.default_rng(8), 4000, tmp_path_factory.mktemp("languages")
    attributes = {
        "age": {"type": "integer", "lower": 0, "upper": 99, "width": 5},
        "none or all": {"type": "category", "values": ["rows", "0 to 9"], "missing": "keep"},
        "rows": {"type": "boolean"},
        "height": {"type": "number", "lower": 1.2, "upper": 2.2, "bins": 10},
        "day": {"type": "date", "lower": "2024-01-03", "upper": "2024-03-20", "by": "week"},
    }
    schema = {
        "dataset": "survey",
        "privacy_unit": {"column": "person", "contributions": 2},
        "budget": {"epsilon": 9},
        "attributes": attributes,
        "measures": {"pay": {"lower": 0, "upper": 4000}},
    }
    kind = rng.integers(0, 2, rows)
    table = pa.table(
        {
            "person": np.arange(rows) // 2,
            "age": rng.integers(0, 50, rows) + kind * 40,
            "none or all": [["rows", "0 to 9"][one] for one in kind],
            "rows": kind == 1,
            "height": rng.normal(1.7, 0.1, rows),
            "day": [date(2024, 1, 3) + timedelta(days=int(one)) for one in rng.integers(0, 70, rows)],
            "pay": rng.random(rows) * 4000,
        }
    )
    made = sf.release(table, schema, 4, mechanism="margins", ledger=folder / "ledger")
    return made.save(folder / "survey.sfumato")


def sentences(page: str) -> set[str]:
    """Texts of a page outside of names and of what is to be pasted."""
    page = re.sub(r"<(style|pre|code|bdi)\b.*?</\1>", "\0", page, flags=re.S)
    return {" ".join(text.split()) for text in re.split(r"<[^>]*>|\0", page)}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_sentence_stays_english(survey, language):
    page, english = sf.report(survey, language=language), sf.report(survey)
    assert f'<html lang="{language}" dir="ltr">' in page and '<html lang="en" dir="ltr">' in english
    assert 'lang="en"' not in page
    both = sentences(page) & sentences(english)
    assert [text for text in both - {"0 to 9"} if re.search(r"\b(the|of|is|are|with|to|interval)\b", text)] == []
    assert page.count("<svg") == english.count("<svg") and page.count("<td") == english.count("<td")


def test_numbers_and_dates_are_those_of_the_language_and_names_are_nobodys(survey):
    german, french = (sf.report(survey, language=language) for language in LANGUAGES)
    assert "KW 01/2024" in german and "sem. 01/2024" in french and "2024-W01" not in german
    assert "day von 03.01.2024 bis 20.03.2024" in german and "day de 03/01/2024 à 20/03/2024" in french
    assert re.search(r"<b>[34]\.\d{3} ± \d+</b> Zeilen", german) and re.search(r"<b>[34]\u202f\d{3} ± \d+</b>", french)
    assert "[1,2; 1,3)" in german and "[1,2\u00a0; 1,3[" in french
    assert "0 bis 4" in german and "0 à 4" in french
    for page in (german, french):
        for name in ("none or all", "rows", "0 to 9"):
            assert f"<h3><bdi>{name}</bdi>" in page or f"<td><bdi>{name}</bdi>" in page
    assert "bleiben weg: none or all" in german


@pytest.mark.parametrize("name", [*MECHANISMS, "fourier"])
def test_reports_on_every_mechanism_are_whole_and_say_where_they_are_english(name, tmp_path):
    mechanism = find_mechanism(name)
    schema = mechanism.lab.example(1) if mechanism.lab.example else find_mechanism("fourier").lab.example(1)
    mechanism = mechanism.with_options(mechanism.lab.tried_with)
    counts = (20 + np.arange(schema.domain.size) * 7 % 23).reshape(schema.domain.shape)
    sums = dict.fromkeys(schema.measures, 0 * counts)
    curator, budget = curator_of(schema, counts, epsilon=2, sums=sums, entropy=SystemEntropy()), Budget.pure(2)
    content = mechanism.run(curator, schema, budget, None)
    made = Release(content, name, describe_guarantee(budget, schema), private=True, options=mechanism.chosen)
    page = sf.report(made.save(tmp_path / "r.sfumato"), language="de")
    assert ("nur auf Englisch" in page) == ('<span lang="en">' in page) == (name == "fourier")


def test_a_series_has_months_of_the_language(tmp_path):
    path = tmp_path / "visits.sfumato"
    for month, one in zip(MONTHS, months_of("cells"), strict=True):
        append_part(path, replace(one, published=None, private=True).save(tmp_path / month), month)
    page = sf.report(path, language="de")
    assert 'lang="en"' not in page and "3 Zeiträume, ohne 03/2026" in page and "01/2026 bis 04/2026" in page
    assert "jede einzelne Zeile in einem Monat" in re.sub(r"<[^>]*>", "", page)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("tables", [[[]], ["region"], [[], "region"], [["region", "sex"], "sex"]])
def test_that_exact_counts_are_protected_by_nothing_is_said_in_every_language(language, tables):
    attributes = {
        "region": {"type": "category", "values": ["N", "S"]},
        "sex": {"type": "category", "values": ["F", "M"]},
    }
    stated = {"dataset": "t", "privacy_unit": "row", "attributes": attributes, "invariants": tables}
    schema = sf.Schema.from_dict(stated)
    with speaking(language) as spoken:
        spoken.names.update(attributes)
        for budget in (Budget.pure(1), Budget.zcdp("1/20")):
            statement = describe_guarantee(budget, schema).statement
            assert (retold(statement) or statement) != statement
        assert retold(f"Exact counts of {schema.exact_counts} are in it too, and nothing protects these.")


def test_an_unknown_language_is_refused_in_one_line(survey):
    with pytest.raises(sf.SfumatoError, match=r"^reports are written in en, de, fr; 'it' is none of these$"):
        sf.report(survey, language="it")


def test_parts_of_a_sentence_that_have_no_form_leave_all_of_it_english():
    with speaking("fr") as tongue:
        tongue.names.update({"a and b", "c"})
        assert retold("rows with an unlisted a and b are left out").endswith("\u00a0: a and b")
        assert retold("rows with an unlisted c or a and b are left out").endswith("\u00a0: c or a and b")
        assert retold("every part has noise of its own; in the newest, something new") is None
        assert retold("1,234 cells") == "1\u202f234 cellules" and retold("many cells") is None
        assert retold("x: " * 100_000 + "single cells") is None
        assert figure(1234.5, ",.1f") == "1\u202f234,5" and figures("v0.1.0 1,234.5 a1.5") == "v0.1.0 1\u202f234,5 a1.5"
    assert retold("anything") == "anything" and figure(1234.5, ",.1f") == "1,234.5"
