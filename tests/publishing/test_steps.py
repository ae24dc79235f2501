"""Steps that a schema leaves out fit the noise; steps that it states are kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError
from sfumato.publishing.prepare import prepare


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


def test_fifteen_attributes_and_a_measure_without_a_step():
    """Noise of 2^50.4 steps, which is more than 2^50."""
    schema = schema_of(15)
    taken = prepare(schema, "0.5", mechanism="margins").schema
    assert taken.measures["paid"].step == 16 * schema.measures["paid"].step
    assert taken.domain == schema.domain


def test_the_coarser_steps_are_those_of_the_release(tmp_path):
    some, rows, schema = np.random.default_rng(4), 2_000, schema_of(2)
    table = pa.table({name: some.choice(["x", "y"], rows) for name in schema.attributes} | {"paid": [250] * rows})
    made = sf.release(table, schema, "0.002", mechanism="margins", ledger=tmp_path / "ledger")
    read = sf.open(made.save(tmp_path / "wide.sfumato"))
    assert read.schema.measures["paid"].step == 16 * schema.measures["paid"].step
    total = read.query("SELECT SUM(paid) AS s FROM wide", confidence=0.9999999).rows[0][0]
    assert total.low <= 250 * rows <= total.high  # missed once in ten million


def test_what_fits_is_left_alone_and_what_is_stated_is_kept():
    schema = schema_of(2)
    assert prepare(schema, 1, mechanism="margins").schema is schema
    with pytest.raises(BudgetError, match="coarser `step`s"):
        prepare(schema_of(15, step="5e-7"), "0.5", mechanism="margins")


def test_an_epsilon_that_no_step_helps_is_refused():
    with pytest.raises(BudgetError, match="64 bits"):
        prepare(schema_of(15), "1e-16", mechanism="margins")
