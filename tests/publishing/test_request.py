"""What makes two requests the same: every public fact, and nothing that the table holds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

from sfumato.kernel.budget import Cost
from sfumato.models import find_mechanism
from sfumato.publishing.prepare import digest_of_request, name_of_table, prepare
from sfumato.schema import Schema

PLAIN = {"dataset": "t", "privacy_unit": "row", "attributes": {"ill": {"type": "boolean"}}}


@pytest.fixture
def prepared():
    return prepare(Schema.from_dict(PLAIN), 1, mechanism="cells")


def test_every_public_fact_counts(prepared, tmp_path):
    (tmp_path / "w.sql").write_text("SELECT COUNT(*) FROM t")
    (tmp_path / "v.sql").write_text("SELECT COUNT(*) FROM t WHERE ill")
    wider = Schema.from_dict({**PLAIN, "attributes": {"ill": {"type": "boolean"}, "old": {"type": "boolean"}}})
    asked = [
        ("t.csv", None, prepared, None),
        ("u.csv", None, prepared, None),
        ("t.csv", "people", prepared, None),
        ("t.csv", None, replace(prepared, schema=wider), None),
        ("t.csv", None, replace(prepared, cost=Cost(Fraction(2))), None),
        ("t.csv", None, replace(prepared, cost=Cost(Fraction(1), Fraction(1, 10**6))), None),
        ("t.csv", None, replace(prepared, mechanism=find_mechanism("hierarchical")), None),
        ("t.csv", None, prepared, tmp_path / "w.sql"),
        ("t.csv", None, prepared, tmp_path / "v.sql"),
        ("t.csv", None, prepared, "SELECT COUNT(*) FROM t WHERE NOT ill"),
    ]
    digests = [digest_of_request(*one) for one in asked]
    assert len(set(digests)) == len(asked) and digests == [digest_of_request(*one) for one in asked]


def test_totals_ledgers_and_guesses_do_not(prepared):
    more = Schema.from_dict({**PLAIN, "budget": {"epsilon": 5}, "ledger": "0" * 32, "expected_rows": 7})
    same = digest_of_request("t.csv", None, replace(prepared, schema=more), None)
    assert same == digest_of_request("t.csv", None, prepared, None)


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
    assert len({digest_of_request(frame, None, prepared, None) for frame in frames}) == 1
    assert digest_of_request(frames[0], None, prepared, None) != digest_of_request("t.csv", None, prepared, None)
