"""Synthetic rows in a notebook, told apart from other tables."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest
from exact_release import save_exact_release, save_visits

import sfumato as sf
from sfumato.answers.export import as_synthetic, rows_as_html


class Formatter:
    """As IPython's: what shows a type, by type."""

    def __init__(self, known=()):
        self.known = dict(known)

    def lookup_by_type(self, kind):
        return self.known[kind]

    def for_type(self, kind, show):
        self.known[kind] = show


@pytest.fixture
def notebook(monkeypatch):
    """A notebook, as far as it is asked anything."""
    html = Formatter()
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": html}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return html


def test_a_notebook_shows_the_first_rows_and_says_what_they_are(tmp_path, notebook):
    release = sf.open(save_exact_release(tmp_path))
    rows = release.sample(1000, seed=1)
    assert isinstance(rows, pa.Table) and rows.num_rows == 1000
    page = notebook.known[pa.Table](rows)
    assert page.count("<tr>") == 21 and "the first 20 of 1,000 synthetic rows of census" in page
    assert '<th class="r">age</th>' in page and '<th class="l s">sex</th>' in page
    few = notebook.known[pa.Table](release.sample(3, seed=1))
    assert few.count("<tr>") == 4 and "3 synthetic rows of census" in few and "first" not in few


def test_days_and_missing_values(tmp_path):
    page = rows_as_html(sf.open(save_visits(tmp_path)).sample(20, seed=2))
    assert ">2024-02-27<" in page and ">2024-02-27 " in page and "None" not in page


def test_other_tables_are_left_alone(notebook):
    assert rows_as_html(pa.table({"a": [1]})) is None
    assert rows_as_html(pa.table({"a": [1]}).replace_schema_metadata({"b": "c"})) is None
    taken = Formatter({pa.Table: "theirs"})
    sys.modules["IPython"].get_ipython().display_formatter.formatters["text/html"] = taken
    as_synthetic(pa.table({"a": [1]}), "t")
    assert taken.known == {pa.Table: "theirs"}


def test_no_label_is_obeyed():
    page = rows_as_html(as_synthetic(pa.table({"<b>a": ["<script>", "\u202ex"]}), "<i>t"))
    assert "<script" not in page and "<b>" not in page and "<i>" not in page and "\u202e" not in page
