"""The ways that are compared: the paper's, ours, and Laplace noise, matrix and PMW on the queries that are asked."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain.blocks import Blocks
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.noise import draw
from sfumato.lab.papers.mldp.measure import Options, mldp
from sfumato.lab.papers.mldp.training import Lesson, Model, train
from sfumato.lab.reproduce.released import Recipe, curator_of, released, schema_of
from sfumato.lab.reproduce.synthetic import Counts, even_numbers
from sfumato.measurement import Laplace
from sfumato.queries import Ranges, Workload


def random_ranges(number: int, cells: int, seed: int) -> Floats:
    """Ranges between two places by chance, a row of zeros and ones each."""
    ends = np.sort(np.floor(cells * even_numbers(2 * number, seed)).astype(np.int64).reshape(2, number), axis=0)
    column = np.arange(cells)
    return np.asarray((column >= ends[0][:, None]) & (column <= ends[1][:, None]), dtype=np.float64)


def as_workload(ranges: Floats) -> Workload:
    """The same as queries that a mechanism can be optimised for."""
    lows, highs = ranges.argmax(axis=1), ranges.shape[1] - 1 - ranges[:, ::-1].argmax(axis=1)
    return Workload(("ranges",), (Ranges(ranges.shape[1], lows, highs),))


def laplace_error(ranges: Floats, epsilon: float) -> float:
    """The mean absolute error of Laplace noise on the queries: its scale, which grows with how many overlap."""
    return float(ranges.sum(axis=0).max()) / epsilon


def learnt(
    counts: Counts, sets: Floats, epsilon: float, entropy: Entropy, model: str = "ridge", blocks: Blocks | None = None
) -> tuple[Model, Blocks]:
    """A model trained on noisy answers with the whole budget: algorithm 1 of the paper, with its sensitivity."""
    blocks = blocks or Blocks.at_most(schema_of(counts.shape).domain, counts.size)
    scale = Fraction(int(sets.sum(axis=0).max())) / Fraction(str(epsilon))
    noise = Laplace(scale)
    answers = sets @ counts + draw(noise, len(sets), entropy)
    return train(model, Lesson(blocks.of_sets(sets), answers, blocks.size, noise.variance)), blocks


def model_error(found: tuple[Model, Blocks], counts: Counts, asked: Floats) -> float:
    """The mean absolute error of a model on queries."""
    model, blocks = found
    return float(np.abs(model.predict(blocks.of_sets(asked)) - asked @ counts).mean())


def mechanism_error(counts: Counts, asked: Floats, epsilon: float, entropy: Entropy, options: Options) -> float:
    """Of the mechanism as it is released: half of the budget measures how good the model is."""
    share, schema = Fraction(str(epsilon)), schema_of(counts.shape)
    curator = curator_of(counts, share, entropy)
    content = mldp(curator, schema, curator.charge.budget, options=options)
    rows = content.blocks.of_sets(asked)
    return float(np.abs(content.running.predict(rows) - asked @ counts).mean())


def cube_error(mechanism: Recipe, counts: Counts, asked: Floats, epsilon: float, entropy: Entropy) -> float:
    """Of a mechanism that publishes every cell, optimised for the queries where it takes them."""
    published = released(mechanism, counts, Fraction(str(epsilon)), entropy, as_workload(asked))
    return float(np.abs(asked @ published - asked @ counts).mean())
