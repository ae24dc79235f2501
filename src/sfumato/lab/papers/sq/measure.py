"""Statistical queries: a classifier learnt from noisy counts, each question paid for out of one budget.

Dwork's survey, 5.1, after Blum, Dwork, McSherry, Nissim 2005. Three learners that ask for shares of rows only: naive
Bayes asks once, ID3 and the perceptron ask adaptively. Corrected: the number of rows is private
(statistical_queries.py), and predicates that no row meets twice are one question. A tenth of the budget tests the
result: the rows of each class among those that the classifier cannot tell apart.

A decision tree grows level by level: for each leaf and attribute counts by value and class, then splits. The leaves
share no rows, so one question about an attribute serves them all. The tree looks at so few cells in all that every row
can be put into a leaf when it is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, prod, sqrt
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.lab.papers.examples import small_table
from sfumato.lab.papers.sq.classifiers import Node, Split, Tree, best_split, latest, points_of, pulls
from sfumato.lab.papers.sq.content import Classifier, cells_by
from sfumato.lab.papers.sq.statistical_queries import Questions, largest_noise, paper_rows
from sfumato.measurement import Measurement
from sfumato.models.base.mechanism import (
    Figure,
    Forecast,
    Holds,
    Lab,
    Mechanism,
    Promises,
    sure,
    with_rows,
    without_rows,
)
from sfumato.queries import Weighted
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.queries import Workload

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


FOR_TEST = Fraction(1, 10)  # of the budget
FOR_LEAVES = Fraction(2, 10)  # of the budget of a tree, and what it did not need to grow
MOST_CLASSES = 64
A_TOLERANCE = 0.01  # of a share of rows, for which a plan says how many rows it takes
MOST_DEPTH = 6
MOST_ROUNDS = 100
MOST_WEIGHTS = 2**24  # numbers that one round of a perceptron lays out


@dataclass(frozen=True)
class Options:
    """target: the attribute to predict; the last one if not said. features: from which; all others if not said.

    depth: of a tree. rounds: of a perceptron.
    """

    target: str | None = None
    learner: Literal["naive-bayes", "id3", "perceptron"] = "naive-bayes"
    features: tuple[str, ...] = ()
    depth: int = 3
    rounds: int = 8


PLAIN = Options()


def sq(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, options: Options = PLAIN
) -> Classifier:
    """Ask for counts, learn from the answers, and test what was learnt."""
    target, features = _asked_for(schema, options)
    testable = options.learner != "naive-bayes" or _cells(schema, [target, *features]) <= MOST_CELLS
    for_learning, for_test = budget.split(1 - FOR_TEST, FOR_TEST) if testable else (budget, None)
    learnt = _LEARNERS[options.learner](curator, schema, for_learning, target, features, options)
    return learnt if for_test is None else _tested(learnt, curator, for_test)


def _naive_bayes(
    curator: Curator, schema: Schema, budget: Budget, target: str, features: tuple[str, ...], options: Options
) -> Classifier:
    ask = Questions(curator, budget, len(features))
    tables = tuple(ask.counts([target, feature]) for feature in features)
    return Classifier(schema, options.learner, target, features, tables)


def _id3(
    curator: Curator, schema: Schema, budget: Budget, target: str, features: tuple[str, ...], options: Options
) -> Classifier:
    to_grow, for_leaves = budget.split(1 - FOR_LEAVES, FOR_LEAVES)
    tree, levels, unspent = grow(curator, to_grow, target, features, options.depth)
    if unspent is not None:
        for_leaves = Budget.pure(for_leaves.amount + unspent.amount)
    classes = schema.domain[target].size
    grown = Classifier(schema, options.learner, target, features, tuple(levels[0]), (), tree)
    leaves = _by_stratum(grown, curator, for_leaves)
    tree = tree.labelled(leaves.answers.reshape(-1, classes).argmax(axis=1).tolist())
    further = (*(each for level in levels[1:] for each in level), leaves)
    return Classifier(schema, options.learner, target, features, tuple(levels[0]), further, tree)


def _perceptron(
    curator: Curator, schema: Schema, budget: Budget, target: str, features: tuple[str, ...], options: Options
) -> Classifier:
    domain = schema.domain.along([target, *features])
    codes = cells_by(domain, features)
    points, (truth,) = points_of([domain[name] for name in features], codes), cells_by(domain, [target])
    classes = domain[target].size
    ask, rounds = Questions(curator, budget, options.rounds), list[Measurement]()
    for _ in range(options.rounds):
        weights = latest([each.answers for each in rounds], points.shape[1], classes)
        rounds.append(ask.sums(domain.names, Weighted(pulls(weights, points, truth, classes).T)))
    return Classifier(schema, options.learner, target, features, (), tuple(rounds))


_LEARNERS = {"naive-bayes": _naive_bayes, "id3": _id3, "perceptron": _perceptron}


def _tested(learnt: Classifier, curator: Curator, budget: Budget) -> Classifier:
    return replace(learnt, tested=_by_stratum(learnt, curator, budget))


def _by_stratum(learnt: Classifier, curator: Curator, budget: Budget) -> Measurement:
    """The rows of each stratum and class."""
    used = learnt.features if learnt.tree is None else [learnt.features[place] for place in learnt.tree.features]
    domain = learnt.domain.along([learnt.target, *used])
    (truth,) = cells_by(domain, [learnt.target])
    strata = learnt.model.strata(cells_by(domain, learnt.features))
    groups = len(learnt.model.labels) * learnt.classes
    return Questions(curator, budget, 1).counts(domain.names, strata * learnt.classes + truth, groups)


def _asked_for(schema: Schema, options: Options) -> tuple[str, tuple[str, ...]]:
    target = options.target or schema.domain.names[-1]
    return target, options.features or tuple(name for name in schema.domain.names if name != target)


def _cells(schema: Schema, names: Sequence[str]) -> int:
    return prod(schema.domain[name].size for name in names)


def _refuses(schema: Schema, workload: Workload | None, options: Options = PLAIN) -> str | None:
    """Reason why there is nothing to learn, or too much."""
    names = schema.domain.names
    target, features = _asked_for(schema, options)
    for name in (target, *features):
        if name not in names:
            return f"there is no attribute {name!r}; there are {', '.join(names)}"
    if target in features or len({*features}) < len(features) or not features:
        return f"it learns {target} from other attributes, each once; state target= and features= of {', '.join(names)}"
    if not 2 <= (classes := schema.domain[target].size) <= MOST_CLASSES:
        return f"{target} has {classes:,} values, and it tells 2 to {MOST_CLASSES} apart; give it fewer bins"
    if not 1 <= options.depth <= MOST_DEPTH or not 1 <= options.rounds <= MOST_ROUNDS:
        return f"a tree has a depth of 1 to {MOST_DEPTH}, and a perceptron 1 to {MOST_ROUNDS} rounds"
    widest = max(features, key=lambda name: schema.domain[name].size)
    if _cells(schema, [target, widest]) > MOST_CELLS:
        return f"{target} by {widest} has more than {MOST_CELLS:,} cells; give {widest} fewer bins"
    return _too_wide(schema, target, features) if options.learner == "perceptron" else None


def _too_wide(schema: Schema, target: str, features: tuple[str, ...]) -> str | None:
    domain = schema.domain
    coordinates = 1 + sum(1 if domain[name].ordered else domain[name].size for name in features)
    vectors = 1 if domain[target].size == 2 else domain[target].size
    most = MOST_WEIGHTS // (coordinates * vectors)
    if (cells := _cells(schema, [target, *features])) <= most:
        return None
    return (
        f"a perceptron looks at every cell, and {', '.join([target, *features][:6])} span {float(cells):.3g}, "
        f"more than {most:,}; state features= with fewer of them, or learner=naive-bayes"
    )


def _promises(
    schema: Schema, budget: Budget, confidence: float, workload: Workload | None, options: Options = PLAIN
) -> Promises:
    target, features = _asked_for(schema, options)
    testable = options.learner != "naive-bayes" or _cells(schema, [target, *features]) <= MOST_CELLS
    learning = float(budget.amount * ((1 - FOR_TEST) if testable else 1)) / schema.privacy_unit.contributions
    words = ("How often the classifier is right depends on the table; the release measures it.",) if testable else ()
    if options.learner == "perceptron":
        most = (len(features) + 1) * (1 if schema.domain[target].size == 2 else 2)  # in coordinates of size 1
        return Promises(
            (
                Figure("rounds, each one question", options.rounds, "questions"),
                Figure(
                    "standard error of each sum over the rows that are wrong, at most",
                    sqrt(2.0) * options.rounds * most / learning,
                ),
            ),
            words,
        )
    levels = options.depth if options.learner == "id3" else 1
    growing = learning * float(1 - FOR_LEAVES) if options.learner == "id3" else learning
    counts = sum(_cells(schema, [target, name]) for name in features) * (2**levels - 1)
    questions, doubt = levels * len(features), 1.0 - confidence
    largest = largest_noise(questions / growing, counts, doubt)
    figures = (
        Figure("questions, each a table by class", questions, "questions"),
        Figure("counts that they answer, at most", counts, "counts"),
        Figure(f"no count is off by more than, {sure(confidence)}", largest),
        *with_rows(
            schema,
            lambda rows: Figure(
                f"tolerance: no share of {rows:,} rows is off by more than, {sure(confidence)}",
                100.0 * largest / rows,
                "%",
            ),
        ),
        Figure(f"rows for a tolerance of {100 * A_TOLERANCE:g} %, {sure(confidence)}", ceil(largest / A_TOLERANCE)),
        Figure(
            "the same by the survey, which pays for every count by itself",
            paper_rows(counts, growing, A_TOLERANCE, doubt),
        ),
    )
    return Promises(figures, (*without_rows(schema, "the tolerance"), *words))


def _example(contributions: int) -> Schema:
    yes_or_no = {"type": "category", "values": ["no", "yes"]}
    return small_table("example", contributions, warm=yes_or_no, wet=yes_or_no, ill=yes_or_no)


MECHANISM = Mechanism(
    name="sq",
    summary="learns a classifier from statistical queries and publishes it: naive Bayes, a decision tree, a perceptron",
    paper="Blum, Dwork, McSherry, Nissim 2005 (Survey 5.1)",
    run=sq,
    refuses=_refuses,
    answers="its own questions",
    options=Options,
    holds=Holds(by_margins=True),
    forecast=Forecast(for_auto=False, promises=_promises),
    lab=Lab(example=_example, tried_with={"target": "ill", "learner": "id3", "depth": "2"}),
)
