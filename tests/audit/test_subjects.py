"""Every primitive and every mechanism is attacked, also one that was added a moment ago."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.audit.primitives import POOL, PooledEntropy
from sfumato.audit.sampling import audit
from sfumato.audit.subject import HIDDEN
from sfumato.audit.subjects import CELLS, all_subjects, mechanism_subject, mechanism_subjects, subject_of
from sfumato.kernel.entropy import TestingEntropy
from sfumato.mechanisms import MECHANISMS, Mechanism
from sfumato.mechanisms.cells import cells
from sfumato.queries import Identity, Total
from sfumato.releases.cube import Cube

SUBJECTS = {subject.name: subject for subject in all_subjects()}


SLOW = "sfumato, ", "dawa, ", "mwem, ", "pmw, ", "division, "  # several milliseconds a release


@pytest.mark.parametrize("name", SUBJECTS)
def test_no_violation_is_found(name, full):
    """2,000 runs, or 400 of what is slow; each subject is flagged by mistake with a chance of at most 1e-6.

    400 show the leaks below. The slow ones are replayed call by call as well, which shows any.
    """
    runs = 400 if name.startswith(SLOW) and not full else 2_000
    found = audit(SUBJECTS[name], runs, TestingEntropy(1))
    assert found.claimed == 1
    assert not found.violated, found


@pytest.mark.parametrize(("name", "least"), [("threshold decisions", 0.95), ("cells above threshold", 0.88)])
def test_quick_subjects_are_measured_almost_at_their_claim(name, least):
    assert least < audit(SUBJECTS[name], 200_000, TestingEntropy(1)).bound <= 1


def test_names_are_unique_and_every_mechanism_is_among_them():
    assert len(SUBJECTS) == len(all_subjects())
    for name in MECHANISMS:
        assert sum(subject.startswith(f"{name}, ") for subject in SUBJECTS) == len(mechanism_subjects(name))


def true_counts(curator, schema, budget, workload=None):
    """A mechanism that publishes one cell without noise."""
    cube = cells(curator, schema, budget)
    answers = cube.measurements[0].answers.copy()
    answers[0] = curator._dense("count")[0]
    return Cube(schema, (replace(cube.measurements[0], answers=answers), *cube.measurements[1:]))


def scale_from_data(curator, schema, budget, workload=None):
    """Noise that follows the table, and says so: the answers are noisy, the scale tells."""
    budget = budget if curator._dense("count")[0] else budget.split(1, 1)[0]
    return Cube(schema, (curator.measure(Identity(CELLS), budget),))


def first_row_first(curator, schema, budget, workload=None):
    """The total is measured only if there is a row in cell 0."""
    cube = cells(curator, schema, budget.split(1, 1)[0])
    seen = curator._dense("count")[0] > 0
    return Cube(schema, cube.measurements, (curator.measure(Total(CELLS), budget.split(1, 3)[0]),) if seen else ())


@pytest.mark.parametrize("run", [true_counts, scale_from_data, first_row_first])
def test_a_leaky_mechanism_added_to_the_registry_is_attacked_and_caught(run, monkeypatch):
    monkeypatch.setitem(MECHANISMS, "new", Mechanism("new", "leaks", run))
    subjects = [subject for subject in all_subjects() if subject.name.startswith("new, ")]
    assert len(subjects) == len(mechanism_subjects("cells"))
    assert audit(subjects[0], 400, TestingEntropy(1)).violated


@pytest.mark.parametrize("which", [0, 1])
def test_every_published_number_has_its_column(which):
    """At epsilon 1 and a scale of 2, noise above 60 has a chance of 1e-13."""
    row = mechanism_subject("cells").run(which, 1, TestingEntropy(1))[0]
    counts, sums = row[1 : 1 + CELLS], row[2 + CELLS : 2 + 2 * CELLS]
    assert abs(counts - [which, 15, 0, 3, 40, 0]).max() < 60
    assert abs(sums - [50 * which, 0, 0, 0, 0, 0]).max() < 60 * 50
    assert row[1 + CELLS] == row[2 + 2 * CELLS] == HIDDEN  # no totals
    assert (row[3 + 2 * CELLS :] == HIDDEN).all()


def test_unpublished_cells_are_hidden_and_totals_are_not():
    outputs = mechanism_subject("sparse-cells").run(0, 50, TestingEntropy(1))
    assert (outputs[:, 1] == HIDDEN).mean() > 0.9  # an empty cell passes with a chance of 1 in 600
    assert (outputs[:, 5] > 0).all()  # 40 rows, threshold 14, scale 2.2
    assert HIDDEN not in outputs[:, [1 + CELLS, 2 + 2 * CELLS]]


def test_a_second_answer_of_the_same_kind_does_not_replace_the_first():
    def twice(curator, schema, budget, workload=None):
        return Cube(schema, tuple(curator.measure(Identity(CELLS), half) for half in budget.evenly(2)))

    row = subject_of(Mechanism("twice", "", twice)).run(0, 1, TestingEntropy(1))[0]
    others = row[3 + 2 * CELLS :]
    assert HIDDEN not in row[1 : 1 + CELLS] and HIDDEN not in others[:CELLS]
    assert (others[CELLS:] == HIDDEN).all()


def test_which_answer_carries_which_noise_is_part_of_the_design():
    def one_cell_finer(cell):
        def run(curator, schema, budget, workload=None):
            which = (np.arange(CELLS) == cell).astype(np.int64)
            return Cube(schema, (curator.measure(Identity(CELLS), scales=[Fraction(4), Fraction(1)], which=which),))

        return subject_of(Mechanism("finer", "", run)).run(0, 1, TestingEntropy(1))[0, 0]

    assert one_cell_finer(2) == one_cell_finer(2) != one_cell_finer(3)


def test_the_person_adds_as_many_rows_as_are_declared():
    after = mechanism_subject("cells", contributions=3).run(1, 400, TestingEntropy(1))
    # Scale 6, standard deviation 8.5: the mean of 400 is off by more than 2.2 with a chance below 1e-6.
    assert after[:, 1].mean() == pytest.approx(3, abs=2.2)


def test_pooled_words_are_the_words_of_the_source_each_once():
    pooled, source = PooledEntropy(TestingEntropy(7)), TestingEntropy(7)
    taken = np.concatenate([pooled.words(count) for count in (5, 0, POOL - 105, 100)])
    assert (taken == source.words(POOL)).all()
    assert (pooled.words(POOL + 1) == source.words(POOL + 1)).all()
    assert pooled.bytes(3) == source.words(POOL).tobytes()[:3]
    assert pooled.private is False


def test_the_budget_of_every_subject_is_one():
    assert {subject.epsilon for subject in all_subjects()} == {Fraction(1)}
