"""MLDP: learn a model from noisy answers to training queries, and publish the model; see docs/mldp.md.

Zhu, Xiong, Li, Zhou, Yu, Differentially private query learning: from data publishing to model publishing, 2017,
algorithm 1. Corrected: the training set is chosen and charged by what one row really changes, error bars are measured
on held-out answers (theorem 4.4 does not hold), and the model is ONNX, which no one has to trust.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sfumato.errors import MechanismError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.lab.papers.forms import small_table, whole_up_to
from sfumato.lab.papers.mldp import onnx_file
from sfumato.lab.papers.mldp.content import Learned
from sfumato.lab.papers.mldp.error_bars import finer, tiles_beside
from sfumato.lab.papers.mldp.onnx_file import can_run, missing
from sfumato.lab.papers.mldp.training import MODELS, Lesson, best_of, check_names, train
from sfumato.lab.papers.mldp.training_queries import Blocks, training_sets
from sfumato.models.base.mechanism import Figure, Forecast, Holds, Lab, Mechanism, Promises
from sfumato.queries import Identity, Predicates, Workload
from sfumato.schema import Schema

MOST_CELLS = 2**20
MOST_FEATURES = 2**10  # blocks that a user may ask for
MOST_TRAINING = 2**11
MOST_KEPT = 3 * 2**17  # features of all training queries together, which most models keep


@dataclass(frozen=True)
class Settings:
    """Shares of the budget for finding blocks, for the training set and for held-out answers; looks: rounds of finding.

    Where every block is a cell there is nothing to find, and that share is held out too.
    """

    shares: tuple[int, int, int] = (1, 5, 4)
    looks: int = 2


@dataclass(frozen=True)
class Options:
    """queries: what the training set is chosen from. model: what is trained; auto: the best by cross-validation.

    features: at most so many blocks of cells, in whose terms the model sees queries. training: how many queries; 0 for
    as many as reach every block by itself. between: for similarity, the attribute whose values are compared.
    """

    queries: Literal["ranges", "predicates", "subsets", "similarity"] = "ranges"
    model: str = "ridge"
    features: int = 256
    training: int = 0
    between: str = ""

    @property
    def whole(self) -> str | None:
        """Attribute whose values are never merged into blocks."""
        return self.between or None

    @property
    def candidates(self) -> str:
        """Family of training queries; similarities are learnt from counts by values, "predicates"."""
        return "predicates" if self.queries == "similarity" else self.queries


SETTINGS = Settings()
PLAIN = Options()


def mldp(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, options: Options = PLAIN
) -> Learned:
    """Find blocks, choose queries, measure them, train, publish.

    budget: half on the training set. The kernel charges every cell for the queries that it is in, so the noise is that
    of the set's own sensitivity.
    """
    for_looks, for_training, for_aside = _parts(schema, budget, options)
    blocks = _even_blocks(schema, options)
    if for_looks is not None:
        blocks = _found_blocks(curator, schema, for_looks, options, SETTINGS.looks)
    sets = training_sets(blocks, options.candidates, options.training)
    tiles = tiles_beside(blocks)

    queries = Predicates(blocks.size, [row > 0 for row in sets])
    trained = curator.reduce(blocks.partition).measure(queries, for_training)
    aside = curator.reduce(tiles.partition).measure(Identity(tiles.size), for_aside)

    # From here on only noisy answers and public features are used: post-processing.
    lesson = Lesson(blocks.of_sets(sets), trained.answers.astype(np.float64), blocks.size, trained.noise.variance)
    name = best_of(MODELS, lesson) if options.model == "auto" else options.model
    model = train(name, lesson)
    onnx = onnx_file.written(model.graph())
    return Learned(schema, options.queries, name, blocks, trained, tiles, aside, onnx, options.whole)


def _parts(schema: Schema, budget: Budget, options: Options) -> tuple[Budget | None, Budget, Budget]:
    """Shares of the budget: for looks, if there are any, for the training set, and for the held-out answers."""
    looking, training, aside = SETTINGS.shares
    # Models that keep all their training queries must have a size that is known beforehand.
    sized = options.model in ("ridge", "network") or len(schema.domain.shape) == 1
    if sized and schema.domain.size > _even_blocks(schema, options).size:
        for_looks, for_training, for_aside = budget.split(looking, training, aside)
        return for_looks, for_training, for_aside
    for_training, for_aside = budget.split(training, looking + aside)
    return None, for_training, for_aside


def _even_blocks(schema: Schema, options: Options) -> Blocks:
    return Blocks.at_most(schema.domain, options.features, options.whole)


def _found_blocks(curator: Curator, schema: Schema, budget: Budget, options: Options, looks: int) -> Blocks:
    """Find blocks adaptively: from half their number, measure counts, halve the fullest, and repeat."""
    half = options.features // 2
    blocks = Blocks.at_most(schema.domain, half, options.whole)
    for look, share in enumerate(budget.evenly(looks), 1):
        seen = curator.reduce(blocks.partition).measure(Identity(blocks.size), share)
        blocks = finer(blocks, seen.answers, half + (options.features - half) * look // looks)
    return blocks


def refuses(schema: Schema, workload: Workload | None, options: Options = PLAIN) -> str | None:
    """Reason why a schema or options do not fit, before anything is spent."""
    try:
        check_names(options.model)
    except MechanismError as error:
        return str(error)
    ranges = {"features": (2, options.features, MOST_FEATURES), "training": (0, options.training, MOST_TRAINING)}
    wrong = [
        f"{name} must lie between {a} and {b:,}" for name, (a, stated, b) in ranges.items() if not a <= stated <= b
    ]
    if not can_run():
        wrong.append(missing())
    if schema.measures:
        wrong.append("a learned model answers counts; leave the measures out of the schema, or use auto")
    return wrong[0] if wrong else cannot_learn(schema, options)


def cannot_learn(schema: Schema, options: Options) -> str | None:
    """Reason why a training set would be of no use, or None."""
    if (reason := not_comparable(schema, options)) is not None:
        return reason
    blocks = _even_blocks(schema, options)
    if blocks.size < 2:
        return "there is one cell only, so that every query has the same answer; declare attributes to learn from"
    sets = training_sets(blocks, options.candidates, options.training)
    if np.linalg.matrix_rank(sets) < 2:
        return f"{options.training} training queries all ask for the same; state training=0 or at least {blocks.size}"
    if options.model not in ("ridge", "network") and len(sets) * blocks.features > MOST_KEPT:
        return f"a model {options.model} of {blocks.size:,} blocks is too large; state features=256 or less"
    if options.training > len(sets):
        return f"there are {len(sets):,} different candidate queries only; state training={len(sets)} or less"
    return None


def not_comparable(schema: Schema, options: Options) -> str | None:
    """Reason why values of an attribute cannot be compared, or None."""
    names = schema.domain.names
    if (options.queries == "similarity") != bool(options.between):
        return "queries=similarity and between=ATTRIBUTE go together, such as between=user"
    if not options.between:
        return None
    if schema.privacy_unit.column is not None:
        return (
            f"how alike two values of {options.between} are says something of persons with all their rows; it is "
            "offered with one row (a rating) as the unit, which hides single rows and not who is in the table: state "
            "privacy_unit: row"
        )
    if options.between not in names or len(names) < 2:
        return f"between must be one of {', '.join(names)}, and another attribute must be there to compare by"
    if 2 * schema.domain[options.between].size > options.features:
        return f"{options.between} has too many values; state features=N, at least twice as many"
    return None


def _promises(
    schema: Schema, budget: Budget, confidence: float, workload: Workload | None, options: Options = PLAIN
) -> Promises:
    blocks = _even_blocks(schema, options)
    sets, tiles = training_sets(blocks, options.candidates, options.training), tiles_beside(blocks)
    for_looks, *others = _parts(schema, budget, options)
    for_training, for_aside = (float(each.amount) for each in others)
    fullest, k = int(sets.sum(axis=0).max()), schema.privacy_unit.contributions
    looks = (
        ()
        if for_looks is None
        else (Figure("looks at where rows are, after which blocks are cut", SETTINGS.looks, "looks"),)
    )
    figures = (
        *looks,
        Figure("blocks of cells, in whose terms the model sees queries, about", blocks.size, "blocks"),
        Figure("training queries, about", len(sets), "queries"),
        Figure("of them one row changes, at most (their joint sensitivity)", fullest, "queries"),
        Figure("standard error of a training answer", 2.0**0.5 * k * fullest / for_training),
        Figure("answers kept aside, for error bars", tiles.size, "queries"),
        Figure("standard error of each of these", 2.0**0.5 * k / for_aside),
    )
    return Promises(
        figures, ("How far the model is off depends on the table: only a trial can tell; docs/mldp.md has some.",)
    )


EXAMPLE = small_table("visits", hour=whole_up_to(5))  # six hours


MECHANISM = Mechanism(
    name="mldp",
    summary="publishes a model that answers fresh counts",
    paper="Zhu, Xiong, Li, Zhou, Yu 2017",
    run=mldp,
    refuses=refuses,
    answers="its own questions",
    options=Options,
    holds=Holds(most_cells=MOST_CELLS),
    forecast=Forecast(for_auto=False, promises=_promises),
    lab=Lab(example=EXAMPLE, tried_with={"features": "4"}),
)
