"""The whole line from table to file: order of work, crashes, concurrency, and what one person changes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import warnings
import zipfile
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from curators import CENSUS
from registering import leave_only, register

from sfumato.cli.show import left
from sfumato.errors import (
    BudgetError,
    BudgetExhausted,
    LedgerError,
    MechanismError,
    NewLedgerWarning,
    PrivacyError,
    QueryError,
    ReleaseFileError,
    RepeatedRelease,
    SchemaError,
    SfumatoError,
)
from sfumato.kernel.budget import epsilon_for
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.measurement import Gaussian, Laplace
from sfumato.models import MECHANISMS
from sfumato.models.base.measure_and_fit import measure_and_fit
from sfumato.models.base.mechanism import Forecast, Mechanism
from sfumato.publishing.prepare import Request, prepare
from sfumato.publishing.publish import publish as publish_by_any
from sfumato.publishing.publish import release as release_by_any
from sfumato.queries import Identity, Kron, Total, Tree, Workload
from sfumato.queries.strategy import Strategy
from sfumato.releases.release import open_release
from sfumato.schema import Schema

# The line from table to file is the same for all mechanisms; the plainest one needs no time to be chosen.
release = partial(release_by_any, mechanism="cells")


def publish(table, schema, epsilon, out, *, step, entropy=None, **more):
    request = Request(schema, epsilon, **{"mechanism": "cells", **more})
    return publish_by_any(table, request, out, step=step, entropy=entropy)


STEPS = ("check", "reserve", "read", "measure", "write", "publish", "done")


def people(number: int = 500) -> pa.Table:
    rows = np.arange(number)
    return pa.table(
        {
            "person_id": rows,
            "age": rows * 7 % 100,
            "sex": np.where(rows % 3 == 0, "F", "M"),
            "income": rows % 1000 * 1.0,
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "census.parquet"
    pq.write_table(people(), path)
    return path


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    path = tmp_path / "census.yaml"
    path.write_text(json.dumps(CENSUS))  # JSON is YAML
    return path


def test_a_release_can_be_saved_opened_and_asked_again(table, census, tmp_path):
    made = release(table, census, "0.5")
    made.save(tmp_path / "r.sfumato")
    opened = open_release(tmp_path / "r.sfumato")
    sql = "SELECT sex, COUNT(*) AS n, SUM(income) AS s, AVG(income) AS a FROM census WHERE age < 50 GROUP BY sex"
    assert opened.query(sql).records() == made.query(sql).records()
    assert opened.guarantee == made.guarantee and opened.receipt == made.receipt
    assert opened.private


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_notebook_that_is_run_twice_spends_once(table, census, in_memory, own_ledger):
    """A frame has no name, so another one counts as the same table; what was released before is named."""

    def run(epsilon="0.5", **more):
        return release(people() if in_memory else table, census, epsilon, **more)

    first = run()
    with pytest.raises(RepeatedRelease, match=r"dataset 'census'.*entry 1 of 20.*epsilon 0.5 once more.*again=True"):
        run()
    assert len(Ledger().entries("census")) == 1 and Ledger().account("census").spent == first.guarantee.epsilon
    run(again=True)
    run("0.25")  # another cost is another request, and the last one then
    run()
    assert Ledger().account("census").spent == Fraction(7, 4)


def test_frames_and_files_give_the_same_release(table, census, tmp_path):
    frame = people()
    answers = []
    for number, source in enumerate((table, frame, frame.to_pandas(), str(table))):
        book = tmp_path / f"ledger-{number}.sqlite"
        made = release(source, census, 1, ledger=book, entropy=TestingEntropy(3))
        answers.append(made.query("SELECT sex, COUNT(*) AS n, SUM(income) AS s FROM census GROUP BY sex").records())
    assert all(answer == answers[0] for answer in answers)


def test_at_a_huge_epsilon_the_answers_are_the_truth(table, tmp_path):
    schema = Schema.from_dict({**CENSUS, "budget": {"epsilon": 100_000}})
    made = release(table, schema, 100_000)
    result = made.query("SELECT sex, COUNT(*) AS n, SUM(income) AS s FROM census WHERE age >= 50 GROUP BY sex")
    frame = people().to_pandas()
    for sex, count, income in result:
        mine = frame[(frame.sex == sex) & (frame.age >= 50)]
        assert count.value == len(mine)
        assert income.value == pytest.approx(mine.income.sum(), abs=1.0)


def test_a_second_release_beyond_the_budget_is_refused(table, census, tmp_path):
    release(table, census, 2)
    with pytest.raises(BudgetExhausted):
        release(table, census, 2)
    release(table, census, 1)
    assert left(Ledger().show()[0]) == 0


def test_two_processes_at_once_cannot_both_have_the_last_of_the_budget(table, schema_file, tmp_path):
    command = [
        sys.executable,
        "-m",
        "sfumato",
        "release",
        str(table),
        "--schema",
        str(schema_file),
        "--epsilon",
        "2",
        "--mechanism",
        "cells",
    ]
    runs = [
        subprocess.Popen([*command, "-o", str(tmp_path / f"{n}.sfumato")], stderr=subprocess.PIPE, text=True)
        for n in range(2)
    ]
    errors = [run.communicate(timeout=120)[1] for run in runs]
    assert sorted(run.returncode for run in runs) == [0, 1]
    assert "left" in next(error for run, error in zip(runs, errors, strict=True) if run.returncode == 1)
    assert len(list(tmp_path.glob("*.sfumato"))) == 1
    assert Ledger().show()[0].spent == 2


@pytest.mark.parametrize("fatal", STEPS)
def test_killed_at_any_step_the_ledger_counts_what_could_have_been_published(fatal, table, schema_file, tmp_path):
    script = textwrap.dedent(
        f"""
        import os, signal
        from sfumato.publishing.publish import publish
        from sfumato.publishing.prepare import Request
        from sfumato.schema import Schema
        def step(name):
            if name == {fatal!r}:
                os.kill(os.getpid(), signal.SIGKILL)
        schema, out = Schema.load({str(schema_file)!r}), {str(tmp_path / "r.sfumato")!r}
        publish({str(table)!r}, Request(schema, 2, mechanism="cells"), out, step=step)
        """
    )
    run = subprocess.run([sys.executable, "-c", script], timeout=120, check=False)
    assert run.returncode == -signal.SIGKILL
    accounts = Ledger().show()
    spent = accounts[0].spent if accounts else Fraction(0)
    assert spent == (0 if fatal in ("check", "reserve") else 2)
    file = tmp_path / "r.sfumato"
    assert file.exists() == (fatal in ("publish", "done"))
    if file.exists():
        assert open_release(file).query("SELECT COUNT(*) FROM census").rows
    if fatal not in ("check", "reserve"):  # a retry pays again: it never draws on the old debit
        with pytest.raises(BudgetExhausted):
            release(table, Schema.load(schema_file), 2)


def test_one_person_changes_only_the_noisy_values_they_touch(table, census, tmp_path, caplog):
    """The noise is frozen, and one person is left out."""
    fewer = tmp_path / "fewer.parquet"
    pq.write_table(people().slice(1), fewer)
    with_her, without_her = tmp_path / "with", tmp_path / "without"
    logs = []
    for folder, source in ((with_her, table), (without_her, fewer)):
        folder.mkdir()
        Ledger(tmp_path / "ledger.sqlite").set_budget("census", 3)
        (folder / "ledger.sqlite").write_bytes((tmp_path / "ledger.sqlite").read_bytes())
        caplog.clear()
        seen: list[str] = []
        publish(
            source,
            census,
            1,
            folder / "r.sfumato",
            ledger=Ledger(folder / "ledger.sqlite"),
            mechanism="cells",
            entropy=TestingEntropy(42),
            step=seen.append,
        )
        logs.append((seen, caplog.text))
    assert logs[0] == logs[1]

    manifests, sizes, values = [], [], []
    for folder in (with_her, without_her):
        file = folder / "r.sfumato"
        with zipfile.ZipFile(file) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            names = archive.namelist()
        for member in manifest["members"].values():
            member.pop("sha256"), member.pop("bytes")
        manifest.pop("digest")
        manifests.append((manifest, names))
        sizes.append(file.stat().st_size)
        values.append(open_release(file, allow_not_private=True).content.about.measured)
    assert manifests[0] == manifests[1]
    assert abs(sizes[0] - sizes[1]) < 0.02 * sizes[0]
    bounds = {"count": 1, "income": census.measures["income"].half_units}
    for one, other in zip(*values, strict=True):
        difference = one.answers - other.answers
        assert np.flatnonzero(difference).tolist() == [0]  # she is 0 years old, in the first cell
        assert abs(difference[0]) <= bounds[one.of]


def test_a_testing_release_is_marked_and_not_served(table, census, tmp_path):
    release(table, census, 1, entropy=TestingEntropy(1)).save(tmp_path / "r.sfumato")
    with pytest.raises(PrivacyError, match="NOT PRIVATE"):
        open_release(tmp_path / "r.sfumato")
    assert not open_release(tmp_path / "r.sfumato", allow_not_private=True).private


def test_an_earlier_release_is_never_overwritten(table, census, tmp_path):
    out = tmp_path / "r.sfumato"
    first = publish(table, census, 1, out, step=lambda name: None)
    before = out.read_bytes()
    second = publish(table, census, 1, out, step=lambda name: None, again=True)
    assert first.kept is None and second.kept is not None
    assert second.kept.read_bytes() == before and out.read_bytes() != before


@pytest.mark.parametrize("out", ["missing/r.sfumato", "."])
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_spent(out, table, census, tmp_path):
    with pytest.raises(ReleaseFileError):
        publish(table, census, 1, tmp_path / out, step=lambda name: None)
    assert Ledger().show() == []


def test_an_unknown_mechanism_is_refused_before_anything_is_spent(table, census):
    with pytest.raises(MechanismError, match="auto, cells, sparse-cells"):
        release(table, census, 1, mechanism="magic")
    assert Ledger().show() == []


def test_an_empty_table_is_released_like_any_other(census, tmp_path):
    """Refusing it would tell that it is empty: one person more and the answer would be another."""
    made = release(people(0), census, 1)
    (count,) = made.query("SELECT COUNT(*) AS n FROM census").rows[0]
    assert abs(count.value) < 6 * count.stderr  # chance of more: below 1e-6


def test_the_ledger_knows_the_published_file(table, census, tmp_path):
    from sfumato.kernel.ledger.ledger import Receipt
    from sfumato.releases.file.artifact import read_artifact

    publish(table, census, 1, tmp_path / "r.sfumato", step=lambda name: None)
    artifact = read_artifact(tmp_path / "r.sfumato")
    receipt = Receipt.from_dict(artifact.manifest.receipt)
    Ledger().verify(receipt, artifact.digest)
    Ledger().path.unlink()  # a fresh ledger cannot vouch for it
    Ledger().set_budget("census", 3)
    with pytest.raises(SfumatoError):
        Ledger().verify(receipt, artifact.digest)


def test_an_epsilon_that_asks_for_impossible_noise_is_refused_before_anything_is_spent(table, census):
    with pytest.raises(BudgetError, match="64 bits"):
        release(table, census, "1e-18")
    assert Ledger().show() == []


# Two privacy units, and ledgers that are new or required

BY_ROW = {**CENSUS, "privacy_unit": "row"}


def test_another_privacy_unit_is_refused_before_the_table_is_read(table, census, tmp_path):
    release(table, census, 1)
    steps: list[str] = []
    with pytest.raises(BudgetError, match=r"any one row.*epsilon 1 to the rows of any one person_id.*another_unit"):
        publish(table, Schema.from_dict(BY_ROW), 1, tmp_path / "r.sfumato", step=steps.append)
    assert steps == ["plan", "check", "reserve"] and not (tmp_path / "r.sfumato").exists()
    assert Ledger().account("census").spent == 1


def test_another_privacy_unit_that_is_stated_is_a_second_promise(table, census, tmp_path):
    release(table, census, 1)
    made = release(table, Schema.from_dict(BY_ROW), "0.5", another_unit=True)
    assert made.guarantee.unit == "any one row"
    more = {**CENSUS, "privacy_unit": {"column": "person_id", "contributions": 3}}
    publish(table, Schema.from_dict(more), 1, tmp_path / "r.sfumato", step=lambda name: None)  # the same promise
    people, rows = Ledger().account("census").promises
    assert (people.spent, people.contributions, rows.spent) == (2, (1, 3), Fraction(1, 2))
    assert made.guarantee.unit == rows.whom
    with pytest.raises(BudgetExhausted):  # the total bounds both together
        publish(table, census, 1, tmp_path / "s.sfumato", step=lambda name: None, another_unit=True)


def test_a_release_that_makes_a_ledger_says_so(table, census):
    with pytest.warns(NewLedgerWarning, match="knows of no earlier release") as said:
        release(table, census, 1)
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release(table, census, 1, again=True)


def test_a_release_without_the_ledger_that_is_required_makes_none(table, census, own_ledger):
    steps: list[str] = []
    with pytest.raises(LedgerError, match="a ledger is required, but there is none"):
        release(table, census, 1, ledger=Ledger(required=True), step=steps.append)
    assert steps == ["plan", "check", "reserve"] and not own_ledger.exists()


def test_a_schema_that_names_its_ledger_is_released_with_no_other(table, census, own_ledger, tmp_path):
    Ledger().set_budget("census", 3)
    named = Schema.from_dict({**CENSUS, "ledger": Ledger().identity()})
    made = release(table, named, 1)
    assert made.receipt["ledger"] == named.ledger
    for elsewhere in ("new.sqlite", "other.sqlite"):
        if elsewhere == "other.sqlite":
            Ledger(tmp_path / elsewhere).set_budget("census", 3)
        with pytest.raises(LedgerError, match=f"the schema requires the ledger {named.ledger}"):
            release(table, named, 1, ledger=tmp_path / elsewhere)
    assert not (tmp_path / "new.sqlite").exists() and Ledger(tmp_path / "other.sqlite").entries() == []
    made.save(tmp_path / "r.sfumato")
    assert open_release(tmp_path / "r.sfumato").content.schema == named


# Linear mechanisms, Gaussian noise, workloads

COARSE = {**CENSUS, "measures": {"income": {"lower": 0, "upper": 1000, "step": 1, "missing": "drop"}}}
SQL = "SELECT sex, COUNT(*) AS n, SUM(income) AS s, AVG(income) AS a FROM census WHERE age < 50 GROUP BY sex"


def tree_strategy(schema, workload, pure):
    return Strategy(Kron(Tree(100, 4), Identity(2)))


def tree_run(curator, schema, budget, workload=None):
    return measure_and_fit(curator, schema, tree_strategy(schema, workload, True), budget)


@pytest.fixture
def tree(monkeypatch):
    """A linear mechanism that takes both kinds of budget, whatever else there is."""
    return register(
        monkeypatch, Mechanism("tree", "a tree", tree_run, gaussian=True, forecast=Forecast(strategy=tree_strategy))
    )


def test_linear_algebra_runs_in_one_thread_while_a_mechanism_works(monkeypatch, table):
    """So that the same random bits give the same digits, in a notebook as on the command line."""
    from threadpoolctl import threadpool_info, threadpool_limits

    threads = []

    def run(*given):
        threads.append([each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"])
        return tree_run(*given)

    register(monkeypatch, Mechanism("tree", "a tree", run, gaussian=True, forecast=Forecast(strategy=tree_strategy)))
    with threadpool_limits(2, user_api="blas"):
        release(table, Schema.from_dict(COARSE), 1, mechanism="tree")
        after = [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
    assert threads == [[1] * len(after)] and after and set(after) == {2}


def test_epsilon_and_delta_are_charged_and_promised(table, tree, tmp_path):
    made = release(table, Schema.from_dict(COARSE), 1, delta="1e-6", mechanism="tree")
    promise = made.guarantee
    assert (promise.epsilon, promise.delta) == (1, Fraction(1, 10**6))
    assert promise.definition == "(epsilon, delta)-differential privacy, from rho-zCDP"
    assert "2.72 times" in promise.statement and "give or take a chance of 0.000001" in promise.statement
    assert Fraction(999, 1000) < epsilon_for(promise.rho, promise.delta) <= 1
    account = Ledger().account("census")
    assert (account.spent, account.spent_delta) == (1, Fraction(1, 10**6))
    for fit in made.content.fits:
        assert all(isinstance(noise, Gaussian) for measured in fit.measurements for noise in measured.noises)
    opened = open_release(made.save(tmp_path / "r.sfumato"))
    assert opened.query(SQL).records() == made.query(SQL).records()
    assert opened.guarantee == promise


def test_the_gaussian_count_costs_exactly_the_rho_that_is_promised(tree, table):
    """sigma^2 = l2^2 / (2 rho): the tree has five nodes over each cell, and the count gets half the rho."""
    made = release(table, Schema.from_dict(COARSE), 1, delta="1e-6", mechanism="tree")
    levels = Tree(100, 4).l2_squared
    (noise,) = made.content.fits[0].measurements[0].noises
    assert noise.sigma_squared == levels / (2 * made.guarantee.rho / 2)


def test_a_mechanism_without_use_for_delta_is_charged_none(table, census):
    made = release(table, census, 1, delta="1e-6", mechanism="cells")
    assert made.guarantee.delta == 0 and made.guarantee.rho is None
    assert Ledger().account("census").spent_delta == 0
    assert isinstance(made.content.about.measured[0].noise, Laplace)


def test_the_total_delta_of_the_schema_holds(table, tree):
    schema = Schema.from_dict({**COARSE, "budget": {"epsilon": 3, "delta": "1e-6"}})
    release(table, schema, 1, delta="1e-6", mechanism="tree")
    with pytest.raises(BudgetExhausted, match="delta"):
        release(table, schema, 1, delta="1e-5", mechanism="tree")
    release(table, schema, 1, delta="1e-9", mechanism="tree")  # added up in rho, at the total delta
    account = Ledger().account("census")
    assert 1 < account.spent < 2 and account.spent_delta == Fraction(1, 10**6)
    with pytest.raises(SchemaError, match="delta of 1 or more"):
        Schema.from_dict({**COARSE, "budget": {"epsilon": 3, "delta": 1}})
    assert Schema.from_dict(schema.to_dict()) == schema


def test_a_step_too_fine_for_gaussian_noise_is_refused_with_one_that_is_not(table, tree):
    fine = {**CENSUS, "measures": {"income": {"lower": 0, "upper": 1000, "step": "1e-6", "missing": "drop"}}}
    with pytest.raises(BudgetError, match="coarser step") as caught:
        release(table, Schema.from_dict(fine), 1, delta="1e-6", mechanism="tree")
    assert Ledger().show() == []
    step = str(caught.value).split("`step: ")[1].split("`")[0]
    coarser = {**CENSUS, "measures": {"income": {"lower": 0, "upper": 1000, "step": step, "missing": "drop"}}}
    assert release(table, Schema.from_dict(coarser), 1, delta="1e-6", mechanism="tree").guarantee.delta


@pytest.mark.parametrize(("epsilon", "delta"), [("1e-18", None), ("1e-30", "1e-20"), ("1e6", "0.5"), (1, 2), (1, 0)])
def test_noise_that_cannot_be_drawn_is_refused_before_anything_is_spent(epsilon, delta, table, census, tree):
    with pytest.raises(BudgetError):
        release(table, census, epsilon, delta=delta, mechanism="tree")
    assert Ledger().show() == []


def test_a_mechanism_that_does_not_fit_is_refused_before_anything_is_spent(table, census, monkeypatch):
    refusing = Mechanism("picky", "never fits", tree_run, refuses=lambda schema, workload: "no; use hierarchical")
    register(monkeypatch, refusing)
    with pytest.raises(MechanismError, match="picky does not fit: no; use hierarchical"):
        release(table, census, 1, mechanism="picky")
    assert Ledger().show() == []


def test_a_domain_too_large_for_a_mechanism_names_one_that_handles_it(table, tree):
    wide = {name: {"type": "integer", "lower": 0, "upper": 999} for name in ("a", "b", "c")}
    schema = Schema.from_dict({**CENSUS, "attributes": wide})
    with pytest.raises(MechanismError, match="sparse-cells"):
        release(table, schema, 1, mechanism="tree")
    assert prepare(Request(schema, 1)).mechanism.holds.by_margins
    assert prepare(Request(schema, 1, mechanism="cells")).workload is None
    assert Ledger().show() == []


def test_the_workload_reaches_the_mechanism(table, census, tree, tmp_path, monkeypatch):
    seen = []

    def run(curator, schema, budget, workload=None):
        seen.append(workload)
        return tree_run(curator, schema, budget)

    register(monkeypatch, Mechanism("nosy", "looks at its workload", run))
    given = Workload(("all",), (Total(200),))
    file = tmp_path / "w.sql"
    file.write_text("SELECT COUNT(*) FROM census WHERE age < 18; SELECT sex, COUNT(*) FROM census GROUP BY sex")
    for workload in (given, file, str(file)):
        release(table, census, "0.5", mechanism="nosy", workload=workload, workload_only=True, again=True)
    assert seen[0] is given
    assert [block.rows for block in seen[1].blocks] == [block.rows for block in seen[2].blocks] == [1, 2]
    usual = ("age", "sex", "age x sex")
    for workload in (None, file):
        release(table, census, "0.5", mechanism="nosy", workload=workload, again=True)
    assert seen[3].names == usual and seen[3].named == 0
    assert seen[4].named == 2 and seen[4].names[2:] == usual  # a tilt: what everybody asks is served besides
    assert [block.rows for block in seen[4].asked.blocks] == [1, 2]
    with pytest.raises(QueryError, match="--workload-only is about"):
        release(table, census, "0.5", mechanism="nosy", workload_only=True)


@pytest.mark.parametrize("text", ["", "SELECT COUNT(*) FROM census WHERE height > 3", "SELECT", "DROP TABLE census"])
def test_a_workload_that_cannot_be_read_is_refused_before_anything_is_spent(text, table, census, tree, tmp_path):
    file = tmp_path / "w.sql"
    file.write_text(text)
    for workload in (file, tmp_path / "missing.sql", Workload(("all",), (Total(3),))):
        with pytest.raises(QueryError):
            release(table, census, 1, mechanism="tree", workload=workload)
    assert Ledger().show() == []


def test_mechanisms_that_divide_their_budget_as_they_like_have_room_to_do_so(table, census, monkeypatch):
    register(monkeypatch, Mechanism("free", "not linear", tree_run))
    with pytest.raises(BudgetError, match="64 bits"):
        release(table, Schema.from_dict({**CENSUS, "measures": {}}), "1e-11", mechanism="free")
    with pytest.raises(ReleaseFileError, match="digits"):
        release(table, census, Fraction(10**80, 10**80 + 1), mechanism="free")
    assert Ledger().show() == []
    assert release(table, census, "0.5", mechanism="free").content.fits


def test_auto_weighs_both_kinds_of_noise_for_sfumato_too():
    """Three looks over 4,096 cells, at epsilon 1 and delta 1e-6: variances of 2 (3 s)^2 against 3 s / (2 rho), with s
    statistics and rho = 0.0244. Ranges of so many cells go to sfumato either way."""
    attributes = {"x": {"type": "integer", "lower": 0, "upper": 4095}}
    for count, pure in ((0, True), (8, False)):
        measures = {f"m{n}": {"lower": 0, "upper": 1000, "step": 1, "missing": "drop"} for n in range(count)}
        fields = {"dataset": "w", "privacy_unit": "row", "attributes": attributes}
        chosen = prepare(Request(Schema.from_dict(fields | ({"measures": measures} if count else {})), 1, delta="1e-6"))
        assert (chosen.mechanism.name, chosen.cost.pure) == ("sfumato", pure)


def test_auto_uses_a_delta_only_where_gaussian_noise_is_better(tree, monkeypatch):
    """A tree of three levels over age, one row a person: at epsilon 1, delta 1e-6 the variance of Laplace noise is
    2 (4 s)^2 and that of Gaussian noise 4 s / (2 rho), with s statistics and rho = 0.0244: 32 s^2 against 82 s."""
    leave_only(monkeypatch, [one.name for one in MECHANISMS.values() if one is tree or one.holds.most_cells is None])
    measures = {f"m{n}": {"lower": 0, "upper": 1000, "step": 1, "missing": "drop"} for n in range(4)}
    few, many = ({**CENSUS, "measures": dict(list(measures.items())[:count])} for count in (0, 4))
    assert prepare(Request(Schema.from_dict(few), 1, delta="1e-6")).cost.pure
    chosen = prepare(Request(Schema.from_dict(many), 1, delta="1e-6"))
    assert chosen.mechanism.name == "tree" and chosen.cost.delta == Fraction(1, 10**6) and chosen.why
    free = {**many, "measures": {name: {"lower": 0, "upper": 1000, "missing": "drop"} for name in measures}}
    assert prepare(Request(Schema.from_dict(free), 1, delta="1e-6")).cost.delta  # with steps that are filled in
    fine = {**many, "measures": {name: {**one, "step": "1e-6"} for name, one in measures.items()}}
    with pytest.raises(BudgetError, match="coarser step"):  # and never without the delta that was asked for
        prepare(Request(Schema.from_dict(fine), 1, delta="1e-6"))
