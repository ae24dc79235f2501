"""Tables and mechanisms that the MLDP study compares.

Mechanisms: the paper's, ours, and Laplace noise, matrix and PMW on the queries that are asked.

Tables: counts along 256 cells, made up in the shape of the paper's, or the real ones where a folder has them. It may
hold nettrace.csv, searchlogs.csv and social.csv, one count a line, in order; longer ones are summed to 256 cells.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain.blocks import Blocks
from sfumato.errors import TableError
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.noise import draw
from sfumato.lab.papers.mldp.measure import Options, mldp
from sfumato.lab.papers.mldp.training import Lesson, Model, train
from sfumato.lab.reproduce.synthetic import (
    Counts,
    Recipe,
    curator_of,
    even_numbers,
    normal_numbers,
    released,
    sampled,
    schema_of,
)
from sfumato.measurement import Laplace
from sfumato.queries import Ranges, Workload

CELLS = 256
ROWS = {"NetTrace": 65_536, "Search logs": 32_768, "Social network": 32_768}  # as the paper says
FILES = {"NetTrace": "nettrace.csv", "Search logs": "searchlogs.csv", "Social network": "social.csv"}
BINS = 10  # of the simulated histogram


def tables(folder: Path | None = None) -> dict[str, Counts]:
    """Every table by name; those of the folder in place of ours."""
    found = made_up()
    for name, file in FILES.items():
        if folder is not None and (folder / file).exists():
            found[name] = _read(folder / file)
    return found


def made_up() -> dict[str, Counts]:
    """Connections of hosts, which fall off steeply; searches by day, with a season; friends, which fall off slowly."""
    place = np.arange(CELLS)
    rough = np.exp(0.6 * normal_numbers(CELLS, seed=17))
    masses = {
        "NetTrace": (1.0 + place) ** -1.6 * rough,
        "Search logs": (1.5 + np.sin(place / CELLS * 11.0 * np.pi)) * np.exp(place / CELLS) * rough,
        "Social network": np.exp(-place / 40.0) * rough,
    }
    return {name: sampled(mass, ROWS[name], seed=2017) for name, mass in masses.items()}


def histogram() -> Counts:
    """Ten bins with numbers by chance."""
    return np.floor(1000 * even_numbers(BINS, seed=3)).astype(np.int64)


def _read(path: Path) -> Counts:
    try:
        counts = np.loadtxt(path, dtype=np.int64, ndmin=1)
    except (OSError, ValueError):
        raise TableError(f"{path.name} is not a list of whole numbers, one a line") from None
    if len(counts) < CELLS or (counts < 0).any():
        raise TableError(f"{path.name} needs at least {CELLS} counts, none of them below 0")
    return np.asarray(np.add.reduceat(counts, np.arange(CELLS) * len(counts) // CELLS))


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
    """Mean absolute error of the mechanism as released: half of the budget measures how good the model is."""
    share, schema = Fraction(str(epsilon)), schema_of(counts.shape)
    curator = curator_of(counts, share, entropy)
    content = mldp(curator, schema, curator.charge.budget, options=options)
    rows = content.blocks.of_sets(asked)
    return float(np.abs(content.running.predict(rows) - asked @ counts).mean())


def cube_error(mechanism: Recipe, counts: Counts, asked: Floats, epsilon: float, entropy: Entropy) -> float:
    """Mean absolute error of a mechanism that publishes every cell, optimised for the queries where it takes them."""
    published = released(mechanism, counts, Fraction(str(epsilon)), entropy, as_workload(asked))
    return float(np.abs(asked @ published - asked @ counts).mean())
