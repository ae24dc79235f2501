"""The cells that days are gathered in."""

from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

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


@PATIENT
@given(days, st.integers(1, 1500), st.sampled_from(["week", "quarter"]))
def test_weeks_begin_on_monday_and_quarters_with_their_months(lower, span, by):
    upper = lower + timedelta(days=span)
    axis = Date(lower=lower, upper=upper, by=by).axis("arrival")
    every = [lower + timedelta(days=i) for i in range(span + 1)]
    weeks = ["{:04}-W{:02}".format(*day.isocalendar()) for day in every]
    quarters = [f"{day.year}-Q{(day.month - 1) // 3 + 1}" for day in every]
    written = weeks if by == "week" else quarters
    assert axis.labels() == list(dict.fromkeys(written))
    cell_of_day = np.searchsorted(axis.edges, [(day - EPOCH).days for day in every], side="right") - 1
    assert [axis.label(cell) for cell in cell_of_day] == written
    assert (axis.edges[0], axis.edges[-1]) == ((lower - EPOCH).days, (upper - EPOCH).days + 1)


@PATIENT
@given(days, st.integers(1, 400))
def test_hours_are_cells_whose_edges_times_of_a_query_meet(lower, span):
    attribute = Date(lower=lower, upper=lower + timedelta(days=span), by="hour")
    axis = attribute.axis("pickup")
    assert attribute.size == axis.size == 24 * (span + 1)
    for cell in (0, 1, 17, axis.size - 1):
        day = lower + timedelta(days=cell // 24)
        assert axis.label(cell) == f"{day}T{cell % 24:02}"
        assert axis.edges[cell] == axis.read(f"{day} {cell % 24:02}:00") == axis.read(f"{day}T{cell % 24:02}:00:00")
        assert axis.edges[cell] < axis.read(f"{day} {cell % 24:02}:59:59.999999") < axis.edges[cell + 1]


def test_parts_of_the_calendar_that_come_again_have_no_bounds():
    weekday, hour = Date(by="weekday").axis("d"), Date(by="hour_of_day", missing="keep").axis("h")
    assert weekday.labels()[::6] == ["Monday", "Sunday"] and not weekday.ordered
    assert hour.labels() == [*range(24), None] and hour.ordered
    with pytest.raises(ValidationError, match="has lower, but every 'weekday' comes again"):
        Date(by="weekday", lower="2024-01-01")
    for key, other in (("lower", "upper"), ("upper", "lower")):
        with pytest.raises(ValidationError, match=f"has no {key}; fill in the"):
            Date(by="week", **{other: "2024-01-01"})


def test_an_axis_of_hours_may_be_too_long():
    with pytest.raises(ValidationError, match="more than 10,000,000 cells; use wider cells"):
        Date(lower=date.min, upper=date.max, by="hour")
