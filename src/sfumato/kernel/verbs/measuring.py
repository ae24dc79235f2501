"""Noise and charge of measurements, of sums of misfits, and of choices among margins.

A measurement's noise follows from a budget, or is stated row by row; both are public. `distance`, the sum over a
margin's cells of |count - guess|, is an exact whole number that one row changes by 1 at most: a score.
Sums of misfits by group are theorem 3 of docs/privacy.md, those of margins theorem 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import isqrt, prod

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import MOST_MISFIT_GROUPS, ByAxis, Codes, Which
from sfumato.domain import Domain
from sfumato.errors import PrivacyError, QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge, Load, load_of, noise_for
from sfumato.kernel.verbs.scores import Misfit
from sfumato.measurement import Gaussian, Laplace, Noise
from sfumato.queries import Identity, Kron, Queries
from sfumato.queries.arrays import codes, frozen
from sfumato.queries.ranges import worst_square
from sfumato.schema.schema import missing_of


def check_kind(budget: Budget, charge: Charge) -> None:
    """Refuse to spend epsilon from a charge in rho, and the other way round."""
    if budget.is_pure != charge.pure:
        raise QueryError("a charge in epsilon is spent in epsilon, one in rho in rho")


def pure_epsilon(budget: Budget, charge: Charge, what: str) -> Fraction:
    """Epsilon of a budget for a verb that is proved for pure epsilon only; refuses zCDP."""
    check_kind(budget, charge)
    if not budget.is_pure:
        raise QueryError(f"{what} is for pure epsilon; under rho, measure the queries with Gaussian noise instead")
    return budget.amount


def epsilon_to_choose(budget: Budget) -> Fraction:
    """The epsilon of the exponential mechanism that a budget pays for.

    Choosing with epsilon costs a rho of epsilon^2 / 8 (Bun and Steinke 2016); the square root is rounded down.
    """
    if budget.is_pure:
        return budget.amount
    squared = 8 * budget.amount
    return Fraction(isqrt(squared.numerator * squared.denominator * 4**64), squared.denominator * 2**64)


def in_proportion(noise: Noise, unit: int) -> Noise:
    """Rescale noise of a statistic to which a row adds at most `unit` to one where a row adds at most 1."""
    if isinstance(noise, Laplace):
        return Laplace(noise.scale / unit)
    return Gaussian(noise.sigma_squared / unit**2)


def noises_of(
    queries: Queries,
    unit: int,
    budget: Budget | None,
    scales: Fraction | Sequence[Fraction] | None,
    which: Which,
    charge: Charge,
) -> tuple[tuple[Noise, ...], Which]:
    """Distinct noises of a measurement, and the index of each row's noise; None where all carry the first."""
    if (budget is None) == (scales is None):
        raise QueryError("give either a budget or noise scales, so that the budget is stated once")
    family = Laplace if charge.pure else Gaussian
    if budget is not None:
        check_kind(budget, charge)
        if not queries.l1:
            raise QueryError("these queries touch no cell")
        l1, l2_squared = Fraction(queries.l1), Fraction(queries.l2_squared)
        noise = noise_for(budget, charge.contributions, l1=unit * l1, l2_squared=unit**2 * l2_squared)
        return (noise,), None
    assert scales is not None  # noqa: S101 (checked above)
    listed = [scales] if isinstance(scales, Fraction) else list(scales)
    if min(listed) <= 0:
        raise PrivacyError("a noise scale must be positive")
    if isinstance(which, ByAxis):
        return tuple(family(scale) for scale in listed), _by_axis(which, queries, len(listed))
    if which is not None:
        places = np.array(which, dtype=np.int64)  # a copy: nobody may change it between the charge and the draw
        if places.shape != (queries.rows,) or places.min() < 0 or places.max() >= len(listed):
            raise QueryError(f"{queries.rows} rows need as many places in a list of {len(listed)} scales")
        return tuple(family(scale) for scale in listed), places
    if not isinstance(scales, Fraction) and len(listed) != queries.rows:
        raise QueryError(f"{queries.rows} rows need as many scales, got {len(listed)}")
    distinct = sorted(set(listed))
    place = {scale: number for number, scale in enumerate(distinct)}
    found = None if len(distinct) == 1 else np.array([place[scale] for scale in listed], dtype=np.int64)
    return tuple(family(scale) for scale in distinct), found


