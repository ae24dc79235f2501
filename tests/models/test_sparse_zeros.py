"""Thresholded cells where some are impossible: never shown, nothing of the rest in them, intervals that hold."""

from __future__ import annotations

import numpy as np
import pytest
from curators import curator_of

from sfumato.errors import MechanismError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.measurement import Measurement
from sfumato.models import find_mechanism
from sfumato.models.cells.cells import SETTINGS, Settings, sparse_cells
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.contents.sparse_cube import SparseCube
from sfumato.releases.release import Release, open_release
from sfumato.schema import Schema

SIZES = {"a": 40, "b": 30, "c": 10}
RULES = {"impossible": [{"a": "0..19", "b": "10..29"}, {"a": "30..39", "b": {"not": 4}}]}


def schema_of(**more: object) -> Schema:
    attributes = {name: {"type": "integer", "lower": 0, "upper": size - 1} for name, size in SIZES.items()}
    return Schema(dataset="t", privacy_unit="row", attributes=attributes, **more)


SCHEMA = schema_of(**RULES)
POSSIBLE = SCHEMA.structure.whole
TRUTH = np.where(POSSIBLE & (np.arange(12_000) % 11 == 0), np.arange(12_000) % 50, 0)


def released(seed: int, settings: Settings = SETTINGS) -> Release:
    find_mechanism("sparse-cells").check(SCHEMA)
    curator = curator_of(SCHEMA, TRUTH, epsilon=1, entropy=TestingEntropy(seed))
    content = sparse_cells(curator, SCHEMA, Budget.pure(1), settings=settings)
    return Release(content, "sparse-cells", describe_guarantee(Budget.pure(1), SCHEMA), True)


def test_impossible_cells_are_zero_in_answers_files_and_rows(tmp_path):
    """With a threshold so low that noise alone reaches it in hundreds of empty cells, impossible ones too."""
    release = released(1, Settings(empty=400.0))
    raw = release.content.measurements[0].cells
    assert len(release.content.listed) < len(raw) and POSSIBLE[release.content.listed].all()
    release.save(tmp_path / "r.sfumato")
    for each in (release, open_release(tmp_path / "r.sfumato")):
        for kind in ("typical", "guaranteed"):
            for where in ("a < 20 AND b > 9", "a = 35 AND b = 3 AND c < 5"):
                ((none,),) = each.query(f"SELECT COUNT(*) FROM t WHERE {where}", interval=kind).rows
                assert (none.value, none.low, none.high) == (0.0, 0.0, 0.0)
        by_b = each.query("SELECT b, COUNT(*) FROM t WHERE a > 29 GROUP BY b").rows
        assert [int(b) for b, count in by_b if count.high > 0] == [4]
        whole, parts = (each.query(f"SELECT COUNT(*) AS n FROM t{by}").rows for by in ("", " GROUP BY a"))
        assert sum(row[-1].value for row in parts) == pytest.approx(whole[0][0].value, abs=1e-6)
        assert each.content.cells()[~POSSIBLE].max(initial=0.0) == 0.0
    for asked in ({}, {"where": "a > 29 AND c > 3"}):
        rows = release.sample(seed=1, **asked)
        codes = np.stack([np.asarray(rows.column(name)) for name in SIZES]).astype(np.int64)
        assert SCHEMA.structure.agrees(codes).all() and codes.shape[1] > 100


def test_intervals_hold():
    """30 counts by b of 20 releases; guaranteed and typical ones allow for any spread of what is not shown.

    Were only the 20 releases independent, at 95 % fewer than 10 of 20 would hold in one of a million runs.
    """
    truth = TRUTH.reshape(40, 30, 10).sum(axis=(0, 2))
    for kind in ("typical", "guaranteed"):
        held = [
            count.low <= truth[int(b)] <= count.high
            for seed in range(20)
            for b, count in released(seed + 9).query("SELECT b, COUNT(*) FROM t GROUP BY b", interval=kind).rows
        ]
        assert len(held) == 600 and np.mean(held) > 0.5


def test_a_domain_beyond_memory_is_counted_by_its_linked_attributes():
    """10^12 cells: what is not shown is spread over the possible ones of them, which are never laid out."""
    sizes = dict.fromkeys("abcdef", 100)
    attributes = {name: {"type": "integer", "lower": 0, "upper": size - 1} for name, size in sizes.items()}
    schema = Schema(dataset="t", privacy_unit="row", attributes=attributes, impossible=[{"a": "0..49", "b": "0..89"}])
    assert schema.possible_cells == 5_500 * 100**4
    find_mechanism("sparse-cells").check(schema)
    noise = released(1).content.measurements[0].noises
    none, size = np.zeros(0, dtype=np.int64), schema.domain.size
    shown = Measurement("count", released(1).content.measurements[0].queries, none, noise, above=40, cells=none)
    total = released(1).content.totals[0]
    cube = SparseCube(schema, (shown,), (Measurement("count", total.queries, np.array([5500]), total.noises),))
    release = Release(cube, "sparse-cells", describe_guarantee(Budget.pure(1), schema), True)
    by = {int(a): count.value for a, count in release.query("SELECT a, COUNT(*) FROM t GROUP BY a").rows}
    assert (by[0], by[99]) == pytest.approx((10.0, 100.0)) and size == 10**12
    rows = release.sample(500, seed=3)
    codes = np.stack([np.asarray(rows.column(name)) for name in sizes]).astype(np.int64)
    assert schema.structure.agrees(codes).all()


def test_rules_that_link_too_many_cells_are_refused():
    attributes = {name: {"type": "integer", "lower": 0, "upper": 999} for name in "abcd"}
    rules = [{"a": 0, "b": 0}, {"b": 1, "c": 1}, {"c": 2, "d": 2}]
    schema = Schema(dataset="t", privacy_unit="row", attributes=attributes, impossible=rules)
    with pytest.raises(MechanismError, match="about attributes of more than 4,194,304 cells together; use margins"):
        find_mechanism("sparse-cells").check(schema)
