"""Statistical queries: a classifier learnt from noisy counts, each question paid for out of one budget; see docs/sq.md.

Dwork's survey, 5.1, after Blum, Dwork, McSherry, Nissim 2005. Corrected: the number of rows is private, and predicates
that no row meets twice are one question: so are the leaves of a tree, which share no rows. A tenth of the budget tests
the result: the rows of each class among those that the classifier cannot tell apart.
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
from sfumato.lab.papers.forms import small_table
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


@dataclass(frozen=True, eq=False)
class Task:
    """Learning task: target and features of a table, with its curator."""

    curator: Curator
    schema: Schema
    target: str
    features: tuple[str, ...]
    options: Options

    def classifier(
        self, tables: Sequence[Measurement], further: Sequence[Measurement] = (), tree: Tree | None = None
    ) -> Classifier:
        """Classifier content from measurements and, for ID3, the tree."""
        learner = self.options.learner
        return Classifier(self.schema, learner, self.target, self.features, tuple(tables), tuple(further), tree)

    def span(self, names: Sequence[str]) -> int:
        """Number of cells that the target and some features span."""
        return _cells(self.schema, [*dict.fromkeys((self.target, *names))])


def sq(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, options: Options = PLAIN
) -> Classifier:
    """Measure statistical queries, learn a classifier from them, and test it privately."""
    task = Task(curator, schema, *_asked_for(schema, options), options)
    testable = options.learner != "naive-bayes" or task.span(task.features) <= MOST_CELLS
    for_learning, for_test = budget.split(1 - FOR_TEST, FOR_TEST) if testable else (budget, None)
    learnt = _LEARNERS[options.learner](task, for_learning)
    return learnt if for_test is None else replace(learnt, tested=_by_stratum(learnt, curator, for_test))


def _naive_bayes(task: Task, budget: Budget) -> Classifier:
    ask = Questions(task.curator, budget, len(task.features))
    return task.classifier([ask.counts([task.target, feature]) for feature in task.features])


def _id3(task: Task, budget: Budget) -> Classifier:
    to_grow, for_leaves = budget.split(1 - FOR_LEAVES, FOR_LEAVES)
    tree, levels, unspent = _grown(task, to_grow)
    if unspent:
        for_leaves = Budget.pure(for_leaves.amount + unspent)
    leaves = _by_stratum(task.classifier(levels[0], (), tree), task.curator, for_leaves)
    labels = leaves.answers.reshape(-1, task.schema.domain[task.target].size).argmax(axis=1).tolist()
    further = (*(each for level in levels[1:] for each in level), leaves)
    return task.classifier(levels[0], further, tree.labelled(labels))


def _grown(task: Task, budget: Budget) -> tuple[Tree, list[list[Measurement]], Fraction]:
    """Grow a tree: the tree, the measurements of each level, and the budget left if it stopped early."""
    tree = Tree((Node(),), tuple(task.schema.domain[name].ordered for name in task.features))
    frontier, found, levels = [0], list[list[Measurement]](), [*budget.evenly(task.options.depth)]
    while levels and frontier:
        used = [task.features[place] for place in tree.features]
        asked = [name for name in task.features if task.span([*used, name]) <= MOST_CELLS]
        ask = Questions(task.curator, levels.pop(0), len(asked))
        tables = {name: _by_leaf(task, ask, tree, frontier, name) for name in asked}
        found.append(list(tables.values()))
        tree, frontier = _split(task, tree, frontier, tables)
    return tree, found, sum((level.amount for level in levels), Fraction(0))


def _by_leaf(task: Task, ask: Questions, tree: Tree, frontier: list[int], name: str) -> Measurement:
    """Measure the rows of each frontier leaf, by value of an attribute and class."""
    if len(tree.nodes) == 1:
        return ask.counts([task.target, name])
    used = [task.features[place] for place in tree.features]
    domain = task.schema.domain.along([task.target, *used, name])
    (truth, value), places = cells_by(domain, [task.target, name]), tree.places(cells_by(domain, task.features))
    number = np.full(len(tree.nodes), -1, dtype=np.int64)
    number[frontier] = np.arange(len(frontier))
    leaf, values, classes = number[places], domain[name].size, domain[task.target].size
    labels = np.where(leaf < 0, -1, (leaf * values + value) * classes + truth)
    return ask.counts(domain.names, labels, len(frontier) * values * classes)


def _split(task: Task, tree: Tree, frontier: list[int], tables: dict[str, Measurement]) -> tuple[Tree, list[int]]:
    """Split every frontier leaf where a split has a gain; the tree and its new leaves."""
    domain, grown = task.schema.domain, list[int]()
    for number, place in enumerate(frontier):
        used = [task.features[one] for one in tree.features]
        best: tuple[Split, str] | None = None
        for name, measured in tables.items():
            if task.span([*used, name]) > MOST_CELLS:
                continue
            table = _table(task, measured, name, None if place == 0 else number)
            split = best_split(table, measured.noise.continuous_variance, domain[name].ordered)
            if split is not None and (best is None or split.gain > best[0].gain):
                best = split, name
        if best is not None:
            tree = tree.split(place, task.features.index(best[1]), best[0].cut)
            grown += [len(tree.nodes) - 2, len(tree.nodes) - 1]
    return tree, grown


def _table(task: Task, measured: Measurement, name: str, number: int | None) -> Floats:
    """Counts (values, classes) of one leaf; number: of the leaf on the frontier, None for the root."""
    domain, answers = task.schema.domain, measured.answers.astype(np.float64)
    if number is not None:
        return np.asarray(answers.reshape(-1, domain[name].size, domain[task.target].size)[number])
    pair = domain.along([task.target, name])
    table = answers.reshape(pair.shape)
    return np.asarray(table if pair.names[0] == name else table.T)


def _perceptron(task: Task, budget: Budget) -> Classifier:
    domain = task.schema.domain.along([task.target, *task.features])
    codes, (truth,) = cells_by(domain, task.features), cells_by(domain, [task.target])
    points, classes = points_of([domain[name] for name in task.features], codes), domain[task.target].size
    ask, rounds = Questions(task.curator, budget, task.options.rounds), list[Measurement]()
    for _ in range(task.options.rounds):
        weights = latest([each.answers for each in rounds], points.shape[1], classes)
        rounds.append(ask.sums(domain.names, Weighted(pulls(weights, points, truth, classes).T)))
    return task.classifier((), rounds)


_LEARNERS = {"naive-bayes": _naive_bayes, "id3": _id3, "perceptron": _perceptron}


def _by_stratum(learnt: Classifier, curator: Curator, budget: Budget) -> Measurement:
    """Measure the rows of each stratum and class."""
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
    """Reason why a table has nothing to learn, or too many cells, or None."""
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


_YES_OR_NO = {"type": "category", "values": ["no", "yes"]}
EXAMPLE = small_table("example", warm=_YES_OR_NO, wet=_YES_OR_NO, ill=_YES_OR_NO)


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
    lab=Lab(example=EXAMPLE, tried_with={"target": "ill", "learner": "id3", "depth": "2"}),
)
