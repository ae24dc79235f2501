"""Answers as frames of other libraries: the same columns everywhere, numbers numbers even where none is known."""

from __future__ import annotations

from math import inf, nan

import pytest

from sfumato.errors import SfumatoError
from sfumato.releases.answers.estimate import Estimate
from sfumato.releases.answers.result import Result
from sfumato.releases.answers.shown.frames import needed

COLUMNS = ["sex", "n", "n_stderr", "n_low", "n_high"]
KNOWN = Result(
    ("sex", "n"), (("F", Estimate(7, 2.5, 2, 12, 0.95, 2.5)), ("M", Estimate(8.5, 2.5, 3, 13, 0.95, 2.5))), 0.95
)
UNKNOWN = Result(("sex", "n"), (("F", Estimate(nan, nan, -inf, inf, 0.95, nan)),), 0.95)
EMPTY = Result(("sex", "n"), (), 0.95, numbers=frozenset({"n"}))


@pytest.mark.parametrize("result", [KNOWN, UNKNOWN, EMPTY], ids=["known", "unknown", "empty"])
def test_every_library_has_the_same_columns_and_rows(result):
    frames = [result.to_pandas(), result.to_polars(), result.to_arrow().to_pandas()]
    for frame in frames:
        assert list(frame.columns) == COLUMNS and len(frame) == len(result)
    assert frames[1]["n"].to_list() == [record["n"] for record in result.records()]


def test_what_is_unknown_is_a_number_that_is_not_there():
    assert UNKNOWN.to_pandas()["n"].dtype == float and UNKNOWN.to_pandas()["n"].isna().all()
    assert str(UNKNOWN.to_arrow().schema.field("n").type) == "double"
    assert str(EMPTY.to_arrow().schema.field("n_low").type) == "double"


def test_whole_numbers_stay_whole():
    assert KNOWN.to_pandas()["n_low"].tolist() == [2, 3] and str(KNOWN.to_arrow().schema.field("n_low").type) == "int64"


def test_a_library_that_is_not_there_is_named_with_what_to_do():
    with pytest.raises(SfumatoError, match=r"needs nosuchlibrary.*`pip install .*\[plot\]'?`"):
        needed("nosuchlibrary.pyplot", "plot")
