"""Numbers of one answer that share noises, with intervals that hold together."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
from sure_coverage import most_misses

import sfumato as sf
from sfumato.answers.joint_confidence import together
from sfumato.answers.question import Manner
from sfumato.answers.statement import run_in_manner
from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import find_mechanism
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema
from sfumato.sql import compile_statement

LINE = Schema.from_dict(
    {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": 31}}}
)
COUNTS = np.arange(32) % 7 * 5
PREFIXES = [4, 8, 12, 14, 16, 18, 20, 22, 24, 30]
ASKED = compile_statement(
    "SELECT " + ", ".join(f"COUNT(*) FILTER (WHERE x < {end}) AS q{end}" for end in PREFIXES) + " FROM t", LINE
)


def content(mechanism: str, budget: Budget, seed: int) -> Cube:
    """A release with seeded noise."""
    return find_mechanism(mechanism).run(over_counts(LINE, COUNTS, budget, TestingEntropy(seed)), LINE, budget)


def test_overlapping_ranges_hold_together_in_narrower_intervals():
    """60 seeded releases of cells with Gaussian noise; at 80 %, 1 in 1e6 such tests fails by chance."""
    truth = np.array([COUNTS[:end].sum() for end in PREFIXES])
    missed, runs = 0, 60
    for seed in range(runs):
        found = run_in_manner(ASKED, content("cells", Budget.zcdp(1), seed), 0.8, Manner(simultaneous=True))
        (row,) = found.rows
        missed += not all(one.low <= true <= one.high for one, true in zip(row, truth, strict=True))
    assert missed <= most_misses(runs, 1e-6, chance=0.2)
    assert missed > 3  # adding up, far fewer would
    assert found.notes[-1].endswith("as the noises that they share allow")
    assert row[0].confidence < 1 - 0.2 / len(PREFIXES)


def test_few_noises_of_long_tails_are_not_taken_as_normal():
    made = content("cells", Budget.pure(1), 1)
    few = compile_statement("SELECT COUNT(*) FILTER (WHERE x < 1), COUNT(*) FILTER (WHERE x < 2) FROM t", LINE)
    for select in few, compile_statement("SELECT AVG(x), COUNT(*) FROM t", LINE):
        assert together(select, LINE, made.view, made.fits, 0.95) is None


def test_sums_of_huge_values_hold_together(tmp_path):
    """Their fourth powers would overflow, of which NumPy warns."""
    keys = {"dataset": "t", "privacy_unit": "row", "budget": {"epsilon": 2, "delta": 1e-9}}
    columns = {
        "attributes": {"x": {"type": "integer", "lower": 0, "upper": 7}},
        "measures": {"m": {"lower": 0, "upper": 1e90}},
    }
    schema = Schema.from_dict(keys | columns)
    table = pa.table({"x": [0, 3, 3, 7], "m": [0.0, 1e89, 2e89, 1e90]})
    made = sf.release(table, schema, 1, delta=1e-9, mechanism="cells", ledger=tmp_path / "ledger.sqlite")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = made.query(
            "SELECT SUM(m) FILTER (WHERE x < 4), SUM(m), SUM(m) FILTER (WHERE x > 1) FROM t", simultaneous=True
        )
    assert "hold together with 95 %" in found.notes[-1]
