"""Releases that lean on an earlier one in another form: common cells, gains where the two agree, none where not."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from curators import curator_of

import sfumato as sf
from sfumato.domain import Axis
from sfumato.errors import MechanismError, ReleaseFileError, SchemaError, SfumatoError
from sfumato.kernel.budget import Cost
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models.cells.cells import CELLS
from sfumato.models.margins.borrowing import Shared, lean_on_prior
from sfumato.models.margins.content import Margins
from sfumato.models.margins.measure import margins
from sfumato.public.comparison import compare
from sfumato.queries import default_workload
from sfumato.releases.file.manifest import LEANING
from sfumato.releases.release import Release
from sfumato.schema import Schema

SHAPE = (3, 8, 5)
NUMBERS = count()
BUDGET = Cost.stated(1, "1e-9").budget


def _axis(**stated: object) -> Axis:
    about = {"dataset": "t", "privacy_unit": "row", "attributes": {"a": stated, "b": {"type": "boolean"}}}
    return Schema.from_dict(about).domain["a"]


def _category(*values: str, **more: object) -> Axis:
    return _axis(type="category", values=list(values), **more)


@pytest.mark.parametrize(
    ("own", "prior", "groups"),
    [
        (_category("F", "M"), _category("M", "F"), ([0, 1], [1, 0])),
        (_category("F", "M", "X"), _category("M", "F", "Y"), ([0, 1, 2], [1, 0, -1])),
        (_category("F", "M", "X"), _category("F", "M", other=True), ([0, 1, 2], [0, 1, 2])),
        (_category("F", "M", "X", "Z"), _category("F", "M", other=True), ([0, 1, 2, 2], [0, 1, 2])),
        (_category("F", "M", other=True), _category("F", "M", "X", "Z"), ([0, 1, 2], [0, 1, 2, 2])),
        (_category("F", "M", missing="keep"), _category("F", "M"), ([0, 1, 2], [0, 1])),
        (_category("F", "M", missing="keep"), _category("F", "M", missing="keep"), ([0, 1, 2], [0, 1, 2])),
        (_axis(type="boolean"), _category("true", "false"), ([0, 1], [1, 0])),
        (
            _axis(type="integer", lower=0, upper=7),
            _axis(type="integer", lower=0, upper=7, bins=4),
            ([0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 2, 3]),
        ),
        (
            _axis(type="integer", lower=0, upper=7, bins=4),
            _axis(type="integer", lower=0, upper=7),
            ([0, 1, 2, 3], [0, 0, 1, 1, 2, 2, 3, 3]),
        ),
        (
            _axis(type="integer", lower=0, upper=11, bins=6),
            _axis(type="integer", lower=0, upper=11, bins=4),
            ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1]),
        ),
        (
            _axis(type="integer", lower=0, upper=7, bins=4),
            _axis(type="integer", lower=2, upper=9, bins=4),
            ([0, 1, 2, 3], [1, 2, 3, -1]),
        ),
        (
            _axis(type="date", lower="2024-01-01", upper="2024-06-30", by="month"),
            _axis(type="date", lower="2024-01-01", upper="2024-06-30", by="quarter"),
            ([0, 0, 0, 1, 1, 1], [0, 1]),
        ),
        (_category("1", "2"), _axis(type="integer", lower=1, upper=2), None),
        (_category("F", "M"), _category("x", "y"), None),
        (_axis(type="integer", lower=0, upper=9, bins=5), _axis(type="integer", lower=1, upper=10, bins=5), None),
    ],
)
def test_common_groups_of_cells(own, prior, groups):
    found = Shared.of(own, prior)
    assert (None if found is None else (found.own.tolist(), found.prior.tolist())) == groups


def _schema(bins: int = 8, drop: bool = False) -> Schema:
    attributes = {
        "a0": {"type": "category", "values": ["x", "y", "z"]},
        "a1": {"type": "integer", "lower": 0, "upper": 7, "bins": bins},
        "a2": {"type": "category", "values": [str(code) for code in range(5)]},
    }
    stated = {name: one for name, one in attributes.items() if not (drop and name == "a2")}
    unit = {"column": "person", "contributions": 1}
    return Schema.from_dict({"dataset": "t", "privacy_unit": unit, "budget": {"epsilon": 100}, "attributes": stated})


def _shares(stream: np.random.Generator) -> np.ndarray:
    parts = [[stream.dirichlet(np.full(size, 0.7)) for size in SHAPE] for _ in range(4)]
    return sum(np.multiply.outer(np.multiply.outer(a, b), c) for a, b, c in parts) / 4


def _made(counts: np.ndarray, seed: int, schema: Schema | None = None, cells: bool = False) -> object:
    schema = schema or _schema()
    curator = curator_of(schema, counts.reshape(-1), rho=BUDGET.amount, entropy=TestingEntropy(seed))
    if cells:
        return CELLS.run(curator, schema, BUDGET, default_workload(schema.domain))
    return margins(curator, schema, BUDGET)


def _error(content: Margins, counts: np.ndarray) -> float:
    off = [content.tables["count"][pair].estimate - counts.sum(axis=3 - sum(pair)) for pair in [(0, 1), (0, 2), (1, 2)]]
    return float(np.mean(np.concatenate([each.reshape(-1) for each in off]) ** 2))


def _binned(counts: np.ndarray) -> np.ndarray:
    return counts.reshape(3, 4, 2, 5).sum(axis=2)


FORMS = {
    "the same": ({}, lambda counts: counts),
    "coarser bins": ({"schema": _schema(bins=4)}, _binned),
    "fewer columns": ({"schema": _schema(drop=True)}, lambda counts: counts.sum(axis=2)),
    "cells": ({"cells": True}, lambda counts: counts),
}


@pytest.mark.parametrize(
    ("form", "most"), [("the same", 0.9), ("coarser bins", 0.97), ("fewer columns", 1.0), ("cells", 0.97)]
)
def test_a_prior_of_the_same_population_lowers_errors_in_any_form(form, most):
    """Four tables of 1,500 rows by the testing generator: the same noise every time. Mean squared errors."""
    stated, shaped = FORMS[form]
    before, after = [], []
    for seed in range(4):
        stream = np.random.default_rng(seed)
        shares = _shares(stream)
        old, new = (stream.multinomial(1500, shares.reshape(-1)).reshape(SHAPE) for _ in range(2))
        own = _made(new, 2 * seed)
        leaning = lean_on_prior(own, _made(shaped(old), 2 * seed + 1, **stated))
        before.append(_error(own, new))
        after.append(_error(leaning, new))
        assert leaning.measured is own.measured and leaning.guessed is own.guessed  # what guaranteed intervals are of
        assert leaning.tables["count"][0, 2].estimate.sum() == pytest.approx(own.tables["count"][()].estimate, rel=1e-3)
        now, then = (sum(float(c.tables["count"][p].noise.sum()) for p in [(0, 1), (1, 2)]) for c in (leaning, own))
        assert now <= then + 1e-6
    assert np.mean(after) < most * np.mean(before)


def test_a_prior_of_another_population_is_not_believed():
    """Four tables by the testing generator; at most 1.02 of the error alone, in rows."""
    before, after = [], []
    for seed in range(4):
        stream = np.random.default_rng(50 + seed)
        old, new = (stream.multinomial(1500, _shares(stream).reshape(-1)).reshape(SHAPE) for _ in range(2))
        own = _made(new, 2 * seed)
        before.append(_error(own, new))
        after.append(_error(lean_on_prior(own, _made(old, 2 * seed + 1)), new))
    assert np.mean(after) < 1.02**2 * np.mean(before)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table of this year, its schema, and last year's release by cells with coarser bins."""
    folder = tmp_path_factory.mktemp("prior")
    stream = np.random.default_rng(3)
    counts = stream.multinomial(400, _shares(stream).reshape(-1))
    rows = [np.unravel_index(cell, SHAPE) for cell, many in enumerate(counts) for _ in range(many)]
    lines = [f"{place},{'xyz'[a]},{b},{c}" for place, (a, b, c) in enumerate(rows)]
    (folder / "t.csv").write_text("\n".join(["person,a0,a1,a2", *lines]) + "\n", encoding="utf-8")
    _release(folder, schema=_schema(bins=4), mechanism="cells", entropy=TestingEntropy(1)).save(folder / "last.sfumato")
    return folder


