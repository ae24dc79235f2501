"""What every mechanism with a purpose of its own must do, tried on its own small example."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from curators import curator_of

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy, TestingEntropy
from sfumato.lab.audit.attacks.replay import replay
from sfumato.lab.audit.subjects.subject import neighbouring_tables
from sfumato.models import MECHANISMS, SPECIAL, find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release, contents_of

DOCS = Path(__file__).parents[3] / "docs"


def released(name: str, epsilon: Fraction | int = 1, entropy=None) -> Release:
    """One release of a table of 30 rows or so a cell."""
    mechanism = find_mechanism(name)
    mechanism = mechanism.with_options(mechanism.lab.tried_with)
    assert mechanism.lab.example is not None
    schema, budget = mechanism.lab.example(1), Budget.pure(epsilon)
    counts = 20 + np.arange(schema.domain.size) * 7 % 23
    sums = dict.fromkeys(schema.measures, 0 * counts)
    shape = schema.domain.shape
    held = {of: each.reshape(shape) for of, each in sums.items()}
    curator = curator_of(schema, counts.reshape(shape), sums=held, epsilon=epsilon, entropy=entropy or SystemEntropy())
    content = mechanism.run(curator, schema, budget, None)
    assert curator.charge.fullest == curator.charge.limit  # to the last bit
    return Release(content, name, describe_guarantee(budget, schema), curator.private, options=mechanism.chosen)


def answers(release: Release) -> list[object]:
    return [release.query(sql).records() for sql in release.content.about.examples]


@pytest.mark.parametrize("name", SPECIAL)
def test_spends_exactly_its_budget_and_is_deterministic_under_the_testing_generator(name):
    one, other = (released(name, Fraction(1, 3), TestingEntropy(9)) for _ in range(2))
    first, second = contents_of(one), contents_of(other)
    assert first.manifest == second.manifest and first.members.keys() == second.members.keys()
    for member, columns in first.members.items():
        assert all(np.array_equal(kept, second.members[member][column]) for column, kept in columns.items())
    assert not one.private


@pytest.mark.parametrize("name", SPECIAL)
def test_survives_being_saved_and_opened(name, tmp_path):
    made = released(name)
    made.save(tmp_path / "r.sfumato")
    opened = Release.load(tmp_path / "r.sfumato")
    assert answers(opened) == answers(made) and opened.options == made.options
    assert repr(opened.describe()) == repr(made.describe())
    about = made.content.about
    assert about.findings or about.examples or made.content.answers_counts


@pytest.mark.parametrize("name", SPECIAL)
def test_says_what_it_is_and_refuses_what_does_not_suit_it(name):
    mechanism = find_mechanism(name)
    assert mechanism.name == name and mechanism.summary and mechanism.paper and name not in MECHANISMS
    assert mechanism.lab.example is not None
    assert mechanism.with_options(mechanism.lab.tried_with).why_not(mechanism.lab.example(2)) is None
    assert (DOCS / mechanism.docs).exists()


@pytest.mark.parametrize("name", SPECIAL)
def test_asks_and_publishes_nothing_that_depends_on_the_table(name):
    """Replayed on 12 pairs of neighbouring tables out of all with two rows; `sfumato audit` replays them all."""
    mechanism = find_mechanism(name)
    made = mechanism.with_options(mechanism.lab.tried_with)
    assert mechanism.lab.example is not None
    for contributions in (1, 2):
        schema = mechanism.lab.example(contributions)
        half = next((measure.half_units for measure in schema.measures.values()), None)
        levels = ((),) if half is None else ((half,), (None,))
        pairs = list(neighbouring_tables(schema.domain.size, 2, contributions, levels))
        for seed, (one, other) in enumerate(pairs[:: max(1, len(pairs) // 6)]):
            found = replay(made.run, schema, one, other, Budget.pure(8), seed=seed)
            assert not found.complaints and found.loss <= 8 + 1e-9
