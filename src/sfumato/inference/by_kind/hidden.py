"""How many rows a cell may hold that is estimated to hold none.

Most such cells hold none, so neither a deviation nor a mean error says what the others hold. Two sums do: of
|count - 0| over all of them, which is their rows, and of |count - 1|, which is one less for every cell that holds any.
Rows over cells that hold any are the mean size of what is hidden; sizes are taken to fall off evenly (geometric). What
the noise of both sums leaves open is averaged over; beforehand all orders of magnitude from one row to eight times the
noise that all of the budget buys are as likely, for what is larger is seen; up to all rows where it would not be seen.

Cells that are estimated to hold t rows each may be as thin: a fit that spreads rows over neighbours says of a hundred
cells that they hold three where two hold a hundred and fifty. |count - t| is t less than the count in a cell that holds
t or more, and t more in one that holds none: the same two sums tell.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Floats
from sfumato.inference.model_error import COVERAGE, NORMAL_END
from sfumato.measurement import Laplace, Measurement

SEEN = 8.0  # times the noise that all of the budget buys: what hides from it is no larger on average
SIZES, SUMS = 41, 81  # of the grid of what is possible
HALVINGS = 40
CLEAR = 1.5  # deviations of its noise by which a sum says that most cells hold no rows


def hidden_deviation(rows: Measurement, beyond: Measurement, cells: int, unit: float, *, seen: bool = True) -> float:
    """The deviation with which a 95 % interval around zero holds 95 % of the cells that do hold rows.

    rows: of which the first answer is the noisy number of rows. beyond: the noisy sum of |count - 1|. unit: the
    deviation of the noise that all of the budget buys. seen: whether what is far larger than that would not hide.
    """
    most = max(SEEN * unit, 1.0 + 1e-9, 0.0 if seen else float(rows.answers[0]))
    return _deviation(*_sizes(rows, beyond, 0, cells, 1.0, (1.0, most)))


def thin_deviation(
    rows: Measurement, beyond: Measurement, place: int, cells: int, target: float
) -> tuple[float, float] | None:
    """The same for cells estimated to hold so many rows each; None where it is not clear that most hold none.

    And how many rows those hold on average that hold any: a cell estimated to hold as many is one of them.
    rows: of which this answer is the noisy number of their rows. beyond: their noisy sum of |count - target|.
    """
    noise = float(np.sqrt(rows.noise.variance + beyond.noise.variance))
    if float(beyond.answers[place]) - float(rows.answers[place]) < CLEAR * noise or target <= 0.0:
        return None
    least = max(2.0 * target, 1.0)
    chance, size = _sizes(rows, beyond, place, cells, target, (least, max(float(rows.answers[place]), 2.0 * least)))
    return _deviation(chance, size), float(chance @ size)


def _sizes(
    rows: Measurement, beyond: Measurement, place: int, cells: int, target: float, ends: tuple[float, float]
) -> tuple[Floats, Floats]:
    """How likely each of some mean sizes is, weighed by how many cells then hold rows, and these sizes."""
    answer = max(float(rows.answers[place]), 0.0)
    size = np.exp(np.linspace(np.log(ends[0]), np.log(ends[1]), SIZES))[:, None]
    possible = np.maximum(answer + np.linspace(-20.0, 20.0, SUMS) * float(np.sqrt(rows.noise.variance)), 0.0)
    expected = possible + target * (cells - 2.0 * possible / size)
    likely = _log_likely(rows, possible, place) + _log_likely(beyond, expected, place)
    chance = np.exp(likely - likely.max()) * (possible + 1e-9) / size
    return chance.sum(axis=1) / chance.sum(), size[:, 0]


def _deviation(chance: Floats, size: Floats) -> float:
    """With which an interval around zero holds 95 % of what has one of these mean sizes."""
    going_on = 1.0 - 1.0 / size
    low, high = 0.0, 64.0 * float(size[-1])
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if chance @ going_on**middle > 1.0 - COVERAGE else (low, middle)
    return max(high, 1.0) / NORMAL_END


def _log_likely(measured: Measurement, truth: Floats, place: int) -> Floats:
    off, noise = np.abs(float(measured.answers[place]) - truth), measured.noise
    return np.asarray(-off / float(noise.scale) if isinstance(noise, Laplace) else -(off**2) / (2.0 * noise.variance))
