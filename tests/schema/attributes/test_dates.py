"""The cells that days are gathered in."""

from datetime import date, timedelta

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.schema.attributes import Date

PATIENT = settings(deadline=None)  # a busy machine is no reason to fail

EPOCH = date(1970, 1, 1)

days = st.dates(date(1890, 1, 1), date(2110, 12, 31))


@PATIENT
@given(days, st.integers(1, 1500), st.sampled_from(["day", "month", "year"]))
def test_date_cells_are_calendar_days_months_or_years(lower, span, by):
    upper = lower + timedelta(days=span)
    axis = Date(lower=lower, upper=upper, by=by).axis("arrival")
    every = [lower + timedelta(days=i) for i in range(span + 1)]
    written = [day.isoformat()[: {"day": 10, "month": 7, "year": 4}[by]] for day in every]
    assert axis.labels() == list(dict.fromkeys(written))
    cell_of_day = np.searchsorted(axis.edges, [(day - EPOCH).days for day in every], side="right") - 1
    assert [axis.label(cell) for cell in cell_of_day] == written
    assert (axis.edges[0], axis.edges[-1]) == ((lower - EPOCH).days, (upper - EPOCH).days + 1)


def test_the_whole_calendar_fits():
    first, last = date.min, date.max
    assert Date(lower=first, upper=last).axis("x").size == (last - first).days + 1
    assert Date(lower=first, upper=last, by="month").axis("x").size == 9999 * 12
    assert Date(lower=first, upper=last, by="year").axis("x").labels()[-1] == "9999"


def test_dates_are_read_from_iso_text():
    assert Date(lower="2020-02-28", upper="2020-03-01").axis("x").labels() == ["2020-02-28", "2020-02-29", "2020-03-01"]
