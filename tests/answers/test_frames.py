"""Answers as frames of other libraries: the same columns everywhere, numbers numbers even where none is known."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from math import inf, nan

import pyarrow as pa
import pytest
from exact_release import save_visits

import sfumato as sf
from sfumato.answers.export import needed
from sfumato.answers.results import Estimate, Result
from sfumato.errors import SfumatoError

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


@pytest.mark.parametrize("result", [KNOWN, UNKNOWN, EMPTY], ids=["known", "unknown", "empty"])
def test_errors_can_be_left_out_of_every_form(result):
    alone = replace(result, errors=False)
    for frame in (alone.to_pandas(), alone.to_polars(), alone.to_arrow().to_pandas()):
        assert list(frame.columns) == ["sex", "n"] and len(frame) == len(result)
    assert alone.headers == ("sex", "n") and alone.texts()[0] == ["sex", "n"]
    assert [record["n"] for record in alone.records()] == [record["n"] for record in result.records()]
    assert all(len(row) == 2 for row in alone.texts()[1]) and "interval" not in alone._repr_html_()
    assert alone.to_csv().splitlines()[0] == "sex,n" and alone.rows == result.rows


def test_what_is_unknown_is_a_number_that_is_not_there():
    assert UNKNOWN.to_pandas()["n"].dtype == float and UNKNOWN.to_pandas()["n"].isna().all()
    assert str(UNKNOWN.to_arrow().schema.field("n").type) == "double"
    assert str(EMPTY.to_arrow().schema.field("n_low").type) == "double"


def test_whole_numbers_stay_whole():
    assert KNOWN.to_pandas()["n_low"].tolist() == [2, 3] and str(KNOWN.to_arrow().schema.field("n_low").type) == "int64"


def test_whole_numbers_beyond_64_bits_are_fractions_in_frames():
    """`CEIL(CASE WHEN COUNT(*) > 0 THEN 9223372036854775807 END)` is 2^63, which no frame holds as a whole number."""
    long = Result(("k", "n"), ((1, 2**63), (2, -(2**63) - 1), (3, None)), 0.95, numbers=frozenset({"n"}))
    assert long.to_arrow()["n"].to_pylist() == [2.0**63, -(2.0**63), None]
    assert long.to_arrow()["k"].to_pylist() == [1, 2, 3] and long.to_polars()["n"].to_list()[0] == 2.0**63
    assert long.to_pandas()["n"].dtype == float


def test_a_library_that_is_not_there_is_named_with_what_to_do():
    with pytest.raises(SfumatoError, match=r"needs nosuchlibrary.*`pip install .*\[plot\]'?`"):
        needed("nosuchlibrary.pyplot", "plot")


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    return sf.open(save_visits(tmp_path_factory.mktemp("released")))


DAY, HOUR = pa.date32(), pa.timestamp("s")
DATED = {  # statements, and their columns of days and times: no others
    "SELECT day, COUNT(*) AS n FROM visits GROUP BY day": {"day": DAY},
    "SELECT day AS d, COUNT(*) AS n FROM visits GROUP BY day HAVING COUNT(*) > 1": {"d": DAY},
    "SELECT day, COUNT(*) AS n FROM visits GROUP BY ROLLUP (day)": {"day": DAY},
    "SELECT day, COUNT(*) AS n FROM visits GROUP BY day LIMIT 0": {"day": DAY},
    "SELECT at, COUNT(*) AS n FROM visits GROUP BY at": {"at": HOUR},
    "SELECT month, code, COUNT(*) AS n FROM visits GROUP BY month, code": {},
    "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM visits GROUP BY 1": {"m": DAY},
    "SELECT DATE_TRUNC('hour', at) AS h, COUNT(*) AS n FROM visits GROUP BY 1": {"h": HOUR},
    "SELECT MAX(day) AS n FROM visits": {"n": DAY, "n_low": DAY, "n_high": DAY},
    "SELECT MEDIAN(at) AS n FROM visits": {"n": HOUR, "n_low": HOUR, "n_high": HOUR},
    "SELECT MIN(day) AS n FROM visits WHERE code = '2024-02-28'": {"n": DAY, "n_low": DAY, "n_high": DAY},
    "SELECT MAX(day) - MIN(day) AS n FROM visits": {},
}


@pytest.mark.parametrize("sql", DATED)
def test_days_are_dates_and_times_are_times(visits, sql):
    """Bins of several days have a name, and a category is a text whatever it looks like."""
    result, wanted = visits.query(sql), DATED[sql]
    arrow, pandas, polars = result.to_arrow(), result.to_pandas(), result.to_polars()
    assert {field.name: field.type for field in arrow.schema if pa.types.is_temporal(field.type)} == wanted
    assert {name for name in pandas if str(pandas[name].dtype) == "datetime64[s]"} == {*wanted}
    assert {name for name, kind in polars.schema.items() if kind.is_temporal()} == {*wanted}
    for written, typed in zip(result.records(), result.typed_records(), strict=True):
        assert {name: value for name, value in written.items() if name not in wanted}.items() <= typed.items()
        for name, kind in wanted.items():
            value, form = typed[name], ("%Y-%m-%d" if kind == DAY else "%Y-%m-%dT%H:%M:%S")
            assert value is written[name] is None or value.strftime(form).startswith(written[name])
            assert value is None or type(value) is (date if kind == DAY else datetime)


def test_texts_stay_texts_in_json_and_csv(visits):
    result = visits.query("SELECT day, MAX(day) AS last FROM visits WHERE day = '2024-02-28' GROUP BY day")
    assert result.records()[0]["day"] == "2024-02-28" and result.to_csv().splitlines()[1].startswith("2024-02-28,")
    assert result.to_pandas()["day"].tolist()[0] == datetime(2024, 2, 28)
    assert result.to_polars()["day"].to_list() == [date(2024, 2, 28)]


def test_a_day_times_a_number_is_a_number(visits):
    table = visits.query("SELECT MIN(at) * -1 AS n FROM visits").to_arrow()
    assert str(table.schema.field("n").type) in ("int64", "double")
