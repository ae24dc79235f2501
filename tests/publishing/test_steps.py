"""Steps that a schema leaves out fit the noise; steps that it states are kept."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import sqrt

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError
from sfumato.kernel.budget import Cost
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.measurement import Gaussian
from sfumato.models import MECHANISMS
from sfumato.publishing.prepare import Request, already_there, prepare

ADULT = {"age": 74, "workclass": 9, "education": 16, "years": 16, "marital": 7, "occupation": 15, "relation": 6}
ADULT |= {"race": 5, "sex": 2, "gain": 4, "loss": 4, "hours": 5, "country": 42, "income": 2}
SUMS = {"capital_gain": {"lower": 0, "upper": 99999}, "hours_a_week": {"lower": 1, "upper": 99}}


def schema_of(attributes: int, **measure: object) -> sf.Schema:
    names = [f"a{place}" for place in range(attributes)]
    return sf.Schema.from_dict(
        {
            "dataset": "wide",
            "privacy_unit": "row",
            "budget": {"epsilon": 9},
            "attributes": {name: {"type": "category", "values": ["x", "y"]} for name in names},
            "measures": {"paid": {"lower": 0, "upper": 1000, **measure}},
        }
    )


def adult(**step: object) -> sf.Schema:
    """Fourteen columns and two measures, as a census of adults has them."""
    return sf.Schema.from_dict(
        {
            "dataset": "adult",
            "privacy_unit": "row",
            "expected_rows": 48_842,
            "attributes": {name: {"type": "integer", "lower": 0, "upper": size - 1} for name, size in ADULT.items()},
            "measures": {name: {**bounds, **step} for name, bounds in SUMS.items()},
        }
    )


def table_of(schema: sf.Schema, rows: int, paid: object) -> pa.Table:
    some = np.random.default_rng(4)
    return pa.table({name: some.choice(["x", "y"], rows) for name in schema.attributes} | {"paid": paid})


def test_fifteen_attributes_and_a_measure_without_a_step():
    """With the least share of a pair of them; at the smaller epsilon the noise is 2^51.2 steps, more than 2^50."""
    schema, step = schema_of(15), schema_of(15).measures["paid"].step
    assert prepare(Request(schema, "0.5", mechanism="margins")).schema.measures["paid"].step == step
    taken = prepare(Request(schema, "0.0005", mechanism="margins")).schema
    assert taken.measures["paid"].step == 4 * step and taken.domain == schema.domain


def test_of_fourteen_columns_and_two_measures_without_a_step_the_delta_is_used():
    taken = prepare(Request(adult(), 1, delta="1e-9"))
    assert taken.mechanism.name == "margins" and taken.cost.delta == Fraction(1, 10**9)
    assert {name: float(one.step) for name, one in taken.schema.measures.items()} == {
        "capital_gain": 2.0,
        "hours_a_week": 2.0**-9,
    }
    exact = prepare(Request(adult(), 1)).schema
    assert all("step" in one.model_fields_set for one in taken.schema.measures.values())
    assert all(one.half_units >= 2**29 for one in exact.measures.values())


@pytest.mark.parametrize("mechanism", [name for name, one in MECHANISMS.items() if one.gaussian])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "30"])
def test_filled_in_steps_are_no_coarser_than_the_noise_needs(mechanism, epsilon):
    """Half of them does not fit, so that noise of the least share is 2^22 steps or more."""
    schema, cost = schema_of(3), Cost.stated(epsilon, "1e-9")
    taken = prepare(Request(schema, epsilon, delta="1e-9", mechanism=mechanism)).schema.measures["paid"]
    assert taken.step > schema.measures["paid"].step and taken.step.denominator & (taken.step.denominator - 1) == 0
    if mechanism in ("margins", "sfumato"):  # of which the least share is known
        share = MECHANISMS[mechanism].forecast.least_of_sums(schema, cost.budget)["paid"]
        sigma = taken.half_units / sqrt(2 * share.amount)
        assert 2**22 / (1 + 2 / taken.half_units) <= sigma <= 2**23
    else:
        with pytest.raises(BudgetError, match="coarser step"):
            finer = schema_of(3, step=taken.step / 4)
            prepare(Request(finer, epsilon, delta="1e-9", mechanism=mechanism))


def test_the_steps_are_those_of_the_release_and_the_delta_pays(tmp_path):
    """Five attributes by `margins`, seeded, so it passes always or never: with delta 1e-9 sums are off by less."""
    schema, rows = schema_of(5), 1_000
    table = table_of(schema, rows, np.arange(rows) % 997)
    made, how = {}, {"mechanism": "margins", "ledger": tmp_path / "ledger", "entropy": TestingEntropy(4)}
    for delta in (None, "1e-9"):
        one = sf.release(table, schema, 1, delta=delta, **how)
        made[delta] = sf.open(one.save(tmp_path / f"{delta}.sfumato"), allow_not_private=True)
    assert [made[delta].guarantee.delta for delta in made] == [0, Fraction(1, 10**9)]
    filled = made["1e-9"].schema.measures["paid"].step
    assert filled == Fraction(1, 256) and made[None].schema.measures["paid"].step == schema.measures["paid"].step
    sums = {delta: one.query("SELECT SUM(paid) AS s FROM wide").rows[0][0] for delta, one in made.items()}
    assert sums["1e-9"].stderr < 0.85 * sums[None].stderr
    for found in sums.values():
        assert abs(found.value - sum(table["paid"].to_pylist())) < 5 * found.stderr
    noises = {found.noise for found in made["1e-9"].content.about.measured if found.of == "paid"}
    assert noises and all(isinstance(noise, Gaussian) for noise in noises)


def test_rounding_to_filled_in_steps_is_nothing_beside_the_noise():
    """Values between the steps, of as many rows as the schema says: their rounding is a thousandth of the noise."""
    schema, cost = adult(), Cost.stated(1, "1e-9")
    taken = prepare(Request(schema, 1, delta="1e-9")).schema
    values = np.random.default_rng(5).uniform(1, 99, schema.expected_rows)
    step = float(taken.measures["hours_a_week"].step)
    off = np.rint(values / step).sum() * step - values.sum()
    everything = cost.budget.amount / 5  # of counts three parts, of each measure one: the least noise on any sum
    assert abs(off) < 1e-3 * step * taken.units["hours_a_week"] / sqrt(2 * everything)
    assert np.array_equal(np.rint(np.arange(1, 100) / step) * step, np.arange(1, 100))  # whole numbers are kept


def test_what_fits_is_left_alone_and_what_is_stated_is_kept(own_ledger):
    schema = schema_of(2)
    assert prepare(Request(schema, 1, mechanism="margins")).schema is schema
    with pytest.raises(BudgetError, match="coarser `step`s"):
        prepare(Request(schema_of(15, step="1e-9"), "0.0005", mechanism="margins"))
    for mechanism in ("auto", "margins"):  # both of which take `margins` with Gaussian noise
        stated = adult(step="0.0005")
        row = pa.table({name: [1] for name in (*stated.attributes, *stated.measures)})
        with pytest.raises(BudgetError, match=r"sums of capital_gain .* `step: .* or leave out delta") as caught:
            sf.release(row, stated, 1, delta="1e-9", mechanism=mechanism, even_if_useless=True)
        assert not own_ledger.exists() and Ledger().show() == []
        step = str(caught.value).split("`step: ")[1].split("`")[0]
        assert prepare(Request(adult(step=step), 1, delta="1e-9", mechanism=mechanism)).cost.delta


def test_a_release_that_is_there_is_known_by_a_schema_without_the_steps(tmp_path):
    schema = schema_of(2)
    asked = Request(schema, 1, delta="1e-9", mechanism="margins")
    made = sf.release(table_of(schema, 10, [1] * 10), schema, 1, delta="1e-9", mechanism="margins")
    path = made.save(tmp_path / "wide.sfumato")
    assert made.schema != schema and already_there(path, asked) is not None
    with pytest.raises(sf.SfumatoError, match="another schema"):
        already_there(path, replace(asked, schema=schema_of(2, step="0.5")))


def test_an_epsilon_that_no_step_helps_is_refused():
    for delta in (None, "1e-9"):
        with pytest.raises(BudgetError, match="64 bits"):
            prepare(Request(schema_of(15), "1e-16", delta=delta, mechanism="margins"))
