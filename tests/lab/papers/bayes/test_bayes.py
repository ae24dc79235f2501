"""A network chosen privately: it finds what depends on what, answers, draws rows, and says how far it may be off."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from running import sfumato

import sfumato as sf
from sfumato.errors import MechanismError
from sfumato.kernel.sampling.entropy import TestingEntropy

ROWS = 6_000
SCHEMA = {
    "dataset": "t",
    "privacy_unit": "row",
    "budget": {"epsilon": 100},
    "attributes": {f"q{place}": {"type": "integer", "lower": 0, "upper": 2} for place in range(6)},
}


def answers(seed: int = 1) -> pa.Table:
    """A chain: every answer follows the one before it, mostly."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 3, ROWS)]
    for _ in range(5):
        columns.append(np.where(rng.random(ROWS) < 0.8, columns[-1], rng.integers(0, 3, ROWS)))
    return pa.table({f"q{place}": column for place, column in enumerate(columns)})


def released(table: pa.Table, epsilon: int | float, **how):
    return sf.release(table, sf.Schema.from_dict(SCHEMA), epsilon, mechanism="bayes", entropy=TestingEntropy(5), **how)


def test_families_hold_what_depends_on_each_other_and_pairs_follow():
    table = answers()
    made = released(table, 8)
    families = [places for places, one in made.content.measured if one.of == "count" and len(places) > 1]
    assert len(families) == 5 and all(min(np.diff(places)) == 1 for places in families)  # neighbours in the chain
    apart = made.query("SELECT COUNT(*) FROM t WHERE q0 = 1 AND q5 = 1").rows[0][0]
    truth = ((table["q0"].to_numpy() == 1) & (table["q5"].to_numpy() == 1)).sum()
    assert abs(apart.value - truth) < 0.1 * ROWS / 9 and apart.low <= truth <= apart.high
    drawn = made.sample(5_000, seed=2)
    same = np.mean(drawn["q0"].to_numpy() == drawn["q1"].to_numpy())
    assert abs(same - np.mean(table["q0"].to_numpy() == table["q1"].to_numpy())) < 0.03


def test_its_intervals_hold():
    """300 answers of 10 releases, which share errors: at 93 % and 2.5 times the spread of independent ones, fewer than
    224 have a chance below 1e-6."""
    held, rng = 0, np.random.default_rng(4)
    for run in range(10):
        table = answers(run)
        columns = [table[f"q{place}"].to_numpy() for place in range(6)]
        made = sf.release(
            table, sf.Schema.from_dict(SCHEMA), 1, mechanism="bayes", entropy=TestingEntropy(run), again=True
        )
        for _ in range(30):
            places = rng.choice(6, int(rng.integers(1, 4)), replace=False)
            wanted = rng.integers(0, 3, len(places))
            where = " AND ".join(f"q{place} = {value}" for place, value in zip(places, wanted, strict=True))
            truth = np.all([columns[p] == v for p, v in zip(places, wanted, strict=True)], axis=0).sum()
            found = made.query(f"SELECT COUNT(*) FROM t WHERE {where}").rows[0][0]
            held += found.low <= truth <= found.high
    assert held >= 224, held


WIDE = {
    "dataset": "t",
    "privacy_unit": "row",
    "budget": {"epsilon": 100},
    "attributes": {
        **{name: {"type": "integer", "lower": 0, "upper": 23} for name in ("x", "y")},
        "z": {"type": "boolean"},
    },
}


def pairs_of(made) -> dict:
    """Measured contrasts of pairs, by their attributes."""
    return {places: one for places, one in made.content.measured if one.of == "contrast" and len(places) == 2}


def test_broad_questions_about_a_pair_that_is_too_large_for_the_network():
    """120 counts in two ranges of 12 releases, which share errors: at 93 % and 2.5 times the spread of independent
    ones, fewer than 79 have a chance below 1e-6."""
    rng, held, off, apart = np.random.default_rng(6), 0, [], []
    for run in range(12):
        x = np.clip(12 + 5 * rng.standard_normal(ROWS), 0, 23.9)
        y = np.clip(x + 3 * rng.standard_normal(ROWS), 0, 23.9)
        table = pa.table({"x": x.astype(int), "y": y.astype(int), "z": rng.random(ROWS) < 0.5})
        made = sf.release(
            table, sf.Schema.from_dict(WIDE), 1, mechanism="bayes", entropy=TestingEntropy(run), again=True
        )
        assert not any(one.of == "count" and {0, 1} <= {*places} for places, one in made.content.measured)
        assert (0, 1) in pairs_of(made)
        for _ in range(10):
            low, high = np.sort(rng.integers(0, 24, (2, 2)), axis=0)
            inside = [(low[k] <= table[k].to_numpy()) & (table[k].to_numpy() <= high[k]) for k in range(2)]
            truth = (inside[0] & inside[1]).sum()
            where = " AND ".join(f"{name} BETWEEN {low[k]} AND {high[k]}" for k, name in enumerate("xy"))
            found = made.query(f"SELECT COUNT(*) FROM t WHERE {where}").rows[0][0]
            held += found.low <= truth <= found.high
            off.append(found.value - truth)
            apart.append(inside[0].sum() * inside[1].sum() / ROWS - truth)
    assert held >= 79, held
    assert np.linalg.norm(off) < np.linalg.norm(apart) / 2


def test_contrasts_that_noise_would_hide_are_not_measured(tmp_path):
    assert not pairs_of(released(answers().slice(0, 60), 1, ledger=tmp_path / "few"))
    assert len(pairs_of(released(answers(), 8, ledger=tmp_path / "many"))) == 15


def test_from_the_command_line_with_its_options(tmp_path):
    csv.write_csv(answers(), tmp_path / "t.csv")
    (tmp_path / "t.yaml").write_text(json.dumps(SCHEMA))
    table, schema, out = (str(tmp_path / name) for name in ("t.csv", "t.yaml", "t.sfumato"))
    how = ("--epsilon", "1", "--mechanism", "bayes", "--with", "degree=1")
    made = sfumato("release", table, "--schema", schema, *how, "-o", out)
    assert made.returncode == 0, made.stderr
    opened = sf.open(out)
    assert opened.options == {"degree": "1"} and opened.mechanism == "bayes"
    asked = sfumato("query", out, "SELECT q0, COUNT(*) AS n FROM t GROUP BY q0", "--format", "json")
    assert len(json.loads(asked.stdout)) == 3
    drawn = sfumato("sample", out, "--rows", "100", "-o", str(tmp_path / "rows.csv"))
    assert drawn.returncode == 0


@pytest.mark.parametrize(
    ("keys", "options", "words"),
    [
        ({}, {"degree": 9}, "an attribute has 1 to 4 parents"),
        ({}, {"parents": 2}, "bayes has no option 'parents'; there are degree"),
        ({"measures": {"m": {"lower": 0, "upper": 1}}}, {}, "sums no m"),
    ],
)
def test_what_does_not_suit_it_is_refused_and_nothing_spent(keys, options, words, tmp_path):
    schema = sf.Schema.from_dict(SCHEMA | keys)
    table = answers().append_column("m", pa.array(np.zeros(ROWS)))
    with pytest.raises(MechanismError, match=words):
        sf.release(table, schema, 1, mechanism="bayes", options=options, ledger=tmp_path / "ledger")
    assert not (tmp_path / "ledger").exists()
