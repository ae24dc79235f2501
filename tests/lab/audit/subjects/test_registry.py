"""Every primitive and every mechanism is attacked, also one that was added a moment ago."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from registering import register

from sfumato.errors import ReleaseFileError
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.attacks.sampling import audit
from sfumato.lab.audit.mutants.outputs import fitted_evenly, fitted_to_the_table
from sfumato.lab.audit.subjects.registry import (
    CELLS,
    FIRST,
    all_subjects,
    mechanism_subject,
    mechanism_subjects,
    subject_of,
)
from sfumato.lab.audit.subjects.subject import HIDDEN, POOL, PooledEntropy, Subject
from sfumato.models import MECHANISMS, SPECIAL
from sfumato.models.base.mechanism import Mechanism
from sfumato.models.cells.cells import cells, sparse_cells
from sfumato.models.linear.fit import LinearFit
from sfumato.queries import Identity
from sfumato.releases.contents.cube import Cube
from sfumato.releases.contents.sparse_cube import SparseCube

SUBJECTS = {subject.name: subject for subject in all_subjects()}


@pytest.mark.parametrize("name", SUBJECTS)
def test_no_violation_is_found(name, full):
    """400 runs; each subject is flagged by mistake with a chance of at most 1e-6.

    400 show the leaks below. All mechanisms are replayed call by call as well, which shows any, and so are those with a
    purpose of their own, which have 100 runs here; `sfumato audit` gives them more.
    """
    special = name.split(", ")[0] in SPECIAL
    runs = 2_000 if full else 100 if special else 400
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
    first, *others = cube.about.measured
    answers = first.answers.copy()
    answers[0] = curator._dense("count")[0]
    return Cube.of_cells(schema, [replace(first, answers=answers), *others])


def scale_from_data(curator, schema, budget, workload=None):
    """Noise that follows the table, and says so: the answers are noisy, the scale tells."""
    budget = budget if curator._dense("count")[0] else budget.split(1, 1)[0]
    return Cube.of_cells(schema, [curator.measure(Identity(CELLS), budget)])


def first_row_first(curator, schema, budget, workload=None):
    """A cell is published without its number being looked at, but only if there is a row in cell 0."""
    made = sparse_cells(curator, schema, budget)
    if curator._dense("count")[0] == 0:
        return made
    listed = np.array([0])
    first = replace(made.measurements[0], answers=np.array([made.threshold]), cells=listed)
    return SparseCube(schema, (first,), made.totals)


@pytest.mark.full
@pytest.mark.parametrize("run", [true_counts, scale_from_data, first_row_first])
def test_a_leaky_mechanism_added_to_the_registry_is_attacked_and_caught(run, monkeypatch):
    register(monkeypatch, Mechanism("new", "leaks", run))
    subjects = [subject for subject in all_subjects() if subject.name.startswith("new, ")]
    assert len(subjects) == len(mechanism_subjects("cells"))
    assert audit(subjects[0], 400, TestingEntropy(1)).violated


def starting_with(outputs: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The columns, as many as there are values, of which the first row is these values."""
    wide = np.lib.stride_tricks.sliding_window_view(outputs[0], len(values))
    (start,) = np.flatnonzero((wide == values).all(axis=1))
    return outputs[:, start : start + len(values)]


def spied(run, made: list) -> Mechanism:
    """A mechanism that also hands its cubes to the test; the first ones only show which columns there are."""

    def spying(curator, schema, budget, workload=None):
        made.append(run(curator, schema, budget))
        return made[-1]

    return Mechanism("spied", "", spying)


@pytest.mark.parametrize("which", [0, 1])
def test_every_published_number_has_its_column(which):
    """At epsilon 1 and a scale of 2, noise above 60 has a chance of 1e-13."""
    made = []
    outputs = subject_of(spied(cells, made)).run(which, 1, TestingEntropy(1))
    assert len(made) == 1 + 2 * FIRST
    counts, sums = (starting_with(outputs, measured.answers)[0] for measured in made[-1].about.measured)
    assert abs(counts - [which, 15, 0, 3, 40, 0]).max() < 60
    assert abs(sums - [50 * which, 0, 0, 0, 0, 0]).max() < 60 * 50


