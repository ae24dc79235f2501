"""A release describes itself: in Python, and as HTML that obeys nobody's labels."""

from __future__ import annotations

import numpy as np
import pytest
from curators import curator_of

import sfumato as sf
from sfumato.kernel.budget import Budget, Cost
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release

HOSTILE = "<script>alert(1)</script>\u202e"


@pytest.fixture
def release():
    attributes = {
        "age": {"type": "integer", "lower": 0, "upper": 9},
        HOSTILE: {"type": "category", "values": ["<b>", "x&y"]},
    }
    schema = sf.Schema(dataset="census", privacy_unit="row", attributes=attributes)
    content = find_mechanism("cells").run(curator_of(schema, np.full(20, 50)), schema, Budget.pure(1), None)
    return Release(content, "cells", describe_guarantee(Budget.pure(1), schema, Cost.of(Budget.pure(1))), True)


def test_describe_has_everything_and_prints(release):
    about = release.describe()
    assert about.typical[0].counts_of == "all rows" and len(about.typical) == 3
    assert about.typical[0].half_width > about.typical[2].half_width > 0
    text = repr(about)
    assert "0 to 9" in text and "20 cells" in text and "left out" in text and "SELECT COUNT(*)" in text
    assert "\u202e" not in text


def test_typical_errors_follow_the_confidence(release):
    narrow, wide = (release.describe(confidence=level).typical[0].half_width for level in (0.5, 0.999))
    assert wide > 2 * narrow


@pytest.mark.parametrize("what", ["release", "description", "schema"])
def test_html_obeys_no_label(release, what):
    shown = {"release": release, "description": release.describe(), "schema": release.schema}[what]._repr_html_()
    assert "<script" not in shown and "<b>x" not in shown and "\u202e" not in shown and "<td><b></td>" not in shown
    assert "&lt;script&gt;" in shown and "x&amp;y" in shown and "<table>" in shown


def test_all_examples_answer(release):
    about = release.describe()
    assert len(about.examples) >= 2
    for example in about.examples:
        assert len(release.query(example, strict=True).rows) >= 1
