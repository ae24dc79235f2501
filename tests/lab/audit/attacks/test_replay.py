"""The replay audit: shipped mechanisms pass on every small table, broken ones are caught and named."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from registering import slow_mechanisms
from thinned import EVERY, every_97th_pair, every_seventh_pair

from sfumato.domain import Partition
from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Load
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.noise import draw
from sfumato.kernel.verbs.scores import Rank
from sfumato.lab.audit.attacks.replay import DRAWS, replay, replay_findings
from sfumato.lab.audit.mutants.outputs import fitted_evenly, told_beside_the_fit
from sfumato.lab.audit.subjects.subject import Row, most_rows, neighbouring_tables, small_schema
from sfumato.measurement import Gaussian, Laplace, Measurement
from sfumato.models import MECHANISMS
from sfumato.models.cells.cells import cells, sparse_cells
from sfumato.queries import Identity, Total
from sfumato.schema import Schema

FOUR = small_schema(4, 1, measured=False)
TWICE = small_schema(4, 2, measured=False)
TABLE = [Row(0, 2), Row(1, 0), Row(2, 0)]


def complaints(run, *, schema=FOUR, table=TABLE, curator=Curator, budget=None) -> str:
    """What is complained about when person 0 leaves the table, and when person 0 joins."""
    without = [row for row in table if row.person != 0]
    found = replay(run, schema, table, without, budget, curator=curator).complaints
    found += replay(run, schema, without, table, budget, curator=curator).complaints
    return "; ".join(dict.fromkeys(complaint.what for complaint in found))


# -- shipped


SLOW = slow_mechanisms()


@pytest.mark.parametrize("name", MECHANISMS)
def test_shipped_mechanisms_pass_on_all_small_tables(name, full, monkeypatch):
    """On all of them; on every seventh pair those that take many milliseconds each, unless in full."""
    one = MECHANISMS[name]
    weighed = [] if one.why_not(small_schema(3, 1, measured=True, weighed=True)) else [600, 63]
    pairs = [140, 1092, 290, 2106, 60, *weighed]
    if not full and (one.adaptive or one.holds.by_margins or name in SLOW):
        every_seventh_pair(monkeypatch)
        pairs = [-(-number // EVERY) for number in pairs]
    findings = replay_findings(name)
    assert [finding.pairs for finding in findings] == pairs
    for finding in findings:
        assert finding.sound, (finding.name, finding.complaints[0])
        assert finding.loss <= 8 + 1e-9
        # All that is claimed is spent, so that nothing is overlooked. Only mwem keeps a little, for its choices among
        # few queries move by less than an exponential mechanism is allowed to; and a seventh may lack the worst pair.
        slack = {"mwem": 2.0, "pmw": 8e-6 if full else 1.0}.get(name, 8e-6)
        few = finding.pairs < 100 and finding.name.endswith("with weights")  # a seventh of them lacks the worst pair
        assert few or finding.loss == pytest.approx(8, abs=slack), finding.name


@pytest.mark.parametrize("name", MECHANISMS)
def test_shipped_mechanisms_pass_on_every_97th_pair(name, monkeypatch):
    """A few of the pairs above, others with every commit: a leak on one pair in ten is missed by one run in forty."""
    every_97th_pair(monkeypatch)
    findings = replay_findings(name)
    assert sum(finding.pairs for finding in findings) >= 35
    for finding in findings:
        assert finding.sound, (finding.name, finding.complaints[0])
        assert finding.loss <= 8 + 1e-9


def counted(monkeypatch, run, **named):
    """Findings, and on how many tables the mechanism was run."""
    ran: list[object] = []

    def counting(curator, schema, budget):
        ran.append(schema)
        return run(curator, schema, budget)

    return replay_findings("counted", counting, **named), len(ran)


def all_cells(curator, schema, budget):
    return curator.measure(Identity(schema.domain.size), budget)


def test_every_table_is_run_once_for_a_transcript_and_compared_with_all_its_neighbours(monkeypatch):
    """Work is counted, not timed: 4,351 pairs by 1,955 runs, where two for each pair would be 8,702."""
    findings, ran = counted(monkeypatch, all_cells)
    assert [finding.pairs for finding in findings] == [140, 1092, 290, 2106, 60, 600, 63]
    tables = [comb(4 + rows, rows) for rows in (4, 3, 2, 1)], [comb(12 + rows, rows) for rows in (3, 2, 1)]
    transcripts = 2 * (4 + 3) + 3
    assert 2 * sum(map(sum, tables)) + sum(comb(4 + rows, rows) for rows in (3, 2, 1)) == 1423
    weighted = 413  # tables of rows with weights, of one row and of two rows a person, with their transcripts
    assert ran - weighted == 1423 + (DRAWS - 1) * transcripts == 1542
    assert all(finding.sound and finding.loss == pytest.approx(8) for finding in findings)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cell", range(3))
def test_a_leak_that_opens_only_after_some_answers_is_found_whatever_the_transcripts(cell, seed, monkeypatch):
    """The first answers say that a cell is empty, and only then the second scale is taken from the table.

    Transcripts of one row leave all but one cell empty, so that whichever cell it is, one of them opens the leak.
    """

    def leaking(curator, schema, budget):
        first, second = budget.evenly(2)
        seen = curator.measure(Identity(schema.domain.size), first)
        spoilt = seen.answers[cell] <= 0 and cell in curator._aggregate.cells
        scale = 1 / (second.epsilon / curator.charge.contributions)
        return seen, curator.measure(Identity(schema.domain.size), scales=scale * (2 if spoilt else 1))

    findings = replay_findings("leaking", leaking, seed=seed)
    words = {complaint.what for finding in findings for complaint in finding.complaints}
    assert "queries, scales or thresholds depend on the table" in words


def test_small_tables_are_all_pairs_once():
    pairs = [(tuple(one), tuple(other)) for one, other in neighbouring_tables(2, 2, 1)]
    assert len(set(pairs)) == len(pairs) == 6
    assert all(set(one) - set(other) == {one[-1]} and one[-1].person == 0 for one, other in pairs)


@st.composite
def schemas(draw_from) -> Schema:
    attributes = {
        f"a{i}": {"type": "integer", "lower": 0, "upper": draw_from(st.integers(1, 3))}
        for i in range(draw_from(st.integers(1, 2)))
    }
    measures = {
        f"m{i}": {"lower": draw_from(st.integers(-5, 0)), "upper": draw_from(st.integers(1, 9)), "step": 1}
        for i in range(draw_from(st.integers(0, 2)))
    }
    unit = {"column": "person", "contributions": draw_from(st.integers(1, 3))}
    keys = {"dataset": "t", "privacy_unit": unit, "attributes": attributes}
    return Schema.from_dict(keys | ({"measures": measures} if measures else {}))


@st.composite
def tables(draw_from, schema: Schema) -> list[Row]:
    rows = []
    for person in range(draw_from(st.integers(1, 5))):
        for _ in range(draw_from(st.integers(1, schema.privacy_unit.contributions))):
            halves = [measure.half_units for measure in schema.measures.values()]
            steps = tuple(draw_from(st.integers(-half, half)) for half in halves)
            rows.append(Row(person, draw_from(st.integers(0, schema.domain.size - 1)), steps))
    return rows


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_shipped_mechanisms_pass_on_drawn_tables(data):
    """Each example takes every person away in turn and so is about three pairs for each mechanism.

    Of the slow ones each example tries one.
    """
    schema = data.draw(schemas())
    table = data.draw(tables(schema))
    budget = Budget.pure(data.draw(st.sampled_from(["1/3", "1", "7.5", "30"])))
    seed = data.draw(st.integers(0, 2**32))
    slow = data.draw(st.sampled_from(SLOW))
    for name, mechanism in MECHANISMS.items():
        if name in SLOW and name != slow:
            continue
        for person in {row.person for row in table}:
            rest = [row for row in table if row.person != person]
            assert replay(mechanism.run, schema, table, rest, budget, seed=seed).complaints == [], name


def adaptive(curator, schema, budget):
    """Looks at what was published to decide what to ask next, through every verb; this is allowed."""
    first, second, third = budget.evenly(3)
    best = curator.select(most_rows(4), first)
    halves = Partition(curator.domain, np.array([0, 0, 1, 1]))
    total = curator.reduce(halves).measure(Identity(2), second)
    parts = [curator.reduce(Partition(curator.domain, np.array(half))) for half in ([0, 1, -1, -1], [-1, -1, 0, 1])]
    busier = parts[int(total.answers[1] > total.answers[0])]
    scale = 1 / third.epsilon * curator.charge.contributions * (1 if best else 2)
    return best, total, busier.measure(Identity(2), scales=scale), parts[0].charge.fullest


def choosing(curator, schema, budget):
    return [curator.select(Rank(Fraction(i, 4)), share) for i, share in enumerate(budget.evenly(5))]


def uneven(curator, schema, budget):
    loads = budget.epsilon / curator.charge.contributions
    return curator.measure(Identity(4), scales=[1 / loads, 2 / loads, 1 / loads, 3 / loads])


@pytest.mark.parametrize("run", [adaptive, choosing, uneven])
@pytest.mark.parametrize("schema", [FOUR, TWICE])
def test_other_correct_mechanisms_pass(run, schema):
    pairs = neighbouring_tables(4, 3, schema.privacy_unit.contributions)
    for seed, (one, other) in enumerate(pairs):
        assert replay(run, schema, one, other, seed=seed).complaints == []
        assert replay(run, schema, other, one, seed=seed).complaints == []


def test_gaussian_noise_is_counted_in_rho():
    def run(curator, schema, budget):
        return curator.measure(Identity(4), budget), curator.charge.fullest

    twice = [Row(0, 2), Row(0, 2), Row(1, 0)]
    found = replay(run, TWICE, twice, twice[2:], Budget.zcdp("1/2"))
    assert not found.complaints and found.loss == pytest.approx(0.5)


def test_the_loss_is_that_of_the_rows_that_differ():
    found = replay(cells, TWICE, [Row(0, 2), Row(0, 3), Row(1, 0)], [Row(1, 0)])
    assert not found.complaints and found.loss == pytest.approx(1)
    assert replay(cells, TWICE, TABLE, TABLE[1:]).loss == pytest.approx(0.5)
    assert replay(cells, TWICE, TABLE, TABLE).loss == 0


def test_tables_that_are_no_neighbours_are_refused():
    for other in ([], [Row(1, 1), Row(2, 0)], [Row(1, 0)]):
        with pytest.raises(PrivacyError, match="no neighbours"):
            replay(cells, FOUR, TABLE, other)
    with pytest.raises(PrivacyError, match="no neighbours"):
        replay(cells, FOUR, [Row(0, 1), Row(0, 2)], [])
    with pytest.raises(PrivacyError, match="more steps of m"):
        replay(cells, small_schema(4, 1, measured=True), [Row(0, 1, (3,))], [])


# -- broken mechanisms


def test_a_scale_that_depends_on_the_table_is_caught():
    def run(curator, schema, budget):
        rows = int(curator._aggregate.counts.sum())
        return curator.measure(Identity(4), scales=Fraction(10 + rows))

    found = complaints(run)
    assert "scales or thresholds depend on the table" in found and "reached for _aggregate" in found


def test_one_query_more_for_a_cell_that_is_not_empty_is_caught():
    def run(curator, schema, budget):
        first, second = budget.evenly(2)
        made = curator.measure(Total(4), first)
        if 2 in curator._aggregate.cells:
            curator.measure(Total(4), second)
        return made

    assert "more calls on one table" in complaints(run)


def test_another_query_for_another_table_is_caught():
    def run(curator, schema, budget):
        return curator.measure((Identity(4) if 2 in curator._aggregate.cells else Total(4)), scales=Fraction(1))

    assert "queries, scales or thresholds depend" in complaints(run)


def test_a_threshold_from_the_table_is_caught():
    def run(curator, schema, budget):
        return curator.measure(Identity(4), budget, above=1 + len(curator._aggregate.cells))

    assert "thresholds depend on the table" in complaints(run)


def test_the_exact_number_of_rows_is_caught():
    def run(curator, schema, budget):
        return cells(curator, schema, budget), int(curator._aggregate.counts.sum())

    assert "what is made of the answers depends on the table" in complaints(run)


def test_counts_that_no_field_of_a_fit_shows_are_caught_in_what_its_file_would_hold():
    found = complaints(told_beside_the_fit)
    assert found == "what is made of the answers depends on the table"
    assert complaints(fitted_evenly) == ""


def test_an_error_that_depends_on_the_table_is_caught():
    def run(curator, schema, budget):
        if 2 in curator._aggregate.cells:
            raise PrivacyError("no")
        return cells(curator, schema, budget)

    assert "refused" in complaints(run)

    def crash(curator, schema, budget):
        made = cells(curator, schema, budget)
        return made, 1 / (2 - len(curator._aggregate.cells))

    assert "failed: ZeroDivisionError" in complaints(crash)


def test_budget_spent_twice_is_refused_or_caught():
    def run(curator, schema, budget):
        return cells(curator, schema, budget), cells(curator, schema, budget)

    assert "refused" in complaints(run)

    def forgetful(curator, schema, budget):
        first = cells(curator, schema, budget)
        curator.charge._loads = 0
        return first, cells(curator, schema, budget)

    found = complaints(forgetful)
    assert "changed between two calls" in found and "more than what was claimed" in found


# -- broken curators


class ScaleFromTheTable(Curator):
    def _noises(self, queries, unit, budget, scales, which):
        noises, which = super()._noises(queries, unit, budget, scales, which)
        return tuple(Laplace(noise.scale + len(self._aggregate.cells)) for noise in noises), which


class ReusesNoise(Curator):
    def measure(self, queries, budget=None, *, of="count", scales=None, which=None, above=None):
        noises, which = self._noises(queries, self._unit(of), budget, scales, which)
        self.charge.admit(self._loads(queries, self._unit(of), noises, which))
        answers = self._answers(queries, of) + draw(noises[0], 1, self._entropy)[0]
        return Measurement(of, queries, answers, noises, which)


class HalvesNoise(Curator):
    def measure(self, queries, budget=None, *, of="count", scales=None, which=None, above=None):
        noises, which = self._noises(queries, self._unit(of), budget, scales, which)
        self.charge.admit(self._loads(queries, self._unit(of), noises, which))
        answers = self._answers(queries, of)
        drawn = draw(Laplace(noises[0].scale / 2), len(answers), self._entropy)
        return Measurement(of, queries, answers + drawn, noises, which)


class LeavesZeros(Curator):
    def measure(self, queries, budget=None, *, of="count", scales=None, which=None, above=None):
        made = super().measure(queries, budget, of=of, scales=scales, above=above)
        truth = self._answers(queries, of)
        return Measurement(of, queries, np.where(truth == 0, 0, made.answers), made.noises, made.which)


class OwnNoise(Curator):
    def measure(self, queries, budget=None, *, of="count", scales=None, which=None, above=None):
        made = super().measure(queries, budget, of=of, scales=scales, above=above)
        extra = int(self._entropy.words(1)[0] % 2)
        return Measurement(of, queries, made.answers + extra, made.noises, made.which)


class ChargesOneRow(Curator):
    """Charges for half of what it answers."""

    def _loads(self, queries, unit, noises, which):
        return [Load(load.amounts, load.unit / 2) for load in super()._loads(queries, unit, noises, which)]


class ChargesFirstCell(Curator):
    """Charges the first query's cells and answers all."""

    def _loads(self, queries, unit, noises, which):
        return super()._loads(queries[[0]], unit, noises, None)


