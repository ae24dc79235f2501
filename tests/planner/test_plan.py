"""Plans in both directions, and every way of asking for one."""

from fractions import Fraction
from pathlib import Path

import pytest
from curators import CENSUS
from registering import leave_only

import sfumato as sf
from sfumato.answers.noise_sum import half_width, stderr
from sfumato.errors import BudgetError, MechanismError, QueryError
from sfumato.kernel.budget import Budget, Cost
from sfumato.measurement import Laplace
from sfumato.models import MECHANISMS
from sfumato.plain_text import as_rows
from sfumato.planner import simulate
from sfumato.planner.choose import choose_mechanism
from sfumato.planner.forecast import Question, expected_error
from sfumato.planner.plan import make_plan
from sfumato.queries import default_workload
from sfumato.schema import Schema
from sfumato.sql import compile_select

PLAIN = Schema.from_dict({**CENSUS, "measures": {}, "expected_rows": 10_000})
SMALL = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {"x": {"type": "integer", "lower": 0, "upper": 15}},
        "expected_rows": 500,
    }
)
HUGE = Schema.from_dict(
    {
        "dataset": "huge",
        "privacy_unit": "row",
        "attributes": {name: {"type": "integer", "lower": 0, "upper": 999_999} for name in ("x", "y")},
        "expected_rows": 10**7,
    }
)


def line(plan, query):
    return next(line for line in plan.lines if line.query.startswith(query))


def test_counts_have_the_exact_error_of_their_cells():
    plan = make_plan(PLAIN, epsilon="0.5", mechanism="cells")
    noise = Laplace(Fraction(2))
    for query, cells in (("COUNT(*) FROM", 200), ("COUNT(*) ... GROUP BY age", 2), ("COUNT(*) of one cell", 1)):
        found = line(plan, query)
        assert found.stderr == pytest.approx(stderr([(1.0, noise, cells)]))
        assert found.within == half_width([(1.0, noise, cells)], 0.95)
        assert found.unit == "rows" and not found.guess


def test_ranges_have_the_mean_square_of_their_lengths_and_the_bound_of_the_longest():
    """All 5050 ranges of 100 ages hold 34 ages on average, of two sexes each."""
    found = line(make_plan(PLAIN, epsilon=1, mechanism="cells"), "COUNT(*) ... WHERE age BETWEEN ? AND ?")
    lengths = [last - first + 1 for first in range(100) for last in range(first, 100)]
    noise = Laplace(Fraction(1))
    assert found.stderr == pytest.approx((2 * sum(lengths) / len(lengths) * noise.variance) ** 0.5)
    assert 0.8 * half_width([(1.0, noise, 200)], 0.95) <= found.within <= half_width([(1.0, noise, 200)], 0.95)


def test_contributions_and_measures_share_the_budget():
    people = Schema.from_dict({**CENSUS, "privacy_unit": {"column": "p", "contributions": 3}})
    plan = make_plan(people, epsilon=1, mechanism="cells")
    assert line(plan, "COUNT(*) of one cell").stderr == pytest.approx(stderr([(1.0, Laplace(Fraction(6)), 1)]))
    assert line(plan, "SUM(income)").unit == "income"


def test_the_smallest_epsilon_keeps_its_promise_and_no_smaller_one_does():
    plan = make_plan(PLAIN, error=50, confidence=0.9, mechanism="cells")
    for found in plan.lines:
        assert found.within <= 50 and found.epsilon is not None
        less = make_plan(PLAIN, epsilon=found.epsilon * Fraction(97, 100), confidence=0.9, mechanism="cells")
        assert line(less, found.query).within > 50 * 0.97


@pytest.mark.full
def test_a_wanted_error_gives_an_epsilon_for_every_mechanism_and_the_smallest_is_chosen():
    plan = make_plan(SMALL, error=50, every=True)
    exact = {found.mechanism: found.epsilon for found in plan.outlooks if found.epsilon and not found.about}
    assert plan.choice.name == plan.mechanism == min(exact, key=exact.get)
    assert max(found.epsilon for found in plan.lines) == exact[plan.mechanism]
    assert all(found.epsilon is not None or found.note for found in plan.outlooks)


def test_the_plan_of_a_workload_is_the_error_of_its_release():
    sql = "SELECT sex, COUNT(*) AS n FROM census WHERE age < 10 GROUP BY sex"
    plan = make_plan(PLAIN, epsilon=1, mechanism="cells", workload=[(sql, compile_select(sql, PLAIN))])
    assert plan.lines[0].stderr == pytest.approx(stderr([(1.0, Laplace(Fraction(1)), 10)]))
    share = "SELECT COUNT(*) FILTER (WHERE age < 10) / COUNT(*) FROM census"
    plan = make_plan(PLAIN, epsilon=1, mechanism="cells", workload=share)
    assert plan.lines[0].guess and plan.lines[0].unit == "share" and 0 < plan.lines[0].stderr < 0.01


