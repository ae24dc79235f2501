"""A value that is bound is one literal, whatever is in it."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from sfumato.dbapi import DataError, ProgrammingError, bind, literal


@given(st.text(), st.sampled_from(["x = ?", "x = E?", "x = -?", "x IN (?)", "x = ?y"]))
def test_a_text_stays_one_literal(text, condition):
    """Two hundred texts at most, no false alarm: the statement is read back by the parser that reads queries."""
    tokens = sqlglot.tokenize(bind(f"SELECT 1 WHERE {condition}", [text]), read="duckdb")
    assert [token.text for token in tokens if token.token_type.name == "STRING"] == [text]


def test_every_kind_of_value():
    values = [
        True,
        -5,
        2.5,
        Decimal("1E+2"),
        date(2024, 2, 1),
        datetime(2024, 2, 1, 12),
        None,
        np.int64(3),
        np.float64(0.5),
    ]
    said = ["TRUE", "-5", "2.5", "100", "'2024-02-01'", "'2024-02-01 12:00:00'", "NULL", "3", "0.5"]
    assert [literal(value) for value in values] == said


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"x", [1], object()])
def test_what_cannot_be_bound_is_refused(value):
    with pytest.raises(DataError):
        literal(value)


def test_question_marks_in_texts_names_and_comments_are_none():
    statement = """SELECT '?' AS "?" /* ? */ FROM t WHERE a = ? -- ?"""
    assert bind(statement, [1]) == statement.replace("a = ?", "a =  1 ")
    assert bind("SELECT '?'", []) == "SELECT '?'"


@pytest.mark.parametrize("parameters", [[], [1, 2], {"a": 1}, "x"])
def test_values_must_match(parameters):
    with pytest.raises(ProgrammingError):
        bind("SELECT 1 WHERE a = ?", parameters)
