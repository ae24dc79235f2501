"""How many rows two conjunctions share, from counts of each alone on random subsets of the rows (Dwork, Nissim 2004).

A row is in a subset by the toss of a coin. Over many subsets the counts of two conjunctions then rise and fall together
as far as they have rows in common: their covariance is a quarter of the rows that both hold for, and noise that was
drawn for each by itself adds nothing to it. The paper looks for one subset with unusually many rows of the first and
asks whether the second is up as well; the covariance does so with all subsets at once, each as heavy as it is.
"""

from __future__ import annotations

from math import comb, sqrt
from statistics import NormalDist

import numpy as np

from sfumato.arrays import Floats

LEAST_SUBSETS, MOST_SUBSETS = 8, 2**18  # of which the best number is looked for
MOST_ROWS = 10.0**18  # beyond which nobody counts


def together(first: Floats, second: Floats) -> float:
    """The rows that two conjunctions share: four times the covariance of their counts over the subsets.

    >>> together(np.array([4.0, 6.0, 4.0, 6.0]), np.array([1.0, 4.0, 1.0, 4.0]))
    8.0
    """
    return float(4.0 * np.cov(first, second)[0, 1])


def error_of(first: float, second: float, both: float, noises: tuple[float, float], subsets: int) -> float:
    """The standard error of `together`.

    first, second, both: rows that each conjunction holds for, and both. noises: variances of the noise on their counts.
    """
    one, other = (rows / 4.0 + noise for rows, noise in zip((first, second), noises, strict=True))
    return 4.0 * sqrt((one * other + (both / 4.0) ** 2) / (subsets - 1))


def noise_scale(attributes: int, literals: int, subsets: int, epsilon: float) -> float:
    """Of each count: a row is in one cell of every table of so many attributes, in each subset and in the whole."""
    return (subsets + 1) * comb(attributes, literals) / epsilon


def expected_error(rows: float, attributes: int, literals: int, subsets: int, epsilon: float, *, worst: bool) -> float:
    """The standard error of a conjunction of twice as many literals. worst: both halves hold for nearly all rows."""
    alone = rows if worst else rows / 2**literals
    both = rows if worst else rows / 4**literals
    noise = 2.0 * noise_scale(attributes, literals, subsets, epsilon) ** 2
    return error_of(alone, alone, both, (noise, noise), subsets)


def best_subsets(rows: float, attributes: int, literals: int, epsilon: float, *, worst: bool = False) -> int:
    """The number of subsets of least error: fewer leave chance in which rows they hold, more add noise to each.

    >>> best_subsets(1e6, 10, 1, 1.0), best_subsets(1e4, 10, 1, 1.0)
    (16, 8)
    """
    tried = np.unique(np.geomspace(LEAST_SUBSETS, MOST_SUBSETS, 200).round().astype(int)).tolist()
    return int(min(tried, key=lambda t: expected_error(rows, attributes, literals, t, epsilon, worst=worst)))


def rows_needed(attributes: int, literals: int, epsilon: float, within: float, chance: float) -> float:
    """Rows from which all conjunctions of twice as many literals are within a share of the rows, but for a chance.

    Normal errors, all conjunctions at once, the worst table; infinite where more than 10^18 rows would be needed.
    """
    number = comb(attributes, 2 * literals) * 4**literals
    width = NormalDist().inv_cdf(1.0 - chance / (2.0 * number))

    def good(rows: float) -> bool:
        subsets = best_subsets(rows, attributes, literals, epsilon, worst=True)
        return width * expected_error(rows, attributes, literals, subsets, epsilon, worst=True) <= within * rows

    low, high = 1.0, 2.0
    while not good(high):
        low, high = high, 2.0 * high
        if high > MOST_ROWS:
            return float("inf")
    while high / low > 1.01:
        middle = sqrt(low * high)
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


def direct_error(attributes: int, literals: int, epsilon: float) -> float:
    """The standard error of the same conjunctions if their own tables are measured, with the same budget.

    >>> round(direct_error(10, 1, 1.0), 1)
    63.6
    """
    return sqrt(2.0) * comb(attributes, 2 * literals) / epsilon
