"""Weighted rows: what a row adds to its cell, whatever its weight is, and what of an engine's answer is refused."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan

import pyarrow as pa
import pytest

from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget
from sfumato.kernel.counts import Aggregate, Rows
from sfumato.kernel.opening import curator_of
from sfumato.kernel.reading.statement import checked
from sfumato.kernel.reading.table import open_table
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.measurement import Gaussian, Laplace
from sfumato.queries import Identity
from sfumato.schema import Schema
from sfumato.schema.parts import ROWS
from sfumato.schema.schema import missing_of

WEIGHT = {"column": "w", "upper": 3, "step": "0.5"}


def schema(weight: object = WEIGHT, unit: object = "row", **more: object) -> Schema:
    keys = {"dataset": "t", "privacy_unit": unit, "attributes": {"a": {"type": "integer", "lower": 0, "upper": 1}}}
    measures = {"m": {"lower": 0, "upper": 4, "step": 1}}
    return Schema.from_dict(keys | {"weight": weight, "measures": measures} | more)


def read(
    weights: list[object], made: Schema | None = None, kind: pa.DataType | None = None, **columns: list[object]
) -> Aggregate:
    given = {"a": [0] * len(weights), "m": [4.0] * len(weights)} | columns | {"w": pa.array(weights, kind)}
    return open_table(pa.table(given)).aggregate(made or schema(), 1)


@pytest.mark.parametrize(
    ("weight", "steps"),
    [
        *((1.0, 2), (1.2, 2), (1.25, 3), (3.0, 6), (99.0, 6), (inf, 6), (0.25, 1), (0.2, 0), (0.0, 0)),
        *((-5.0, 0), (-inf, 0), (nan, 0), (None, 0)),
    ],
)
def test_a_row_counts_for_its_clipped_weight_in_steps_and_falls_out_without_any(weight, steps):
    found = read([weight], kind=pa.float64())
    assert found.counts.tolist() == [steps][: bool(steps)]
    assert found.sums["m"].tolist() == [2 * steps][: bool(steps)]
    assert found.sums[ROWS].tolist() == [6][: bool(steps)]


@pytest.mark.parametrize(("text", "steps"), [("2", 4), (" 2 ", 4), ("two", 0), ("", 0), ("1e400", 0), ("nan", 0)])
def test_texts_that_are_no_numbers_are_no_weights(text, steps, tmp_path):
    (tmp_path / "t.csv").write_text(f"a,m,w\n0,4,{text}\n1,4,1\n")
    found = open_table(tmp_path / "t.csv").aggregate(schema(), 1)
    assert found.at([0, 1], "count").tolist()[1] == 2
    assert found.at([0, 1], "count").tolist()[0] in ((steps, 6) if text == "1e400" else (steps,))


def test_missing_values_are_counted_by_weight_and_sums_are_multiplied_by_it():
    found = read([1.0, 2.0, 3.0], m=[0.0, None, 4.0])
    assert found.counts.tolist() == [12] and found.sums["m"].tolist() == [2 * (-2) + 6 * 2]
    assert found.sums[missing_of("m")].tolist() == [4] and found.sums[ROWS].tolist() == [18]


def test_weights_are_moved_toward_the_mean_after_they_are_clipped():
    found = read([0.0, 1.0, 9.0], schema(WEIGHT | {"shrink": "0.5", "mean": 1, "step": "0.25"}))
    assert found.counts.tolist() == [2 + 4 + 8] and found.sums[ROWS].tolist() == [3 * 8]


def test_of_a_person_as_many_rows_are_kept_as_ever():
    made = schema(unit={"column": "p", "contributions": 2})
    found = read([1.0] * 5, made, p=[1, 1, 1, 1, 2])
    assert found.counts.tolist() == [2 * (2 + 1)] and found.sums[ROWS].tolist() == [6 * 3]


def test_rows_that_come_one_by_one_have_their_weights():
    many = {f"a{n}": {"type": "integer", "lower": 0, "upper": 9, "column": "a"} for n in range(8)}
    made = schema(attributes=many)
    table = pa.table({"a": [1, 1, 2, 3], "m": [4.0, 0.0, None, 1.0], "w": [1.0, 3.0, 2.0, None]})
    rows = open_table(table).read(made, 1, for_margins=True)
    assert isinstance(rows, Rows) and rows.weights is not None and sorted(rows.weights.tolist()) == [2, 4, 6]
    found = open_table(table).aggregate(made, 1)
    assert found.counts.tolist() == rows.gathered.counts.tolist() == [8, 4]
    assert found.sums["m"].tolist() == rows.gathered.sums["m"].tolist() == [2 * 2 - 6 * 2, 0]


def test_every_noise_is_made_for_the_largest_weight():
    made, aggregate = schema(unit={"column": "p", "contributions": 2}), Aggregate(*(pa.array([0]).to_numpy(),) * 2)
    pure = curator_of(made, aggregate, Budget.pure(Fraction(1, 2)), SystemEntropy())
    assert pure.charge.contributions == 2 * 6
    assert pure.measure(Identity(2), Budget.pure(Fraction(1, 2))).noise == Laplace(Fraction(2 * 6 * 2))
    zcdp = curator_of(made, aggregate, Budget.zcdp(Fraction(1, 2)), SystemEntropy())
    assert zcdp.measure(Identity(2), Budget.zcdp(Fraction(1, 2))).noise == Gaussian(Fraction((2 * 6) ** 2))


@pytest.mark.parametrize(
    ("n", "s", "missing", "rows"),
    [(0, 0, 0, 6), (7, 0, 0, 6), (2, 0, 0, 0), (2, 0, 0, 7), (1, 0, 0, 12), (2, 5, 0, 6), (2, 4, 1, 6), (2, 0, -1, 6)],
)
def test_an_engine_that_answers_otherwise_is_not_believed(n, s, missing, rows):
    def answer(*numbers: int) -> pa.Table:
        return pa.table({f"c{at}": pa.array([number], pa.int64()) for at, number in enumerate((0, *numbers))})

    checked(answer(2, 4, 0, 6), schema(), row_by_row=False)
    with pytest.raises(PrivacyError):
        checked(answer(n, s, missing, rows), schema(), row_by_row=False)


@pytest.mark.parametrize(
    ("w", "m", "missing", "rows"), [(0, 0, 0, 6), (7, 0, 0, 6), (2, 5, 0, 6), (2, 0, 1, 6), (2, 2, 2, 6), (2, 4, 0, 5)]
)
def test_rows_that_weigh_too_much_are_not_believed(w, m, missing, rows):
    def answer(*numbers: int) -> pa.Table:
        words = {"word0": pa.array([0], pa.int32())}
        return pa.table(words | {f"c{at}": pa.array([number], pa.int64()) for at, number in enumerate(numbers)})

    checked(answer(2, 4, 0, 6), schema(), row_by_row=True)
    with pytest.raises(PrivacyError):
        checked(answer(w, m, missing, rows), schema(), row_by_row=True)
