"""How a node divides, foretold by the nodes beside it.

Where a table is smooth, density changes along a line: a node's first half then holds more than its share of the cells
if the node before it is fuller than the one after it. Where it is not smooth, the nodes beside it say nothing. Which of
the two it is every level learns, as a factor between nought and one: by least squares from how its nodes do divide,
drawn towards the factor of the level above.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.models.tree.hyperparameters import LEAST_UNEVEN
from sfumato.models.tree.observation import HARDLY, Normal

STEEPEST = 0.25  # of a node's rows, from its middle: what a half has besides its share if density falls to nothing


BELIEF = 1.0  # the precision of the belief that a level has the factor of the one above


def steps(grid: Codes, rows: Floats, cells: Floats) -> Floats:
    """How much of its rows the first half of every node has besides its share of cells, if density is a straight line.

    grid: the nodes, a row for each place along the attribute that is cut. rows: of every node, nan where unknown.
    """
    density = np.maximum(rows, 0.0)[grid] / cells[grid]
    rises = np.diff(density, axis=0)
    nothing = np.full((1, grid.shape[1]), np.nan)
    before, after = np.concatenate([nothing, rises]), np.concatenate([rises, nothing])
    before, after = np.where(np.isnan(before), after, before), np.where(np.isnan(after), before, after)
    found = np.empty(len(rows))
    # A line that rises by s from node to node has s / 4 more in the middle of one half than in the middle of the node.
    found[grid] = -(before + after) / 2.0 / 8.0 / np.maximum(density, 1.0 / cells[grid])
    return np.clip(np.nan_to_num(found), -STEEPEST, STEEPEST)


def factor(step: Floats, even: Floats, halves: Normal, above: float) -> float:
    """How far nodes divide as the nodes beside them foretell.

    step: what these foretell. even: the share of cells. halves: the rows of both halves, (2, nodes).
    """
    both = halves.mean.sum(axis=0)
    rows = np.maximum(both, np.sqrt(halves.variance.sum(axis=0)))
    off = (halves.mean[0] - even * both) / rows
    noise = ((1.0 - even) ** 2 * halves.variance[0] + even**2 * halves.variance[1]) / rows**2
    weight = 1.0 / np.maximum(noise, HARDLY) ** 2
    uneven = float(weight @ (off**2 - noise)) / max(float(weight.sum()), HARDLY)
    weight = 1.0 / (noise + max(uneven, LEAST_UNEVEN))
    found = (weight @ (step * off) + BELIEF * above) / (weight @ step**2 + BELIEF)
    return float(np.clip(found, 0.0, 1.0))