def _by_axis(which: ByAxis, queries: Queries, scales: int) -> ByAxis:
    """Validated copy of the noise codes along each axis: nobody may change them between the charge and the draw."""
    copied = ByAxis(tuple(frozen(np.array(codes, dtype=np.int64)) for codes in which.along))
    rows = [factor.rows for factor in queries.factors] if type(queries) is Kron else []
    fits = [codes.shape for codes in copied.along] == [(count,) for count in rows]
    if not fits or min(int(codes.min()) for codes in copied.along) < 0 or prod(copied.kinds) != scales:
        raise QueryError(f"noise by axis is for a product of queries, with a code for each row along each: {queries!r}")
    return copied


def loads_by_axis(queries: Kron, noises: Sequence[Noise], which: ByAxis, domain: Domain, unit: int) -> Iterator[Load]:
    """Load of each noise in a product of queries, by value of the longest attribute: that of the value's fullest cell.

    A column sum of a product is the product of the factors' column sums, so its maximum over the other attributes is
    the product of their maxima (docs/privacy.md, theorem 2).
    """
    longest = domain.shape.index(max(domain.shape))
    for noise, kinds in zip(noises, np.ndindex(which.kinds), strict=True):
        rows = [np.flatnonzero(codes == kind) for codes, kind in zip(which.along, kinds, strict=True)]
        if not all(map(len, rows)):
            continue
        parts = [factor[mine] for factor, mine in zip(queries.factors, rows, strict=True)]
        squared = not isinstance(noise, Laplace)
        peak = prod(int(part.l2_squared if squared else part.l1) for n, part in enumerate(parts) if n != longest)
        along = parts[longest].column_squares() if squared else parts[longest].column_sums()
        sums = np.asarray(along, dtype=np.int64)
        queries._must_fit(float(peak) * float(sums.max()))
        yield replace(load_of(noise, sums * peak, sums * peak, unit), by_group=True)


def running_noises(
    units: Mapping[str, int], shares: Mapping[str, Budget], periods: int, charge: Charge, together: int = 1
) -> tuple[dict[str, Noise], list[Load]]:
    """Least noise of each statistic for running totals over `periods` parts, in GRID-ths of a row; and the loads.

    What later parts will tell of these rows is charged now (docs/privacy.md, theorems 13 and 14). together: number of
    periods in which one person may be.
    """
    if charge.pure:
        raise QueryError("running totals are for Gaussian noise; give a delta")
    square, noises, loads = worst_square(periods, together), dict[str, Noise](), list[Load]()
    for of, share in shares.items():
        check_kind(share, charge)
        noise = noise_for(share, charge.contributions, l1=Fraction(1), l2_squared=units[of] ** 2 * square)
        loads.append(Load(1, units[of] ** 2 * square / (2 * noise.parameter)))
        noises[of] = noise
        if missing_of(of) in units:
            noises[missing_of(of)] = in_proportion(noise, units[of])
    return noises, loads


LARGEST = 2**61  # values and penalties are cut off here, which brings them only closer: with noise they fit 64 bits
EXACT = 2.0**52  # below this, 64 bits hold the sum beyond doubt


def distance(counts: NDArray[np.int64], guess: NDArray[np.int64]) -> int:
    """The sum over all cells of |count - guess|, at most `LARGEST`.

    Never modulo 2^64, as sums with noise are: a score that wraps round would betray that it did.

    >>> distance(np.array([5, 0]), np.array([3, 4])), distance(np.array([2**62]), np.array([-(2**62)])) == LARGEST
    (6, True)
    """
    about = float(np.abs(counts.astype(np.float64) - guess.astype(np.float64)).sum())
    if about < EXACT:
        return int(np.abs(counts - guess).sum())
    apart = np.abs(counts.astype(object) - guess.astype(object))
    return min(LARGEST, int(apart.sum()))


def checked_penalties(penalties: Sequence[int], margins: int) -> list[int]:
    """Validate public integers, one for each margin."""
    if len(penalties) != margins or not margins:
        raise QueryError(f"a choice among {margins} margins needs as many penalties, and there must be one at least")
    found = [int(each) for each in penalties]
    if any(type(each) is bool or each != own for each, own in zip(penalties, found, strict=True)):
        raise QueryError("penalties are whole numbers; round them")
    if any(abs(each) > LARGEST for each in found):
        raise QueryError("a penalty lies beyond 2^61; bring it within")
    return found


# The attributes of a margin, a number for each of its cells; or for each part, and the part of every cell.
Guess = tuple[Sequence[str], NDArray[np.int64]] | tuple[Sequence[str], NDArray[np.int64], Codes | None]
LARGEST_COLUMN = 2**30  # whose square fits 64 bits