def _release(files, **more: object) -> Release:
    """A release in a ledger of its own, so that the testing generator may draw the same again."""
    stated = {"mechanism": "margins", "delta": "1e-9", "entropy": TestingEntropy(2), **more}
    schema, ledger = stated.pop("schema", _schema()), files / f"{next(NUMBERS)}.db"
    try:
        return sf.release(files / "t.csv", schema, 1, ledger=ledger, **stated)
    except SfumatoError:
        assert not ledger.exists() or not Ledger(ledger).account("t").spent
        raise


def test_a_release_names_its_prior_in_the_file_and_guaranteed_intervals_do_not_lean(files):
    alone, leaning = _release(files), _release(files, prior=files / "last.sfumato")
    sql = "SELECT a0, a2, COUNT(*) AS n FROM t GROUP BY a0, a2"
    opened = sf.open(leaning.save(files / "leaning.sfumato"), allow_not_private=True)
    assert opened.query(sql).rows == leaning.query(sql).rows != alone.query(sql).rows
    sure = [each.query(sql, interval="guaranteed").rows for each in (alone, opened)]
    ends = [[(row[-1].low, row[-1].high) for row in rows] for rows in sure]
    assert all(low <= first and last <= high for (first, last), (low, high) in zip(*ends, strict=True))
    assert opened.leans_on is not None and f"digest {opened.leans_on}" in repr(opened.describe(with_errors=False))
    assert LEANING in opened.guarantee.statement and LEANING not in alone.guarantee.statement
    assert alone.leans_on is None and "earlier" not in repr(alone.describe(with_errors=False))
    assert opened.query(sql, unbiased=True).rows == alone.query(sql, unbiased=True).rows
    two = compare(alone, opened)
    assert not two.apart