class ForgetsRows(Curator):
    """Noise for one row per person where there may be two."""

    def _noises(self, queries, unit, budget, scales, which):
        noises, which = super()._noises(queries, unit, budget, scales, which)
        return tuple(Laplace(noise.scale / self.charge.contributions) for noise in noises), which

    def _loads(self, queries, unit, noises, which):
        return [
            Load(load.amounts, load.unit / self.charge.contributions)
            for load in super()._loads(queries, unit, noises, which)
        ]


class PublishesFullCells(Curator):
    """Compares the count without its noise."""

    def _sift(self, above, noise):
        drawn = super()._sift(above, noise)
        held = np.isin(drawn[0], self._aggregate.cells)
        return drawn[0][held], drawn[1][held]


class ForgetsEmptyCells(Curator):
    def _sift(self, above, noise):
        noisy = self._aggregate.counts + draw(noise, len(self._aggregate.cells), self._entropy)
        return self._aggregate.cells[noisy >= above], noisy[noisy >= above]


class ChoosesWithoutCharge(Curator):
    def select(self, score, budget):
        before = self.charge._loads, self.charge._denominator
        made = super().select(score, budget)
        self.charge._loads, self.charge._denominator = before
        return made


class ChoosesTheBest(Curator):
    def select(self, score, budget):
        super().select(score, budget)
        return int(np.argmax(score.scores(self._dense("count"))))