def test_unpublished_cells_are_hidden_and_totals_are_not():
    made = []
    outputs = subject_of(spied(sparse_cells, made)).run(0, 50, TestingEntropy(1))
    first = made[2 * FIRST]
    answers = np.full(CELLS, HIDDEN)
    answers[first.measurements[0].cells] = first.measurements[0].answers
    counts = starting_with(outputs, answers)
    assert (counts[:, 0] == HIDDEN).mean() > 0.9  # an empty cell passes with a chance of 1 in 600
    assert (counts[:, 4] > 0).all()  # 40 rows, threshold 14, scale 2.2
    for total in first.totals:
        assert HIDDEN not in starting_with(outputs, total.answers)


def test_the_columns_are_the_same_every_time():
    subject, other = mechanism_subject("dawa"), mechanism_subject("dawa")
    one, two = subject.run(0, 3, TestingEntropy(1)), subject.run(1, 2, TestingEntropy(2))
    assert one.shape[1] == two.shape[1] and one.dtype == np.int64
    assert (other.run(0, 3, TestingEntropy(1)) == one).all() and (subject.run(0, 3, TestingEntropy(1)) == one).all()


def test_a_cube_that_no_file_could_hold_is_refused_rather_than_seen_in_part():
    def twice(curator, schema, budget, workload=None):
        return Cube.of_cells(schema, [curator.measure(Identity(CELLS), half) for half in budget.evenly(2)])

    with pytest.raises(ReleaseFileError, match="each statistic of noisy cells once"):
        subject_of(Mechanism("twice", "", twice)).run(0, 1, TestingEntropy(1))


def test_which_answer_carries_which_noise_is_seen():
    def one_cell_finer(cell):
        def run(curator, schema, budget, workload=None):
            which = (np.arange(CELLS) == cell).astype(np.int64)
            made = curator.measure(Identity(CELLS), scales=[Fraction(4), Fraction(4)], which=which)
            return Cube(schema, fits=(LinearFit.of_answers(made),))

        return subject_of(Mechanism("finer", "", run)).run(0, 1, TestingEntropy(1))[0].tolist()

    assert one_cell_finer(2) == one_cell_finer(2) != one_cell_finer(3)


@pytest.mark.full
def test_honest_measurements_do_not_hide_an_estimate_from_the_table():
    """The measurements alone, all that was once looked at, do not show it; the file does, by as many runs."""
    measured = Subject("measurements", Fraction(1), measurements_of(fitted_to_the_table))
    assert not audit(measured, 400, TestingEntropy(1)).violated
    assert audit(subject_of(Mechanism("x", "", fitted_to_the_table)), 400, TestingEntropy(1)).violated
    assert not audit(subject_of(Mechanism("x", "", fitted_evenly)), 400, TestingEntropy(1)).violated


def measurements_of(run):
    made = []
    subject = subject_of(spied(run, made))

    def only(which, runs, entropy):
        subject.run(which, 1, entropy)
        made.clear()
        subject.run(which, runs, entropy)
        answers = [[m.answers for fit in cube.fits for m in fit.measurements] for cube in made]
        return np.array([np.concatenate(each) for each in answers])

    return only


def test_the_person_adds_as_many_rows_as_are_declared():
    made = []
    subject_of(spied(cells, made), contributions=3).run(1, 400, TestingEntropy(1))
    counts = np.array([cube.about.measured[0].answers for cube in made[-400:]])
    # Scale 6, standard deviation 8.5: the mean of 400 is off by more than 2.2 with a chance below 1e-6.
    assert counts[:, 0].mean() == pytest.approx(3, abs=2.2)


def test_pooled_words_are_the_words_of_the_source_each_once():
    pooled, source = PooledEntropy(TestingEntropy(7)), TestingEntropy(7)
    taken = np.concatenate([pooled.words(count) for count in (5, 0, POOL - 105, 100)])
    assert (taken == source.words(POOL)).all()
    assert (pooled.words(POOL + 1) == source.words(POOL + 1)).all()
    assert pooled.bytes(3) == source.words(POOL).tobytes()[:3]
    assert pooled.private is False


def test_the_budget_of_every_subject_is_one():
    assert {subject.epsilon for subject in all_subjects()} == {Fraction(1)}