def test_a_workload_may_be_text_texts_or_a_file(tmp_path: Path):
    one, two = "SELECT COUNT(*) FROM census", "SELECT sex, COUNT(*) FROM census GROUP BY sex"
    file = tmp_path / "w.sql"
    file.write_text(f"{one};\n{two};\n")
    plans = [
        make_plan(PLAIN, epsilon=1, mechanism="cells", workload=asked)
        for asked in (f"{one};{two}", [one, two], file, str(file))
    ]
    assert [found.query for found in plans[0].lines] == [one, two]
    assert all(plan.lines == plans[0].lines for plan in plans)


def test_the_paper_promises_less_than_the_exact_noise_gives():
    plan = make_plan(PLAIN, epsilon=1, mechanism="cells")
    assert plan.every_query is not None and plan.paper is not None
    assert 5 * plan.every_query < plan.paper


def test_every_mechanism_is_priced_or_says_why_not():
    plan = make_plan(SMALL, epsilon=1, every=True)
    assert {found.mechanism for found in plan.outlooks} == set(MECHANISMS)
    for found in plan.outlooks:
        assert found.note if found.how == "not priced" else found.overall > 0 and len(found.lines) == len(plan.lines)
    assert plan.mechanism == plan.choice.name and plan.choice.why and plan.choice.unknown


@pytest.mark.full
def test_a_huge_domain_is_planned_in_its_sparse_form():
    for mechanism in ("auto", "sparse-cells", "cells"):
        plan = make_plan(HUGE, epsilon=1, mechanism=mechanism)
        assert plan.cells == 10**12 and plan.threshold == 36 and plan.every_query is None
        assert line(plan, "COUNT(*) FROM").stderr == pytest.approx(stderr([(1.0, Laplace(Fraction(10)), 1)]))
    assert make_plan(HUGE, epsilon=1).choice.name == "sparse-cells"
    least = make_plan(HUGE, error=100)
    assert line(least, "COUNT(*) FROM").within <= 100 and least.outlooks[0].epsilon == max(
        x.epsilon for x in least.lines
    )


def test_the_threshold_of_the_sparse_form_is_shown_for_small_domains_too():
    plan = make_plan(PLAIN, epsilon=1, mechanism="sparse-cells")
    assert plan.threshold and "are not published" in repr(plan)


@pytest.mark.parametrize("error", [0.0, -1.0, float("nan"), float("inf")])
def test_senseless_errors_are_refused(error):
    with pytest.raises(QueryError, match="--error"):
        make_plan(PLAIN, error=error)


def test_a_plan_needs_a_budget_or_an_error():
    with pytest.raises(BudgetError, match="--epsilon"):
        make_plan(PLAIN)
    with pytest.raises(BudgetError, match="give one of them"):
        make_plan(PLAIN, epsilon=1, error=50)
    with pytest.raises(QueryError, match="--confidence"):
        make_plan(PLAIN, epsilon=1, confidence=2)


def test_bad_workloads_are_refused():
    for empty in ("", " -- nothing\n", []):
        with pytest.raises(QueryError, match="no query"):
            make_plan(PLAIN, epsilon=1, workload=empty)
    with pytest.raises(QueryError, match="statement 2 of 2: no column 'height'"):
        make_plan(PLAIN, epsilon=1, workload="SELECT COUNT(*) FROM census; SELECT AVG(height) FROM census")
    with pytest.raises(QueryError, match="height"):
        make_plan(PLAIN, epsilon=1, workload="SELECT COUNT(*) FROM census WHERE height > 3")
    with pytest.raises(QueryError, match="cannot be read"):
        make_plan(PLAIN, epsilon=1, workload=Path("nowhere.sql"))
    with pytest.raises(MechanismError, match="no mechanism"):
        make_plan(PLAIN, epsilon=1, mechanism="magic")


def test_a_plan_reads_well_in_python():
    text = repr(sf.plan(PLAIN, epsilon=1, mechanism="cells"))
    assert "census: 200 cells, epsilon 1" in text and "theorem 5.2" in text and "nothing was spent" in text
    assert max(map(len, text.splitlines())) < 200