@pytest.mark.parametrize(
    ("stated", "error", "message"),
    [
        ({"mechanism": "cells"}, MechanismError, "--prior is for releases by margins, and cells is"),
        ({"prior": "nothing.sfumato"}, ReleaseFileError, "cannot open"),
        ({"prior": "t.csv"}, ReleaseFileError, "not a Sfumato release"),
        ({"prior": "cut.sfumato"}, ReleaseFileError, "cut.sfumato"),
        ({"prior": "other.sfumato"}, ReleaseFileError, "no attribute in common"),
        ({"series": True}, SchemaError, "by AS OF; leave out --prior"),
    ],
)
def test_what_cannot_be_leant_on_is_refused_before_anything_is_spent(files, stated, error, message):
    whole = (files / "last.sfumato").read_bytes()
    (files / "cut.sfumato").write_bytes(whole[: len(whole) // 2])
    if "other" in str(stated.get("prior")):
        odd = Schema.from_dict(
            {
                "dataset": "odd",
                "privacy_unit": "row",
                "budget": {"epsilon": 9},
                "attributes": {"a1": {"type": "integer", "lower": 20, "upper": 29}},
            }
        )
        sf.release(
            files / "t.csv",
            odd,
            1,
            mechanism="cells",
            again=True,
            ledger=files / "ledger.db",
            entropy=TestingEntropy(1),
        ).save(files / "other.sfumato")
    more = dict(stated)
    if more.pop("series", False):
        series = {"period": "year", "unit": "person in a year"}
        more |= {"schema": Schema.from_dict(_schema().to_dict() | {"series": series}), "period": "2026"}
        more |= {"series": files / "series.sfumato"}
    more["prior"] = files / str(more.get("prior", "last.sfumato"))
    with pytest.raises(error, match=message):
        _release(files, **more)


def test_a_private_release_does_not_lean_on_one_that_is_not(files):
    with pytest.raises(SfumatoError, match="NOT PRIVATE"):
        _release(files, prior=files / "last.sfumato", entropy=None)


def test_a_release_with_exact_counts_is_no_prior(files):
    """Nothing protects them, and the promise of what leans is about any one row."""
    exact = Schema.from_dict(_schema().to_dict() | {"dataset": "exact", "privacy_unit": "row", "invariants": ["a1"]})
    _release(files, schema=exact, mechanism="cells", even_though_exact=True).save(files / "exact.sfumato")
    with pytest.raises(ReleaseFileError, match="exact counts, which nothing protects"):
        _release(files, prior=files / "exact.sfumato")


def test_what_leans_is_not_combined(files):
    _release(files, prior=files / "last.sfumato").save(files / "one.sfumato")
    _release(files).save(files / "two.sfumato")
    with pytest.raises(ReleaseFileError, match="leans on an earlier release"):
        sf.combine(files / "one.sfumato", files / "two.sfumato", allow_not_private=True)


def test_a_release_of_the_very_same_table_is_no_prior(files):
    ledger = files / "same.db"
    stated = {"mechanism": "margins", "delta": "1e-9", "ledger": ledger}
    first = sf.release(files / "t.csv", _schema(), 1, entropy=TestingEntropy(5), **stated).save(files / "same.sfumato")
    with pytest.raises(ReleaseFileError, match=r"is a release of this very table.*sfumato combine.*--again"):
        sf.release(files / "t.csv", _schema(), 1, prior=first, entropy=TestingEntropy(6), **stated)
    assert len(Ledger(ledger).entries("t")) == 1
    again = sf.release(files / "t.csv", _schema(), 1, prior=first, entropy=TestingEntropy(6), again=True, **stated)
    assert again.leans_on is not None
