"""Descents are replayed where there is something to decide, and broken ones are told from sound ones."""

from __future__ import annotations

import numpy as np
import pytest
from curators import curator_of

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.attacks.replay import CELLS, CROWDS, crowded_tables, descent_finding
from sfumato.lab.audit.mutants.curators import ForgetfulCurator, descending, paid_twice, steered_by_the_table
from sfumato.lab.audit.subjects.subject import small_schema
from sfumato.models import MECHANISMS

ONE = Budget.pure(1)


@pytest.mark.parametrize("budget", [ONE, Budget.zcdp("1/2")])
def test_a_descent_passes_and_spends_all_it_claims(budget):
    found = descent_finding("descent", budget, descending())
    assert found.sound, found.complaints[0]
    assert found.pairs >= 40 and found.loss == pytest.approx(float(found.claimed), abs=1e-9)


@pytest.mark.parametrize("name", [one.name for one in MECHANISMS.values() if one.adaptive])
def test_the_mechanism_as_a_whole_passes(name):
    found = descent_finding(name, ONE)
    assert found.sound, found.complaints[0]


def test_there_is_something_to_decide():
    """With nobody but two crowds, other noise leads to other looks; else the replay would show nothing about them."""
    counts = np.zeros(CELLS, dtype=np.int64)
    for cell, rows in CROWDS[1]:
        counts[cell] = rows
    schema, run, designs = small_schema(CELLS, 1, measured=False), descending(), set()
    for seed in range(20):
        looks = run(curator_of(schema, counts, entropy=TestingEntropy(seed)), schema, ONE)
        designs.add((looks.queries.lows.tobytes(), looks.queries.highs.tobytes(), repr(looks.noises)))
    assert len(designs) > 1
    assert len(list(crowded_tables())) == 12


def complaints(run, curator=None) -> set[str]:
    kind = {} if curator is None else {"curator": curator}
    return {complaint.what.split(":")[0] for complaint in descent_finding("broken", ONE, run, **kind).complaints}


def test_a_leaf_that_is_paid_twice_is_refused_by_the_charge():
    assert complaints(descending(paid_twice)) == {"the mechanism was refused"}


def test_a_leaf_that_is_paid_twice_under_a_charge_that_forgets_is_seen_in_the_answers():
    assert "the answers move by more than what was claimed" in complaints(descending(paid_twice), ForgetfulCurator)


def test_shares_by_true_counts_are_seen_in_what_is_asked():
    found = complaints(steered_by_the_table)
    assert "queries, scales or thresholds depend on the table" in found
    assert "the mechanism reached for _dense, past the verbs of the curator" in found
