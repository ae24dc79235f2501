"""What makes two requests the same: every public fact, and nothing that the table holds."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from fractions import Fraction
from functools import partial
from inspect import signature
from pathlib import Path

import pandas as pd
import pytest

import sfumato as sf
from sfumato.cli import application
from sfumato.errors import BudgetError, MechanismError
from sfumato.kernel.budget import Cost
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.models import find_mechanism
from sfumato.publishing.prepare import Request, digest_of_request, name_of_table, prepare
from sfumato.schema import Schema

PLAIN = {"dataset": "t", "privacy_unit": "row", "attributes": {"ill": {"type": "boolean"}}}
PLAINLY = Request(Schema.from_dict(PLAIN), 1, mechanism="cells")


@pytest.fixture
def prepared():
    return prepare(PLAINLY)


def test_every_public_fact_counts(prepared, tmp_path):
    (tmp_path / "w.sql").write_text("SELECT COUNT(*) FROM t")
    (tmp_path / "v.sql").write_text("SELECT COUNT(*) FROM t WHERE ill")
    wider = Schema.from_dict({**PLAIN, "attributes": {"ill": {"type": "boolean"}, "old": {"type": "boolean"}}})
    asked = [
        ("t.csv", PLAINLY, prepared),
        ("u.csv", PLAINLY, prepared),
        ("t.csv", replace(PLAINLY, table_name="people"), prepared),
        ("t.csv", PLAINLY, replace(prepared, schema=wider)),
        ("t.csv", PLAINLY, replace(prepared, cost=Cost(Fraction(2)))),
        ("t.csv", PLAINLY, replace(prepared, cost=Cost(Fraction(1), Fraction(1, 10**6)))),
        ("t.csv", PLAINLY, replace(prepared, mechanism=find_mechanism("hierarchical"))),
        ("t.csv", replace(PLAINLY, workload=tmp_path / "w.sql"), prepared),
        ("t.csv", replace(PLAINLY, workload=tmp_path / "v.sql"), prepared),
        ("t.csv", replace(PLAINLY, workload=tmp_path / "v.sql", workload_only=True), prepared),
        ("t.csv", replace(PLAINLY, workload="SELECT COUNT(*) FROM t WHERE NOT ill"), prepared),
    ]
    digests = [digest_of_request(*one) for one in asked]
    assert len(set(digests)) == len(asked) and digests == [digest_of_request(*one) for one in asked]


def test_totals_ledgers_and_guesses_do_not(prepared):
    more = Schema.from_dict({**PLAIN, "budget": {"epsilon": 5}, "ledger": "0" * 32, "expected_rows": 7})
    same = digest_of_request("t.csv", PLAINLY, replace(prepared, schema=more))
    assert same == digest_of_request("t.csv", PLAINLY, prepared)


def test_how_it_is_gone_about_does_not(prepared, tmp_path):
    """A release that is meant once more is the same request, and so is one that an earlier refusal made bolder."""
    bolder = {"again": True, "another_unit": True, "even_if_useless": True, "allow_views": True, "dialect": "duckdb"}
    bolder["even_though_exact"] = True
    same = replace(PLAINLY, ledger=Ledger(tmp_path / "another.sqlite"), **bolder)
    assert digest_of_request("t.csv", same, prepared) == digest_of_request("t.csv", PLAINLY, prepared)


def test_the_same_file_by_other_words(prepared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("t.csv", "./t.csv", str(tmp_path / "t.csv"), Path("t.csv"), tmp_path / "t.csv")
    assert len({name_of_table(name) for name in names}) == 1


def test_an_address_is_known_without_who_logs_in():
    plain = "postgresql://example.org:5432/census"
    for address in (plain, "postgresql://ada@example.org:5432/census", "postgresql://ada:p@ss@example.org:5432/census"):
        assert name_of_table(address) == plain
    assert name_of_table("duckdb:///data/x.duckdb") == "duckdb:///data/x.duckdb" and name_of_table("-") == "-"


def test_a_frame_has_no_name_and_all_of_them_count_as_one(prepared):
    frames = pd.DataFrame({"ill": [True]}), pd.DataFrame({"ill": [False, True]})
    assert all(name_of_table(frame) is None for frame in frames)
    assert len({digest_of_request(frame, PLAINLY, prepared) for frame in frames}) == 1
    assert digest_of_request(frames[0], PLAINLY, prepared) != digest_of_request("t.csv", PLAINLY, prepared)


class Caught(Exception):
    """Carries a request out of the place that it was handed to."""


def caught(monkeypatch, place, ask):
    def stop(table, request, *_, **__):
        raise Caught(table, request)

    monkeypatch.setattr(place, stop)
    with pytest.raises(Caught) as given:
        ask()
    return given.value.args


BOLD = ("another_unit", "even_though_exact", "allow_views", "even_if_useless", "again", "workload_only", "correct")


@pytest.mark.parametrize("bold", [None, *BOLD])
def test_every_argument_in_python_is_the_field_of_its_name(monkeypatch, tmp_path, bold):
    said = {"delta": "1e-6", "rho": None, "mechanism": "cells", "workload": "SELECT 1", "options": {"depth": 3}}
    said |= {
        "table_name": "people",
        "dialect": "duckdb",
        "ledger": Ledger(tmp_path / "l.sqlite"),
        **{name: name == bold for name in BOLD},
    }
    said |= {"schema": PLAINLY.schema, "epsilon": "0.5", "series": None, "period": "2026-11", "prior": None}
    assert set(said) == {one.name for one in dataclasses.fields(Request)}
    assert set(signature(sf.release).parameters) == {*said, "table", "entropy", "step"}
    table, request = caught(monkeypatch, "sfumato.publishing.publish._made", lambda: sf.release("t.csv", **said))
    assert table == "t.csv" and {name: getattr(request, name) for name in said} == said


@pytest.mark.parametrize("bold", [None, *BOLD])
@pytest.mark.parametrize(("more", "place"), [((), "publish"), (("--dry-run",), "rehearse_release")])
def test_every_option_of_the_command_is_a_field_too(monkeypatch, tmp_path, bold, more, place):
    (tmp_path / "s.yaml").write_text("dataset: t\nprivacy_unit: row\nattributes: {ill: {type: boolean}}\n")
    written = {"--schema": "s.yaml", "--epsilon": "0.5", "--delta": "1e-6", "--mechanism": "cells"}
    written |= {
        "--workload": "w.sql",
        "--with": "depth=3",
        "--table": "people",
        "--ledger": "l.sqlite",
        "--prior": "last.sfumato",
        "-o": "r.sfumato",
    }
    words = [word for pair in written.items() for word in pair] + ([f"--{bold.replace('_', '-')}"] if bold else [])
    monkeypatch.chdir(tmp_path)
    ask = partial(application(["release"]), ["release", "t.csv", *words, *more], standalone_mode=False)
    table, request = caught(monkeypatch, f"sfumato.publishing.publish.{place}", ask)
    said = {"epsilon": "0.5", "delta": "1e-6", "mechanism": "cells", "workload": Path("w.sql"), "table_name": "people"}
    said |= {
        "options": {"depth": "3"},
        "dialect": None,
        "rho": None,
        "prior": Path("last.sfumato"),
        **{name: name == bold for name in BOLD},
    }
    assert table == "t.csv" and {name: getattr(request, name) for name in said} == said
    assert request.schema.dataset == "t" and request.ledger.path == tmp_path / "l.sqlite"
    in_a_series = ["--series", "s.sfumato", "--period", "2026-11"]
    kept = [word for word in words if word not in ("-o", "r.sfumato")]
    ask = partial(application(["release"]), ["release", "t.csv", *kept, *in_a_series, *more], standalone_mode=False)
    _, request = caught(monkeypatch, f"sfumato.publishing.publish.{place}", ask)
    assert (request.series, request.period) == (Path("s.sfumato"), "2026-11")
    ask = partial(
        application(["release"]), ["release", "t.csv", *words, "--prior", "p.sfumato", *more], standalone_mode=False
    )
    assert caught(monkeypatch, f"sfumato.publishing.publish.{place}", ask)[1].prior == Path("p.sfumato")
    assert {*said, "schema", "ledger", "series", "period", "prior"} == {one.name for one in dataclasses.fields(Request)}


def test_what_is_asked_for_is_public_and_cannot_change():
    names = {one.name for one in dataclasses.fields(Request)}
    assert not names & {"table", "rows", "entropy"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        PLAINLY.epsilon = 2


@pytest.mark.parametrize(("epsilon", "delta"), [(0, None), ("much", None), (1, 1)])
def test_a_cost_is_refused_where_it_is_used_and_not_before(epsilon, delta):
    asked = Request(Schema.from_dict(PLAIN), epsilon, delta, options={"depth": 3})
    with pytest.raises(MechanismError, match="--with"):
        prepare(asked)
    with pytest.raises(BudgetError):
        prepare(replace(asked, options=None))
