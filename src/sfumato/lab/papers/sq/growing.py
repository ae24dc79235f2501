"""A decision tree grown level by level: for each leaf and attribute counts by value and class, then splits.

The leaves of a tree share no rows, so one question about an attribute serves them all. The tree looks at so few cells
in all that every row can be put into a leaf when it is tested.
"""

from __future__ import annotations

from math import prod

import numpy as np

from sfumato.arrays import Floats
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.lab.papers.sq.classifiers import Node, Split, Tree, best_split
from sfumato.lab.papers.sq.content import cells_by
from sfumato.lab.papers.sq.statistical_queries import Questions
from sfumato.measurement import Measurement

MOST_CELLS = 2**21  # that the attributes of a tree span, or those that a classifier is tested on


def grow(
    curator: Curator, budget: Budget, target: str, features: tuple[str, ...], depth: int
) -> tuple[Tree, list[list[Measurement]], Budget | None]:
    """The tree, what was measured on each level, and what is left of the budget where it stopped early."""
    domain = curator.domain
    tree = Tree((Node(),), tuple(domain[name].ordered for name in features))
    frontier, found, levels = [0], list[list[Measurement]](), [*budget.evenly(depth)]
    while levels and frontier:
        used = [features[place] for place in tree.features]
        asked = [name for name in features if _span(curator, [target, *used, name]) <= MOST_CELLS]
        ask = Questions(curator, levels.pop(0), len(asked))
        tables = {name: _ask(ask, tree, frontier, target, features, [*used, name], name) for name in asked}
        found.append(list(tables.values()))
        tree, frontier = _split(curator, tree, frontier, target, features, tables)
    left = sum(level.amount for level in levels)
    return tree, found, Budget.pure(left) if left else None


def _ask(
    ask: Questions, tree: Tree, frontier: list[int], target: str, features: tuple[str, ...], used: list[str], name: str
) -> Measurement:
    """The rows of each leaf in question, by value of an attribute and class."""
    if len(tree.nodes) == 1:
        return ask.counts([target, name])
    domain = ask.curator.domain.along([target, *used])
    (truth, value), places = cells_by(domain, [target, name]), tree.places(cells_by(domain, features))
    number = np.full(len(tree.nodes), -1, dtype=np.int64)
    number[frontier] = np.arange(len(frontier))
    leaf, values, classes = number[places], domain[name].size, domain[target].size
    labels = np.where(leaf < 0, -1, (leaf * values + value) * classes + truth)
    return ask.counts(domain.names, labels, len(frontier) * values * classes)


def _split(
    curator: Curator,
    tree: Tree,
    frontier: list[int],
    target: str,
    features: tuple[str, ...],
    tables: dict[str, Measurement],
) -> tuple[Tree, list[int]]:
    """The tree with every leaf parted for which counts speak, and its new leaves."""
    classes, grown = curator.domain[target].size, list[int]()
    for number, place in enumerate(frontier):
        used = [features[one] for one in tree.features]
        best: tuple[Split, str] | None = None
        for name, measured in tables.items():
            if _span(curator, [target, *used, name]) > MOST_CELLS:
                continue
            table = _table(curator, measured, target, name, number, classes, whole=place == 0)
            split = best_split(table, measured.noise.continuous_variance, curator.domain[name].ordered)
            if split is not None and (best is None or split.gain > best[0].gain):
                best = split, name
        if best is not None:
            tree = tree.split(place, features.index(best[1]), best[0].cut)
            grown += [len(tree.nodes) - 2, len(tree.nodes) - 1]
    return tree, grown


def _table(
    curator: Curator, measured: Measurement, target: str, name: str, number: int, classes: int, *, whole: bool
) -> Floats:
    """Counts by value and class of one leaf; of the root they are kept in the order of the schema."""
    answers = measured.answers.astype(np.float64)
    if not whole:
        return np.asarray(answers.reshape(-1, curator.domain[name].size, classes)[number])
    pair = curator.domain.along([target, name])
    table = answers.reshape(pair.shape)
    return np.asarray(table if pair.names[0] == name else table.T)


def _span(curator: Curator, names: list[str]) -> int:
    return prod(curator.domain[name].size for name in dict.fromkeys(names))
