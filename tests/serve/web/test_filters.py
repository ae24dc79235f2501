"""Filters become conditions on whole cells, which the release's own parser reads."""

from __future__ import annotations

import pytest
from exploring import HOSTILE

from sfumato.serve.web.charts import where
from sfumato.serve.web.questions import Filter
from sfumato.sql import compile_select


@pytest.mark.parametrize(
    ("form", "condition"),
    [
        ({"attribute": "sex", "labels": ["F"]}, "sex = 'F'"),
        ({"attribute": "sex", "labels": ["F", "M"]}, ""),
        ({"attribute": "region", "labels": ["East", "North"]}, "region IN ('North', 'East')"),
        ({"attribute": "member", "labels": [True]}, "member = true"),
        ({"attribute": "age", "labels": ["10 to 19", "20 to 29", "90 to 99"]}, "(age >= 10 AND age < 30 OR age >= 90)"),
        ({"attribute": "age", "first": 25, "last": "40 to 49"}, "age >= 20 AND age < 50"),
        ({"attribute": "age", "last": 9}, "age < 10"),
        ({"attribute": "age"}, ""),
        ({"attribute": "paid", "labels": ["[250, 500)"]}, "paid >= 250 AND paid < 500"),
        ({"attribute": "paid", "first": 750}, "paid >= 750"),
    ],
)
def test_a_filter_is_whole_cells(shelf, form, condition):
    book = shelf.find("survey")
    text = where([Filter(**form)], book)
    assert text == (f" WHERE {condition}" if condition else "")
    assert compile_select(f"SELECT COUNT(*) FROM survey{text}", book.release.schema).exact


@pytest.mark.parametrize("label", HOSTILE)
def test_any_label_can_be_asked_for_and_only_itself(shelf, label):
    book = shelf.find("harm")
    text = where([Filter(attribute="<b>place</b>", labels=[label])], book)
    only = book.release.query(f"SELECT COUNT(*) AS n FROM harm{text}").rows[0][0]
    every = book.release.query('SELECT "<b>place</b>", COUNT(*) AS n FROM harm GROUP BY "<b>place</b>"')
    assert only.value == pytest.approx({key: n.value for key, n in every.rows}[label])
