"""Halfspaces: noisy counts along a net of directions, from which every linear condition on numbers is answered.

Blum, Ligett, Roth 2008 (Survey 4.3). Corrected (docs/halfspace.md): all offsets along one direction are one question;
halfspaces have thresholds; few attributes are not projected; rows are private; the net's error is measured.
"""

from __future__ import annotations

from fractions import Fraction
from math import degrees, prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.domain import Partition
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.scores import Misfit
from sfumato.lab.papers.forms import small_table, whole_up_to
from sfumato.lab.papers.halfspace.content import (
    MOST_ATTRIBUTES,
    MOST_DIRECTIONS,
    MOST_OFFSETS,
    MOST_PROJECTIONS,
    MOST_SEED,
    Halfspaces,
    every_bound,
    guarantee,
)
from sfumato.lab.papers.halfspace.net import Net, grid_points, questions_to_try
from sfumato.measurement import Laplace, Measurement
from sfumato.models.base.mechanism import Figure, Forecast, Holds, Lab, Mechanism, Promises, sure
from sfumato.queries import Identity, Predicates
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.queries import Workload

FOR_TEST = Fraction(1, 10)  # of the budget, for measuring how far the net is off
TESTS = 48  # halfspaces that it is tried on, at most; one for each cell where there are fewer
MOST_CELLS = 2**20  # that the attributes span
MOST_TESTED = 2**24  # cells of the test questions that are asked together


@dataclass(frozen=True)
class Options:
    """over: the attributes; if empty, all that are numbers. dimensions: of each projection; None: no projection.

    projections: their number. directions: in each; None: 16 for every dimension. offsets: bins along each direction.
    seed: public, of the random projections, directions and test questions.
    """

    over: tuple[str, ...] = ()
    dimensions: int | None = None
    projections: int = 5
    directions: int | None = None
    offsets: int = 32
    seed: int = 1


PLAIN = Options()
PER_DIMENSION = 16


