"""Kinds of intervals, from the user's side."""

from __future__ import annotations

import json

import pytest
from running import sfumato
from small_release import refused, release, write_small_table

BY_SEX = "SELECT sex, COUNT(*) AS n FROM census GROUP BY sex"


@pytest.fixture
def released(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_small_table()
    assert release("--mechanism", "sfumato").returncode == 0


def test_a_guaranteed_interval_is_asked_for_and_said_to_be_one(released):
    run = sfumato("query", "r.sfumato", BY_SEX, "--interval", "guaranteed")
    assert run.returncode == 0 and "95 % interval" in run.stdout
    assert "guaranteed intervals hold for every table" in run.stderr
    assert "the model of this release" not in run.stderr


def test_both_ends_of_both_kinds_are_in_the_json_and_in_the_table(released):
    run = sfumato("query", "r.sfumato", BY_SEX, "--interval", "both", "--format", "json")
    for row in json.loads(run.stdout):
        assert row["n_guaranteed_low"] <= row["n"] <= row["n_guaranteed_high"]
        assert row["n_low"] <= row["n"] <= row["n_high"]
    shown = sfumato("query", "r.sfumato", BY_SEX, "--interval", "both").stdout.splitlines()
    assert shown[0].split()[-1] == "guaranteed" and shown[2].count(" to ") == 2
    lines = sfumato("query", "r.sfumato", BY_SEX, "--interval", "both", "--format", "csv").stdout.splitlines()
    assert lines[0] == "sex,n,n_stderr,n_low,n_high,n_guaranteed_low,n_guaranteed_high"


def test_no_count_is_shown_below_nothing_if_asked(released):
    release("--mechanism", "cells", out="c.sfumato", epsilon="0.1")
    sql = "SELECT age, sex, COUNT(*) AS n FROM census GROUP BY age, sex"
    plain, possible = (
        json.loads(sfumato("query", "c.sfumato", sql, "--format", "json", *more).stdout)
        for more in ((), ("--possible",))
    )
    assert min(row["n_low"] for row in plain) < 0 <= min(row["n_low"] for row in possible)
    assert [row["n"] for row in plain] == [row["n"] for row in possible]


def test_all_rows_together_are_wider_and_a_sentence_says_so(released):
    alone, together = (
        json.loads(sfumato("query", "r.sfumato", BY_SEX, "--format", "json-full", *more).stdout)
        for more in ((), ("--simultaneous",))
    )
    assert any("all 2 intervals that this question could show hold together" in note for note in together["notes"])
    for one, other in zip(alone["rows"], together["rows"], strict=True):
        assert other["n_high"] - other["n_low"] > one["n_high"] - one["n_low"]


def test_what_is_not_there_is_refused_in_one_line(released):
    refused(sfumato("query", "r.sfumato", BY_SEX, "--interval", "sure"), "typical, guaranteed or both")
    release("--mechanism", "mwem", out="m.sfumato")
    refused(sfumato("query", "m.sfumato", BY_SEX, "--interval", "guaranteed"), "there is no guaranteed interval")
    assert sfumato("query", "m.sfumato", BY_SEX, "--simultaneous", "--possible").returncode == 0


def test_rows_that_noise_chose_have_wider_intervals_unless_told_otherwise(released):
    release("--mechanism", "cells", out="c.sfumato")
    sql = "SELECT age, COUNT(*) AS n FROM census GROUP BY age ORDER BY n DESC LIMIT 2"
    allowed, plain, same = (
        json.loads(sfumato("query", "c.sfumato", sql, "--format", "json-full", *more).stdout)
        for more in ((), ("--no-selected",), ("--selected",))
    )
    assert allowed == same and [row["n"] for row in allowed["rows"]] == [row["n"] for row in plain["rows"]]
    assert all(one["n_high"] > other["n_high"] for one, other in zip(allowed["rows"], plain["rows"], strict=True))
    assert "chosen among" in allowed["notes"][-1] and "do not allow for that" in plain["notes"][-1]


def test_unbiased_counts_are_given_or_refused_in_one_line(released):
    refused(sfumato("query", "r.sfumato", BY_SEX, "--unbiased"), "holds no unbiased counts; ask without unbiased")
    release("--mechanism", "margins", out="m.sfumato")
    run = sfumato("query", "m.sfumato", BY_SEX, "--unbiased")
    assert run.returncode == 0 and "counts and sums are as measured" in run.stderr