def line_of(cells, rows):
    attributes = {"x": {"type": "integer", "lower": 0, "upper": cells - 1}}
    stated = {} if rows is None else {"expected_rows": rows}
    return Schema.from_dict({"dataset": "w", "privacy_unit": "row", "attributes": attributes, **stated})


@pytest.mark.parametrize(("cells", "rows"), [(600, None), (600, 3000), (40, None), (40, 300)])
def test_a_plan_and_the_choice_have_one_forecast_of_what_adapts(cells, rows, monkeypatch):
    """By trial on few cells with stated rows, otherwise by formula; what is said of the only question is the same."""
    leave_only(monkeypatch, ["cells", "hierarchical", "sfumato"])
    schema = line_of(cells, rows)
    plan = make_plan(schema, epsilon="0.5", every=True)
    (mine,) = (found for found in plan.outlooks if found.mechanism == "sfumato")
    assert mine.how == ("simulated" if cells == 40 and rows else "foretold")
    (ranges,) = (found for found in mine.lines if "BETWEEN" in found.query)
    assert ranges.stderr == pytest.approx(mine.overall) and mine.best <= mine.overall <= mine.worst
    assert as_rows(mine.overall) in plan.choice.why
    exact = min(found.overall for found in plan.outlooks if found.how == "exact")
    assert (plan.choice.name == "sfumato") == (mine.overall <= exact)
    assert plan.choice.expected == min(mine.overall, exact)
    choice = choose_mechanism(schema, Budget.pure("0.5"))
    assert (choice.name, choice.expected, choice.why) == (plan.choice.name, plan.choice.expected, plan.choice.why)


def test_a_trial_is_made_once_for_a_plan_and_its_choice(monkeypatch):
    leave_only(monkeypatch, ["cells", "hierarchical", "sfumato"])
    tried, counted = [], simulate.try_out

    def counting(mechanism, schema, budget, *given, **how):
        tried.append((mechanism.name, budget))
        return counted(mechanism, schema, budget, *given, **how)

    monkeypatch.setattr(simulate, "try_out", counting)
    make_plan(line_of(32, 320), epsilon=1)
    assert len(tried) == len(set(tried)) == 2  # with a delta, too


@pytest.mark.parametrize("name", ["sfumato", "kdtree", "ispe", "dawa", "mwem", "pmw"])
def test_a_trial_without_measured_errors_has_the_same_estimates(name):
    schema, budget = line_of(32, 320), Budget.pure(1)
    asked = MECHANISMS[name], schema, budget, default_workload(schema.domain), 1
    whole, quick = (simulate.try_out(*asked, with_errors=measured).by_shape for measured in (True, False))
    for shape, (trial,) in whole.items():
        (other,) = quick[shape]
        assert (trial.off == other.off).all()
        assert len(other.content.about.measured) < len(trial.content.about.measured)


def test_a_delta_is_planned_with(monkeypatch):
    """Twelve attributes by margins, and a tree by name: Gaussian noise has less error, and the plan says so."""
    leave_only(monkeypatch, ["cells", "hierarchical", "sfumato", "margins"])
    names = [f"a{place}" for place in range(12)]
    axes = {name: {"type": "integer", "lower": 0, "upper": 9} for name in names}
    wide = Schema.from_dict({"dataset": "w", "privacy_unit": "row", "attributes": axes})
    plain, with_it = make_plan(wide, epsilon=1), make_plan(wide, epsilon=1, delta="1e-9")
    assert (plain.delta, with_it.delta) == (0, Fraction(1, 10**9))
    assert with_it.lines[1].stderr < 0.8 * plain.lines[1].stderr and "delta" not in str(with_it.remarks)
    assert "epsilon 1, delta 1e-9 (Gaussian noise)" in repr(with_it) and "would be off" in str(plain.remarks)
    pair = [make_plan(SMALL, epsilon=1, delta=delta, mechanism="hierarchical") for delta in (None, "1e-9")]
    budgets = Budget.pure(1), Cost.stated(1, "1e-9").budget
    for plan, budget in zip(pair, budgets, strict=True):
        asked = Question(SMALL, (), default_workload(SMALL.domain))
        assert plan.outlooks[0].overall == expected_error(MECHANISMS["hierarchical"], asked, budget).overall
    assert make_plan(SMALL, epsilon=1, delta="1e-9", mechanism="cells").delta == 0  # which has no use for it
    smallest = [make_plan(SMALL, error=40, delta=delta, mechanism="hierarchical") for delta in (None, "1e-9")]
    assert smallest[0].lines[0].epsilon != smallest[1].lines[0].epsilon
    with pytest.raises(BudgetError, match="delta"):
        make_plan(SMALL, epsilon=1, delta=2)