def halfspace(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, options: Options = PLAIN
) -> Halfspaces:
    """Measure counts along every direction of the net, then the misfit of its answers."""
    net = _net(schema, options)
    for_counts, for_test = budget.split(1 - FOR_TEST, FOR_TEST)
    seen = curator.margin([axis.name for axis in net.axes])
    points, there = _points(net)
    measured = []
    shares = iter(for_counts.evenly(prod(net.vectors.shape[:2])))
    for projection, directions in enumerate(net.vectors):
        for direction in range(len(directions)):
            labels = np.where(there, net.bins(points, projection, direction), -1)
            measured.append(_binned(seen, labels, net.offsets, next(shares)))
    made = Halfspaces(schema, net, tuple(measured))
    tests, together = min(TESTS, seen.domain.size), max(1, MOST_TESTED // seen.domain.size)
    asked = questions_to_try(net, tests)
    batches = [asked[start : start + together] for start in range(0, tests, together)]
    misfits = []
    for batch, share in zip(batches, for_test.evenly(len(batches)), strict=True):
        inside = [there & (points @ direction > offset) for direction, offset in batch]
        targets = np.array([round(made.value(*each)[0]) for each in batch], dtype=np.int64)
        misfits.append(seen.measure_misfit(Misfit(Predicates(seen.domain.size, inside), targets), share))
    return Halfspaces(schema, net, tuple(measured), tuple(misfits), tests)


def _binned(seen: Curator, labels: np.ndarray, bins: int, budget: Budget) -> Measurement:
    """Measure counts of bins, (bins,); bins behind the last one with cells are publicly empty."""
    binned = seen.reduce(Partition(seen.domain, labels))
    found = binned.measure(Identity(binned.domain.size), budget)
    answers = np.zeros(bins, dtype=np.int64)
    answers[: len(found.answers)] = found.answers
    return Measurement("count", Identity(bins), answers, found.noises)


def _points(net: Net) -> tuple[np.ndarray, np.ndarray]:
    """Scaled point of every cell, (cells, axes), and mask of cells that have one: missing values have none."""
    codes = np.indices([axis.size for axis in net.axes]).reshape(len(net.axes), -1)
    places = np.array([axis.places for axis in net.axes])[:, None]
    there = (codes < places).all(axis=0)
    inside = np.ravel_multi_index(tuple(np.minimum(codes, places - 1)), places[:, 0].tolist())
    return grid_points(net.axes, inside), np.asarray(there)


def _net(schema: Schema, options: Options) -> Net:
    over = _over(schema, options)
    axes = tuple(schema.domain[name] for name in schema.domain.names if name in over)
    dimensions = min(options.dimensions or len(axes), len(axes))
    directions = options.directions or PER_DIMENSION * dimensions
    projections = 1 if dimensions == len(axes) else options.projections
    return Net(axes, projections, dimensions, directions, options.offsets, options.seed)


def _over(schema: Schema, options: Options) -> tuple[str, ...]:
    numbers = tuple(axis.name for axis in schema.domain if axis.kind in ("integer", "number") and axis.places > 1)
    return options.over or numbers


def _refuses(schema: Schema, workload: Workload | None, options: Options = PLAIN) -> str | None:
    """Reason why a schema has no halfspaces or too many, or None."""
    over = _over(schema, options)
    for name in over:
        if name not in schema.domain:
            return f"there is no attribute {name!r}; there are {', '.join(schema.domain.names)}"
        if schema.domain[name].kind not in ("integer", "number") or schema.domain[name].places < 2:
            return f"{name} is no number of several values; state over= with attributes that are"
    if not 1 <= len(over) <= MOST_ATTRIBUTES or len({*over}) < len(over):
        return f"it takes 1 to {MOST_ATTRIBUTES} attributes that are numbers, each once; state over="
    limits = (
        ("dimensions", options.dimensions, 1, MOST_ATTRIBUTES),
        ("projections", options.projections, 1, MOST_PROJECTIONS),
        ("directions", options.directions, 1, MOST_DIRECTIONS),
        ("offsets", options.offsets, 2, MOST_OFFSETS),
        ("seed", options.seed, 0, MOST_SEED),
    )
    for word, value, least, most in limits:
        if value is not None and not least <= value <= most:
            remedy = f"{PER_DIMENSION} for each attribute would do" if word == "directions" else "say 5"
            return f"{word} lies between {least} and {most:,}, and {value:,} does not; {remedy}"
    cells = prod(schema.domain[name].size for name in over)
    if cells > MOST_CELLS:
        bins = int(MOST_CELLS ** (1 / len(over)) + 1e-9)
        return (
            f"it looks at every cell, and {', '.join(over[:6])} span {float(cells):.3g}, more than {MOST_CELLS:,}; "
            f"{bins} bins each would do, or state over= with fewer attributes"
        )
    return None


def _promises(
    schema: Schema, budget: Budget, confidence: float, workload: Workload | None, options: Options = PLAIN
) -> Promises:
    net = _net(schema, options)
    directions = prod(net.vectors.shape[:2])
    noise = Laplace(schema.privacy_unit.contributions * directions / budget.split(1 - FOR_TEST, FOR_TEST)[0].amount)
    figures = (
        Figure("directions, along each of which rows are counted in bins", directions, "directions"),
        Figure("canonical halfspaces", net.halfspaces, "halfspaces"),
        Figure("standard error of a bin", noise.variance**0.5),
        Figure(
            f"noise of every canonical halfspace, at most, {sure(confidence)}",
            every_bound(net, noise, 1.0 - confidence),
        ),
        Figure("a condition's direction is from the nearest of the net within", degrees(net.angle), "degrees"),
    )
    measured = "How far answers are off because of that depends on the table; the release measures it."
    return Promises(figures, (guarantee(net)[0].upper() + guarantee(net)[1:] + ".", measured))


EXAMPLE = small_table("example", age=whole_up_to(3), income=whole_up_to(1))


MECHANISM = Mechanism(
    name="halfspace",
    summary="counts along a net of directions, from which every linear condition on numbers is answered",
    paper="Blum, Ligett, Roth 2008 (Survey 4.3)",
    run=halfspace,
    refuses=_refuses,
    answers="its own questions",
    options=Options,
    holds=Holds(by_margins=True),
    forecast=Forecast(for_auto=False, promises=_promises),
    lab=Lab(example=EXAMPLE, tried_with={"directions": "3", "offsets": "4"}),
)
