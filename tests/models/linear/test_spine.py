"""Small areas: least squares over all levels, the shares of levels, and what is asked of each level."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from curators import curator_of

from sfumato.domain import Axis, Domain
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import MECHANISMS
from sfumato.models.linear.spine import MECHANISM, Spine, areas_workload, levels_strategy, spine_strategy
from sfumato.publishing.publish import describe_guarantee
from sfumato.queries import Identity, Predicates, Ranges, Total, Tree, Workload, default_workload
from sfumato.releases.release import Release
from sfumato.schema import Schema
from sfumato.sql import compile_select
from sfumato.sql.workload import workload_of

LEAVES = 24
COUNTY = (1, 2, 7, 12, 15, 19, 20)  # two counties of one block each; one of the states has a single county
STATE = (12, 15)
PLACES = Axis("block", "category", np.arange(LEAVES + 1.0), splits=(STATE, COUNTY))
BOTH = Domain((PLACES, Axis("sex", "category", np.arange(3.0), ("F", "M"))))
SPINE = Spine.of(PLACES)


def dense_errors(strategy, blocks, pure: bool) -> np.ndarray:
    """Mean squared error of each block at unit sensitivity, by explicit matrices."""
    A = strategy.weighted.dense().astype(float)
    load = np.abs(A).sum(axis=0).max() ** 2 if pure else (A**2).sum(axis=0).max()
    inverse = np.linalg.inv(A.T @ A)
    return np.array([load * np.trace(W @ inverse @ W.T) / len(W) for W in (block.dense() for block in blocks)])


@pytest.mark.parametrize("pure", [True, False])
def test_variances_of_areas_are_those_of_dense_least_squares(pure):
    """To rounding for whole weights, chains of single children and levels that are left out included."""
    for weights in ([3.0, 5.0, 2.0, 7.0], [0.0, 4.0, 0.0, 1.0], [0.0, 0.0, 0.0, 2.0]):
        rows = SPINE.nodes.row_weights(weights, pure)
        A = np.concatenate([w[:, None] * q.dense() for w, q in zip(rows, SPINE.queries(), strict=True)])
        inverse = np.linalg.inv(A.T @ A)
        for found, queries in zip(SPINE.nodes.variances([w**2 for w in rows]), SPINE.queries(), strict=True):
            W = queries.dense()
            assert np.allclose(found, np.einsum("ij,jk,ik->i", W, inverse, W), rtol=1e-10)


@pytest.mark.parametrize("pure", [True, False])
def test_areas_that_divide_alike_are_priced_once(pure):
    """The same means as those over all areas, of the uneven tree and of an even one, whose levels are one kind each."""
    even = Spine(tuple(np.arange(0, 61, step) for step in (60, 20, 4, 1)))
    assert [len(level) for level in even.kinds.counts] == [1, 1, 1, 1]
    assert [level.sum() for level in SPINE.kinds.counts] == [1, 3, 8, LEAVES]
    assert len(SPINE.kinds.counts[-1]) < 12
    for spine in (SPINE, even):
        for weights in ([3.0, 5.0, 2.0, 7.0], [0.0, 4.0, 1.0, 1.0]):
            load = sum(weights) ** 2 if pure else sum(weight**2 for weight in weights)
            every = spine.nodes.variances([own**2 for own in spine.nodes.row_weights(weights, pure)])
            assert np.allclose(spine.errors(weights, pure), [load * one.mean() for one in every], rtol=1e-12)


@pytest.mark.parametrize("pure", [True, False])
def test_every_block_bears_the_same_load(pure):
    """Also below an area with a single area in it, which is asked once with the budget of both."""
    rows = SPINE.nodes.row_weights([3.0, 5.0, 2.0, 7.0], pure)
    power = 1 if pure else 2
    A = np.concatenate([w[:, None] ** power * q.dense() for w, q in zip(rows, SPINE.queries(), strict=True)])
    assert np.allclose(A.sum(axis=0), 17 if pure else 87)
    part = SPINE.part(np.array([3.0, 5.0, 2.0, 7.0]), pure, 12)
    loads = (part.weights[:, None] * part.queries.dense()) ** power
    sums = loads.sum(axis=0)
    assert sums.max() == sums.min() if pure else sums.max() <= 1.001 * sums.min()


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("demand", [[1.0, 1 / 3, 1 / 8, 1 / 24], [0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.1]])
def test_no_other_shares_of_the_levels_are_better(pure, demand):
    """Beside sixty others drawn at random, sparse ones included, and steps around the one that was found."""
    demand = np.array(demand) * [1, 3, 8, 24]
    found = SPINE.best_weights(demand, pure)
    least = float(SPINE.errors(found.tolist(), pure) @ demand)
    rng = np.random.default_rng(4)
    near = found * np.exp(rng.normal(size=(60, 4)) * 0.2)
    for drawn in [*rng.dirichlet(np.full(4, 0.5), 60), *near]:
        weights = np.maximum(drawn / drawn.sum(), 1e-9)
        assert least <= 1.0005 * float(SPINE.errors(weights.tolist(), pure) @ demand)


@pytest.mark.parametrize("pure", [True, False])
def test_the_strategy_has_the_error_that_the_levels_promise(pure):
    """Rounded weights and crossed attributes: within 2 % of what explicit matrices say of the best unrounded ones."""
    workload = areas_workload(BOTH)
    assert workload.names[:3] == ("block 0", "block 0 x sex", "block 1")
    assert len(workload.blocks) == 8
    strategy = levels_strategy(BOTH, workload, pure)
    assert isinstance(strategy.axes[0].queries, Tree)
    found = dense_errors(strategy, workload.blocks, pure) @ workload.weights
    other = dense_errors(levels_strategy(BOTH, Workload(("cells",), (Identity(48),)), pure), workload.blocks, pure)
    assert found < 0.7 * (other @ workload.weights)


def test_queries_are_taken_apart_into_the_largest_areas():
    def asked(queries) -> list[float]:
        return SPINE.demand(queries).tolist()

    assert asked(Total(LEAVES)) == [1, 0, 0, 0]
    assert asked(Ranges(LEAVES, [0, 12, 15], [11, 14, 23])) == [0, 3, 0, 0]
    assert asked(Identity(LEAVES)) == [0, 0, 3, 21]  # three counties have a single block
    assert asked(Predicates(LEAVES, [[*range(12), 20, 21, 22, 23, 2 + 14]])) == [0, 1, 1, 1]


def test_a_named_workload_moves_the_budget_to_its_level():
    schema = Schema.from_dict(DESCRIPTION)
    text = "SELECT COUNT(*) FROM t WHERE county = 'c3'"
    workload = workload_of([(text, compile_select(text, schema))], schema)
    named, usual = (spine_strategy(schema, asked, True) for asked in (workload, default_workload(schema.domain)))
    for strategy, other in ((named, usual), (usual, named)):
        blocks = workload.blocks if strategy is named else areas_workload(schema.domain).blocks
        own, others = (dense_errors(each, blocks, True).sum() for each in (strategy, other))
        assert own < 0.9 * others


def groups() -> dict[str, object]:
    """Counties and states of the blocks, by name."""
    blocks = [f"b{number}" for number in range(LEAVES)]
    ends = [0, *COUNTY, LEAVES]
    counties = {f"c{n}": blocks[a:b] for n, (a, b) in enumerate(pairwise(ends))}
    cuts = [0, *STATE, LEAVES]
    states = {
        f"s{n}": [f"c{number}" for number, start in enumerate(ends[:-1]) if a <= start < b]
        for n, (a, b) in enumerate(pairwise(cuts))
    }
    return {"type": "category", "values": blocks, "groups": {"county": counties, "state": states}}


DESCRIPTION = {
    "dataset": "t",
    "privacy_unit": "row",
    "attributes": {"block": groups(), "sex": {"type": "category", "values": ["F", "M"]}},
}
COUNTS = (np.arange(48).reshape(24, 2) ** 2) % 97


def released(seed: int, budget: Budget, epsilon: Fraction | int = 1) -> Release:
    schema = Schema.from_dict(DESCRIPTION)
    curator = curator_of(schema, COUNTS, epsilon=epsilon, entropy=TestingEntropy(seed))
    return Release(MECHANISM.run(curator, schema, budget, None), "spine", describe_guarantee(budget, schema), False)


def test_counts_are_consistent_over_levels_and_near_the_truth_at_a_huge_epsilon(tmp_path):
    release = released(3, Budget.pure(10**5), 10**5)
    release.save(tmp_path / "r.sfumato")
    for one in (release, Release.load(tmp_path / "r.sfumato")):
        states = one.query("SELECT state, sex, COUNT(*) FROM t GROUP BY state, sex").rows
        counties = one.query("SELECT county, COUNT(*) FROM t GROUP BY county").rows
        assert sum(row[2].value for row in states) == pytest.approx(sum(row[1].value for row in counties), abs=1e-3)
        assert [row[1].value for row in counties] == pytest.approx(
            np.add.reduceat(COUNTS.sum(axis=1), [0, *COUNTY]), abs=1e-2
        )


def test_standard_errors_at_every_level_are_those_of_dense_least_squares():
    """Of areas of every level, alone and crossed, and of a list of blocks from all states."""
    asked = {
        "TRUE": slice(None),
        "state = 's1'": slice(12, 15),
        "county = 'c4' AND sex = 'F'": slice(12, 15),
        "block = 'b20'": slice(20, 21),
        "block IN ('b0', 'b13', 'b14', 'b22')": [0, 13, 14, 22],
    }
    release = released(0, Budget.pure(1))
    design = release.content.fits[0].measurement.design
    A = design.queries.dense().astype(float)
    inverse = np.linalg.inv(A.T @ (A / design.sizes[:, None]))
    for condition, area in asked.items():
        column = np.zeros((24, 2))
        column[area, : 1 if "sex" in condition else 2] = 1.0
        weights = A @ (inverse @ column.ravel()) / design.sizes  # of each noise in the estimate
        expected = np.sqrt(weights**2 @ design.variances)  # of the discrete noise, a little less than 2 b^2
        ((count,),) = release.query(f"SELECT COUNT(*) FROM t WHERE {condition}").rows
        assert count.stderr == pytest.approx(expected, rel=1e-6)
        assert count.low < count.value < count.high


def test_without_groups_trees_are_chosen_as_usual_and_it_refuses_nothing():
    domain = Domain((Axis("age", "integer", np.arange(65.0)),))
    assert Spine.of(domain.axes[0]) is None
    assert levels_strategy(domain, default_workload(domain), True).queries.columns == 64
    assert MECHANISMS["spine"] is MECHANISM