def test_the_unbroken_control_passes():
    for run in (cells, sparse_cells, choosing):
        assert complaints(run) == ""
        assert complaints(run, schema=TWICE, table=[Row(0, 2), *TABLE]) == ""


@pytest.mark.parametrize(
    ("curator", "run", "words"),
    [
        (ScaleFromTheTable, cells, "scales or thresholds depend on the table"),
        (ReusesNoise, cells, "afresh for every answer"),
        (HalvesNoise, cells, "not the noise stated"),
        (LeavesZeros, cells, "plus the noise drawn"),
        (OwnNoise, cells, "past the exact samplers"),
        (ChargesOneRow, cells, "more than what was charged"),
        (ChargesFirstCell, cells, "more than what was charged"),
        (ForgetsRows, cells, "more than what was claimed"),
        (ForgetsEmptyCells, sparse_cells, "afresh for every cell"),
        (ChoosesWithoutCharge, choosing, "more than what was charged"),
        (ChoosesTheBest, choosing, "not made by one exponential mechanism"),
    ],
)
def test_broken_curators_are_caught(curator, run, words):
    assert words in complaints(run, schema=TWICE, table=[Row(0, 2), *TABLE], curator=curator)


def test_a_sift_that_forgets_empty_cells_that_passed_is_caught():
    """Empty cells pass at this threshold every other time, so that 20 seeds miss it with a chance below 1e-6."""

    def run(curator, schema, budget):
        return curator.measure(Identity(4), budget, above=1)

    found = [
        complaint.what
        for seed in range(20)
        for complaint in replay(run, FOUR, TABLE, TABLE[1:], curator=PublishesFullCells, seed=seed).complaints
    ]
    assert "other cells are published than those that reach the threshold" in found


def test_findings_name_the_tables_and_stop_after_some_complaints():
    findings = replay_findings("halved", cells, curator=HalvesNoise)
    assert not any(finding.sound for finding in findings)
    assert all(20 <= len(finding.complaints) < 30 for finding in findings)
    first = findings[0].complaints[0]
    assert (first.one, first.other) == ((Row(0, 0),), ())


def test_gaussian_noise_too_small_is_caught():
    class Quieter(Curator):
        def _loads(self, queries, unit, noises, which):
            return [Load(load.amounts, load.unit / 4) for load in super()._loads(queries, unit, noises, which)]

        def _noises(self, queries, unit, budget, scales, which):
            ((noise,), which) = super()._noises(queries, unit, budget, scales, which)
            return (Gaussian(noise.sigma_squared / 4),), which

    def run(curator, schema, budget):
        return curator.measure(Identity(4), budget)

    assert "more than what was claimed" in complaints(run, curator=Quieter, budget=Budget.zcdp("1/2"))
