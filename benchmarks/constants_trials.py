"""What constants.py releases and asks.

A trial takes a seed, makes a table and releases it under the testing generator with the same seed, so that two values
of a constant meet the same rows and the same noise. It gives answers by kind: for each question its value, the truth,
and the ends of its 95 % interval (nan where there is none). What is foretold has the truth 0: its size is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from constants_tables import (
    EPSILONS,
    NONE,
    SALT,
    Answers,
    broad,
    kinds_of_rows,
    line,
    of_cells,
    of_margins,
    plane,
    released,
    schema_of,
    synthetic_rows,
)
from sfumato.domain import ValueSet
from sfumato.domain.predicates import Predicate
from sfumato.kernel.budget import Cost
from sfumato.models import find_mechanism
from sfumato.planner.choose import choose_mechanism
from sfumato.planner.forecast import Question
from sfumato.planner.marginal_errors import errors_by_kind
from sfumato.planner.plan import make_plan
from sfumato.queries.workload import default_workload
from sfumato.schema import Schema

# -- the laboratory


def quantile_values(seed: int) -> Answers:
    """Ranks at which quantiles lie: a quantile at its own rank is right, on heaps also within one."""
    size, rows = 4_096, (3_000, 40_000)[seed % 2]
    counts = line(size, rows, seed // 2)
    if seed // 2 % 2:
        counts = np.where(np.arange(size) % 64 == 0, counts * 30, counts // 2)
    wanted = [k / 10 for k in range(1, 10)]
    options = {"quantiles": ",".join(map(str, wanted))}
    release = released("quantiles", schema_of((size,)), counts, seed, Cost(Fraction(1, 2)), **options)
    up_to, found = counts.cumsum() / counts.sum(), Answers({"deciles": {}})
    for wish in wanted:
        one, truth = release.content.value_of("v0", 0, Fraction(wish).limit_denominator(10)), None
        truth = int(np.searchsorted(up_to, wish))
        at = int(np.clip(round(one.value), 0, size - 1))
        below, above = (up_to[at - 1] if at else 0.0), up_to[at]
        off = max(0.0, below - wish, wish - above)
        held = one.low - 1e-9 <= truth <= one.high + 1e-9
        width = float(up_to[min(size - 1, max(0, int(one.high)))] - up_to[min(size - 1, max(0, int(one.low)))])
        found["deciles"][f"{wish}"] = (off, 0.0, 0.0 if held else 2.0, width if held else 2.0 + width)
    return found


def halfspaces(seed: int) -> Answers:
    counts, rng = plane((30, 26), 8_000, seed), np.random.default_rng([SALT, 6, seed])
    release = released("halfspace", schema_of(counts.shape), counts, seed, Cost(EPSILONS[seed % 2]))
    (x, y), found = np.indices(counts.shape), Answers({"halfspaces": {}})
    for number in range(40):
        a, b = rng.normal(0, 1, 2)
        at = a * rng.integers(0, 30) + b * rng.integers(0, 26) + 1e-7
        one = release.halfspace({"v0": a, "v1": b}, at)
        found["halfspaces"][str(number)] = (one.value, int(counts[a * x + b * y > at].sum()), one.low, one.high)
    return found


def classifier(learner: str, **options: Any) -> Callable[[int], Answers]:
    """Shares of rows that are put into a wrong class, and what a release says of right ones."""

    def trial(seed: int) -> Answers:
        counts = kinds_of_rows((8, 5, 6, 4), 4_000, seed, kinds=7)
        cost = Cost(EPSILONS[seed % 2])
        release = released("sq", schema_of(counts.shape), counts, seed, cost, learner=learner, **options)
        codes, rows, content = np.indices(counts.shape).reshape(4, -1), counts.reshape(-1), release.content
        strata, labels = content.model.strata(list(codes[:3])), content.model.labels
        right = float((rows * (labels[strata] == codes[3])).sum() / rows.sum())
        one, found = content.right_in(range(len(labels)), 0.95), Answers()
        found["wrong"] = {"all": (1.0 - right, 0.0, NONE, NONE)}
        found["right"] = {"all": (one.value, right, one.low, one.high)}
        for stratum in range(len(labels)):
            here = (strata == stratum) * rows
            if here.sum() >= 50:
                truth, one = float((here * (codes[3] == labels[stratum])).sum() / here.sum()), None
                one = content.right_in([stratum], 0.95)
                found.setdefault("right of a part", {})[str(stratum)] = (one.value, truth, one.low, one.high)
        return found

    return trial


def learned(model: str, **options: Any) -> Callable[[int], Answers]:
    """Ranges by a learned model."""

    def trial(seed: int) -> Answers:
        counts, rng = line(96, 4_000, seed), np.random.default_rng([SALT, 8, seed])
        release = released("mldp", schema_of((96,)), counts, seed, Cost(1), model=model, **options)
        ends = np.sort(rng.integers(0, 96, (40, 2)), axis=1).tolist()
        sets = [ValueSet.above(a, inclusive=True) & ValueSet.below(b, inclusive=True) for a, b in ends]
        listed = release.content.counts([(Predicate.where("v0", each), {}) for each in sets], 0.95)
        pairs = enumerate(zip(ends, listed, strict=True))
        return {"ranges": {str(n): (o.value, int(counts[a : b + 1].sum()), o.low, o.high) for n, ((a, b), o) in pairs}}

    return trial


# -- what is known without data


def strategies(name: str, listed: Mapping[str, Schema]) -> Callable[[int], Answers]:
    """Expected errors of every block of the usual workload, for pure and for Gaussian noise."""
    from sfumato.planner.forecast import strategy_of
    from sfumato.planner.marginal_errors import expected_blocks

    def trial(seed: int) -> Answers:
        found, (label, schema) = Answers(), list(listed.items())[seed]
        for cost in (Cost(1), Cost.stated(1, "1e-9")):
            workload, mechanism = default_workload(schema.domain), find_mechanism(name)
            if not cost.pure and not mechanism.gaussian:
                continue
            strategy = strategy_of(mechanism, Question(schema, (), workload), cost.budget)
            errors = expected_blocks(strategy, schema, cost.budget, workload.blocks)
            noise = "pure" if cost.pure else "gaussian"
            found[f"{label}, {noise}"] = {
                block: (float(error), 0.0, NONE, NONE) for block, error in zip(workload.names, errors, strict=True)
            }
        return found

    return trial


def plans(listed: list[tuple[Schema, dict[str, Any]]]) -> Callable[[int], Answers]:
    """Errors or epsilons that a plan foretells for each mechanism, by question, and what it would choose."""

    def trial(seed: int) -> Answers:
        schema, wanted = listed[seed]
        made = make_plan(schema, **wanted)
        found: Answers = {"chosen": {made.mechanism: (1.0, 1.0, NONE, NONE)}}
        found["said"] = {repr(made): (1.0, 1.0, NONE, NONE)}
        if made.choice is not None and math.isfinite(made.choice.expected):
            found["expected"] = {"choice": (made.choice.expected, 0.0, NONE, NONE)}
        for outlook in made.outlooks:
            if outlook.epsilon is not None:
                found.setdefault("epsilons", {})[outlook.mechanism] = (float(outlook.epsilon), 0.0, NONE, NONE)
            for each in outlook.lines:
                kept = (float(each.stderr), 0.0, NONE, NONE)
                found.setdefault("foretold", {})[f"{outlook.mechanism} {each.query}"] = kept
                if math.isfinite(each.within):
                    kept = (float(each.within), 0.0, NONE, NONE)
                    found.setdefault("within", {})[f"{outlook.mechanism} {each.query}"] = kept
        return found

    return trial


def by_kind(seed: int) -> Answers:
    """Errors by number of attributes, as they are said after a release."""
    schema, cost, found = schema_of((4, 3, 3, 2, 3, 2)), Cost(1), Answers()
    counts = kinds_of_rows(schema.domain.shape, 4_000, seed)
    content = released("margins", schema, counts, seed, cost).content
    for name, given in (("hierarchical", None), ("margins", content)):
        workload = default_workload(schema.domain) if given is None else None
        errors = errors_by_kind(schema, find_mechanism(name), workload, cost.budget, given)
        found[name] = {kind: (error, 0.0, NONE, NONE) for kind, error in errors.items()}
    return found


def choices(listed: list[tuple[Schema, dict[str, Any]]]) -> Callable[[int], Answers]:
    """What `auto` would take where a plan takes long, and the error that it expects."""

    def trial(seed: int) -> Answers:
        schema, wanted = listed[seed]
        choice = choose_mechanism(schema, Cost(Fraction(wanted["epsilon"])).budget)
        expected = choice.expected if math.isfinite(choice.expected) else 1.0
        return {"chosen": {choice.name: (1.0, 1.0, NONE, NONE)}, "expected": {"": (expected, 0.0, NONE, NONE)}}

    return trial


# -- all of them, with the number of seeds


def grouped(size: int) -> Schema:
    """A category whose values fall into groups of uneven sizes."""
    names, groups, first = [f"c{n}" for n in range(size)], {}, 0
    for number in range(12):
        last = size if number == 11 else min(size, first + max(1, size * (1 + number % 4) // 30))
        groups[f"g{number}"], first = names[first:last], last
    attributes = {"c": {"type": "category", "values": names, "groups": {"g": groups}}}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})


LINES = {f"{size} cells": schema_of((size,)) for size in (60, 180, 400)}
PLANES = {"24 x 24": schema_of((24, 24)), "60 x 8": schema_of((60, 8)), "8 x 6 x 4": schema_of((8, 6, 4))}
FEW = {"12 cells": schema_of((12,)), "20 cells": schema_of((20,)), "5 x 4": schema_of((5, 4))}
GROUPED = {"90 in groups": grouped(90), "300 in groups": grouped(300), "700 in groups": grouped(700)}
LONG = {"3000 cells": schema_of((3000,)), "5000 cells": schema_of((5000,))}
BESIDE = {"700 x 6": schema_of((700, 6)), "1500 x 6": schema_of((1500, 6))}
PLANNED: list[tuple[Schema, dict[str, Any]]] = [
    (schema_of((10,), rows=500), {"epsilon": 1}),
    (schema_of((4, 3)), {"epsilon": "1/2"}),
    (schema_of((600,), rows=9_000), {"epsilon": "1/10", "mechanism": "sfumato"}),
]
FOR_ERRORS: list[tuple[Schema, dict[str, Any]]] = [(schema_of((10,), rows=500), {"error": 12.0})]
OF_MARGINS: list[tuple[Schema, dict[str, Any]]] = [
    (schema_of((90, 80, 60, 40, 20)), {"epsilon": 1}),
    (schema_of((90, 80, 60, 40, 20), True, rows=3_000), {"epsilon": 1}),
    (schema_of((50, 40, 30, 60, 20, 5, 4)), {"error": 500.0}),
]
BY_NAME: list[tuple[Schema, dict[str, Any]]] = [
    (schema_of((200,)), {"epsilon": 1, "mechanism": "hierarchical"}),
    (schema_of((3, 4, 3, 2, 3)), {"epsilon": 1, "mechanism": "hierarchical"}),
]
LARGE: list[tuple[Schema, dict[str, Any]]] = [
    (schema_of((900, 900), rows=900_000), {"epsilon": 1}),
    (schema_of((900, 900)), {"epsilon": 1}),
    (schema_of((1300, 1300), rows=900_000), {"epsilon": 1}),
    (schema_of((1300, 1300)), {"epsilon": 1}),
    (schema_of((1800, 1800), rows=9_000_000), {"epsilon": 1}),
]

Trials = Mapping[str, tuple[Callable[[int], Answers], int]]
TRIALS: Trials = {
    "tree line": (of_cells("sfumato", lambda seed: line(150, 2_000, seed)), 8),
    "tree full line": (of_cells("sfumato", lambda seed: line(150, 400_000, seed)), 4),
    "tree plane": (of_cells("sfumato", lambda seed: plane((15, 12), 2_000, seed)), 6),
    "tree long line": (of_cells("sfumato", lambda seed: line(1_200, 5_000, seed)), 4),
    "tree grid": (of_cells("sfumato", lambda seed: kinds_of_rows((8, 6, 5, 3), 4_000, seed)), 4),
    "dawa line": (of_cells("dawa", lambda seed: line(150, 2_000, seed)), 12),
    "dawa plane": (of_cells("dawa", lambda seed: plane((15, 12), 2_000, seed)), 8),
    "dawa grid": (of_cells("dawa", lambda seed: kinds_of_rows((8, 6, 5, 3), 4_000, seed)), 6),
    "kdtree plane": (of_cells("kdtree", lambda seed: plane((15, 12), 2_000, seed)), 12),
    "kdtree large plane": (of_cells("kdtree", lambda seed: plane((50, 40), 4_000, seed)), 6),
    "ispe plane": (of_cells("ispe", lambda seed: plane((15, 12), 2_000, seed)), 12),
    "mwem line": (of_cells("mwem", lambda seed: line(80, 2_000, seed)), 8),
    "mwem plane": (of_cells("mwem", lambda seed: plane((10, 8), 2_000, seed)), 8),
    "pmw line": (of_cells("pmw", lambda seed: line(80, 2_000, seed)), 8),
    "pmw plane": (of_cells("pmw", lambda seed: plane((10, 8), 2_000, seed)), 8),
    "sparse cells": (of_margins("sparse-cells", (24, 20, 5), 3_000), 6),
    "margins survey": (of_margins("margins", (5, 4, 3, 2), 4_000, measure=True), 5),
    "margins long": (of_margins("margins", (48, 30, 4), 5_000, delta="1e-9"), 4),
    "margins ten": (of_margins("margins", (2,) * 10, 3_000, delta="1e-9"), 3),
    "margins broad": (broad, 2),
    "margins broad sums": (of_margins("margins", (40, 40, 24), 4_000, measure=True), 2),
    "dawa large grid": (of_cells("dawa", lambda seed: kinds_of_rows((20, 12, 9, 4), 8_000, seed)), 3),
    "rows": (synthetic_rows, 4),
    "residual survey": (of_margins("residual", (6, 4, 5, 3), 4_000, delta="1e-9"), 6),
    "bayes": (of_margins("bayes", (4, 3, 2, 3), 4_000), 6),
    "quantiles": (quantile_values, 24),
    "halfspaces": (halfspaces, 12),
    "naive Bayes": (classifier("naive-bayes"), 40),
    "id3": (classifier("id3", depth=3), 40),
    "perceptron": (classifier("perceptron", rounds=4), 40),
    **{model: (learned(model, features=48), 12) for model in ("ridge", "gaussian", "bagging", "boosting")},
    "auto": (learned("auto", features=24), 4),
    "network": (learned("network", features=24), 8),
    "more queries": (learned("ridge", training=300, features=48), 12),
    "subsets": (learned("ridge", queries="subsets", features=48), 12),
    "trees": (strategies("hierarchical", {**LINES, **PLANES, **GROUPED}), 9),
    "wavelets": (strategies("wavelet", {**PLANES, **LONG}), 5),
    "matrices": (strategies("matrix", {**LINES, **PLANES}), 6),
    "matrices beside others": (strategies("matrix", BESIDE), 2),
    "matrices of long lines": (strategies("matrix", LONG), 2),
    "divisions": (strategies("division", FEW), 3),
    "plans": (plans(PLANNED), len(PLANNED)),
    "plans by name": (plans(BY_NAME), len(BY_NAME)),
    "errors by kind": (by_kind, 3),
    "plans for an error": (plans(FOR_ERRORS), len(FOR_ERRORS)),
    "plans of margins": (plans(OF_MARGINS), len(OF_MARGINS)),
    "large plans": (choices(LARGE), len(LARGE)),
}

# Whose seeds are numbers of a list: each is one schema, and there are no others.
LISTED = {name for name in TRIALS if name.startswith(("trees", "wavelets", "matrices", "divisions", "plans", "large"))}
