"""A value is the same text by itself and in a column of its kind."""

from __future__ import annotations

import datetime as dt
import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernel.reading.formats.origin import as_text, text_of


@given(st.lists(st.floats() | st.sampled_from([1e-5, 1e-7, 0.1, 1e16, 1e22, 2.0**63, -(2.0**63), 5e-324])))
def test_floats(values):
    assert as_text(pa.array(values, pa.float64())).to_pylist() == [text_of(value) for value in values]
    for value, text in zip(values, map(text_of, values), strict=True):
        assert math.isnan(value) if text is None else float(text) == value


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.booleans().map(int)), st.lists(st.booleans()))
def test_whole_numbers_and_booleans(numbers, words):
    assert as_text(pa.array(numbers, pa.int64())).to_pylist() == [text_of(number) for number in numbers]
    assert as_text(pa.array(words, pa.bool_())).to_pylist() == [text_of(word) for word in words]


@given(st.lists(st.datetimes(timezones=st.none() | st.just(dt.timezone(dt.timedelta(hours=9))))))
def test_times_name_the_same_day(times):
    """A column has one zone or none, so each time stands in a column of its own."""
    for time in times:
        kind = pa.timestamp("us", "UTC" if time.tzinfo else None)
        try:
            (found,) = as_text(pa.array([time], kind)).to_pylist()
        except OverflowError:
            continue  # no such moment in UTC
        assert found[:10] == str(text_of(time))[:10]