def labels_of(misfit: Misfit, groups: Codes | None) -> tuple[Codes, int]:
    """Group of every row, and number of groups; one group by default."""
    rows = misfit.queries.rows
    return (np.zeros(rows, dtype=np.int64), 1) if groups is None else _labels(rows, groups)


def labels_of_margins(margins: int, groups: Codes | None) -> tuple[Codes, int]:
    """Group of every margin, and number of groups; each by itself by default."""
    return _labels(margins, np.arange(margins) if groups is None else groups)


def _labels(rows: int, groups: Codes) -> tuple[Codes, int]:
    labels = np.array(groups)  # a copy: nobody may change it between the charge and the sum
    if labels.shape != (rows,) or labels.dtype.kind not in "iu" or not rows:
        raise QueryError(f"{rows} misfits need as many group labels, in whole numbers, and there must be one at least")
    if not 0 <= int(labels.min()) <= int(labels.max()) < MOST_MISFIT_GROUPS:
        raise QueryError(f"group labels count from 0 and stay below {MOST_MISFIT_GROUPS}; some lie outside")
    return labels.astype(np.int64), int(labels.max()) + 1


@dataclass(frozen=True, eq=False)
class PartsMisfit:
    """L1 misfit of a margin over parts of its cells. parts: of every cell; None if each cell is a part.

    A row lies in one cell and so in one part, and moves the sum of |count - guess| over parts by at most 1.
    """

    misfit: Misfit
    parts: Codes | None

    @classmethod
    def of(cls, cells: int, guess: NDArray[np.int64], parts: Codes | None = None) -> PartsMisfit:
        """The misfit of a guess: a whole number for each cell, or for each part that cells are grouped into."""
        if parts is None:
            return cls(Misfit(Identity(cells), guess), None)
        targets = np.array(guess)
        found = frozen(codes(parts, targets.size, "parts of a margin's cells"))
        if len(found) != cells:
            raise QueryError(f"a margin of {cells} cells needs as many parts, and {len(found)} were named")
        return cls(Misfit(Identity(targets.size), targets), found)

    def held(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sum counts of cells by part."""
        if self.parts is None:
            return counts
        sums = np.zeros(self.misfit.queries.rows, dtype=np.int64)
        np.add.at(sums, self.parts, counts)
        return sums

    def total(self, counts: NDArray[np.int64]) -> np.int64:
        """The sum over all parts of |count - guess|, modulo 2^64."""
        return np.int64(self.misfit.scores(self.held(counts)).sum())


def misfit_noise(misfit: Misfit, budget: Budget, contributions: int) -> Noise:
    """Least noise of group sums of misfits, equal for all groups, that a budget pays for.

    Under zero-concentrated privacy the groups' moves are bounded by their sum, whose square is at least the sum of
    their squares; where each cell lies in the rows of one group only, as it does for single cells, nothing is lost.
    """
    l1 = int(misfit.queries.l1)
    if not l1:
        raise QueryError("these queries touch no cell")
    if l1 > LARGEST_COLUMN:
        raise QueryError("these queries weigh a single cell with more than 2^30; use smaller weights")
    return noise_for(budget, contributions, l1=Fraction(l1), l2_squared=Fraction(l1**2))


def group_sums(misfits: NDArray[np.int64], labels: Codes, groups: int) -> NDArray[np.int64]:
    """Sum of misfits by group, modulo 2^64, which is as private as without wrapping."""
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, labels, misfits)
    return sums


def noise_of_margins(labels: Codes, groups: int, budget: Budget, contributions: int) -> tuple[Noise, Load]:
    """Least noise for sums of misfits of whole margins, and its load on every cell (docs/privacy.md, theorem 6)."""
    members = np.bincount(labels, minlength=groups).tolist()
    return _noise_everywhere(sum(members), sum(count**2 for count in members), budget, contributions)


def noise_of_queries(asked: Sequence[Queries], budget: Budget, contributions: int) -> tuple[Noise, Load]:
    """Least noise for queries about several margins, and its load on every cell (docs/privacy.md, section 9)."""
    known = {id(queries): (int(queries.l1), int(queries.l2_squared)) for queries in {id(q): q for q in asked}.values()}
    l1, l2_squared = (sum(known[id(queries)][power] for queries in asked) for power in (0, 1))
    if not l1:
        raise QueryError("these queries touch no cell")
    return _noise_everywhere(l1, l2_squared, budget, contributions)


def _noise_everywhere(l1: int, l2_squared: int, budget: Budget, contributions: int) -> tuple[Noise, Load]:
    noise = noise_for(budget, contributions, l1=Fraction(l1), l2_squared=Fraction(l2_squared))
    return noise, load_of(noise, l1, l2_squared)
