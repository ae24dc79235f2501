"""A fit that respects structural zeros: cells that no row can be in are 0, and bring no error into any sum.

The true count of an impossible cell is 0 by the public schema. So its estimate is replaced by 0, and a sum of cells
errs by the errors of its possible cells alone: weights on impossible cells are taken out before the fit is asked.
Guaranteed bounds are those of the same sum, for these cells hold nothing in every table. A fit that was made with the
zeros (`KnowsZeros`) needs nothing of this.

Least-squares fits to queries over several cells (trees, wavelets, optimised strategies) are conditioned on the zeros,
not cut: with A_p the queries on possible cells alone, (rows, possible), and P the precisions of the answers y,

    x_p = (A_p^T P A_p)^-1 A_p^T P y

is the best linear unbiased estimate given the zeros. No rows are lost: counts of many cells are used as measured. It is
solved by conjugate residuals (least_squares/general.py), and for sums over few classes of cells in closed form.

A fit that agrees with public counts: of all rows, and tables of attributes (`facts` of a schema).

With A (cells, counts) the indicators of what is counted, b the public counts and x the fit's estimate,

    x' = x + K (b - A'x),    K = D A (A'DA)^+,    D diagonal

agrees with b whatever D > 0 is: D = I is generalised least squares for independent noise of one size, and for fits that
shrink D is the estimate, so that empty cells stay empty. A sum with weights q then errs by the fit's error of the sum
with weights q - A K'q: the law of its noise stays exact, and the public counts themselves have no error.

Guaranteed bounds stay those of the fit: a fact that is slightly wrong must not void them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from sfumato.answers.fit import (
    PARTS,
    Arrays,
    ByGroup,
    Errors,
    Fit,
    FitReader,
    Grouped,
    Inside,
    KnowsZeros,
    LeastSquaresOnly,
    Plain,
    Sets,
    Unbiased,
    summed,
)
from sfumato.answers.noise_sum import Ends, Find
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.least_squares.base import LeastSquares, every_cell
from sfumato.least_squares.closed_forms import given_zeros
from sfumato.measurement import Measurement
from sfumato.schema.facts import Fact

if TYPE_CHECKING:
    from sfumato.least_squares.classes import Merged


@dataclass(frozen=True, eq=False)
class AroundFit(Plain):
    """Wrapper that changes the numbers of another fit and keeps its family. fit: as published."""

    family: str = field(init=False)
    room: int = field(init=False)
    exact: bool = field(init=False)
    fit: Fit

    def __post_init__(self) -> None:
        """Copy the class attributes of the wrapped fit."""
        for name in ("family", "room", "exact"):
            object.__setattr__(self, name, getattr(self.fit, name))

    @property
    def of(self) -> str:
        return self.fit.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return self.fit.measurements

    @property
    def words(self) -> tuple[str, ...]:
        return self.fit.words

    def measured_inside(self, within: Sets) -> Inside | None:
        return self.fit.measured_inside(within)

    def record(self, domain: Domain) -> Arrays:
        return self.fit.record(domain)

    @classmethod
    def read(cls, file: FitReader) -> AroundFit:
        raise QueryError("it holds a kind of fit that is never written")


def without_impossible(fit: Fit, possible: Flags) -> Fit:
    """The fit with structural zeros. possible: flags of the cells that rows can be in, (cells,)."""
    # Their kind is that of the fit, so no attribute of the class.
    if isinstance(fit, LeastSquaresOnly) and not every_cell(cast("Fit", fit).measurements[0].queries):
        return cast("Fit", ConditionedFit(cast("Fit", fit), possible))
    if isinstance(fit, KnowsZeros):
        return cast("Fit", KnowingFit(cast("Fit", fit), possible))
    return cast("Fit", PossibleFit(fit, possible))


def kept_given_zeros(fit: Fit, possible: Flags) -> Floats | None:
    """Estimate given structural zeros, where it is solved for by iteration and so had better be kept; else None."""
    conditioned = without_impossible(fit, possible)
    if isinstance(conditioned, ConditionedFit) and not conditioned.takes_one_pass:
        return conditioned.estimate
    return None


@dataclass(frozen=True, eq=False)
class _WithZeros(AroundFit):
    """Fit with structural zeros. possible: flags of the cells that rows can be in, (cells,)."""

    possible: Flags

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        """Bounds of the same sum over possible cells; a sum of none is 0."""
        find = self.bounds(domain, rows)

        def possible(low: Floats, high: Floats, tail: float) -> Ends:
            low, high = low * self.possible, high * self.possible
            return find(low, high, tail) if low.any() or high.any() else Ends(0.0, 0.0)

        return possible

    def bounds(self, domain: Domain, rows: Find | None) -> Find:
        """Bounds of sums of possible cells: those of the fit."""
        return self.fit.guaranteed(domain, rows)

    def measured_inside(self, within: Sets) -> Inside | None:
        return self.fit.measured_inside(within & self.possible[:, None])


@dataclass(frozen=True, eq=False)
class PossibleFit(_WithZeros):
    """Fit whose sums leave out impossible cells."""

    @cached_property
    def estimate(self) -> Floats:
        return np.where(self.possible, self.fit.estimate, 0.0)

    def errors(self, columns: Floats) -> Errors:
        return self.fit.errors(columns * self.possible[:, None])

    def errors_by_group(self, asked: Grouped) -> Sequence[Errors] | None:
        """Errors of every group's sums; None where the fit needs them group by group."""
        if not isinstance(self.fit, ByGroup):
            return None
        kept = self.possible[asked.place]
        whole = None if asked.whole is None else asked.whole * self.possible[:, None]
        return self.fit.errors_by_group(
            replace(asked, place=asked.place[kept], group=asked.group[kept], weights=asked.weights[kept], whole=whole)
        )


@dataclass(frozen=True, eq=False)
class KnowingFit(PossibleFit):
    """Fit that was made with structural zeros, and so leaves impossible cells out of every sum itself.

    Errors of sums over impossible cells alone are set to 0 here, so that not even rounding remains of them.
    """

    def errors(self, columns: Floats) -> Errors:
        return _of_some(self.fit.errors(columns), np.asarray(columns[self.possible].any(axis=0)))

    def errors_by_group(self, asked: Grouped) -> Sequence[Errors] | None:
        by_group = self.fit.errors_by_group(asked) if isinstance(self.fit, ByGroup) else None
        if by_group is None:
            return None
        kept = self.possible[asked.place]
        some = summed(asked.group[kept], np.abs(asked.weights[kept]), asked.groups) > 0.0
        if asked.whole is not None:
            some = some | asked.whole[self.possible].any(axis=0)
        return [_of_some(errors, each) for errors, each in zip(by_group, some, strict=True)]

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        find = self.bounds(domain, rows)

        def possible(low: Floats, high: Floats, tail: float) -> Ends:
            some = (low * self.possible).any() or (high * self.possible).any()
            return find(low, high, tail) if some else Ends(0.0, 0.0)

        return possible

    def measured_inside(self, within: Sets) -> Inside | None:
        """Measurements, with the mask of the rows whose possible cells all lie in each set; within: (cells, sets)."""
        return self.fit.measured_inside(within | ~self.possible[:, None])


def _of_some(errors: Errors, some: Flags) -> Errors:
    """Set the errors of unflagged sums to 0; some: flags, (sums,)."""
    if some.all():
        return errors
    both = np.outer(some, some)
    drawn = None if errors.drawn is None else errors.drawn * both
    weights, model = errors.weights * some, errors.model * both
    return replace(errors, weights=weights, model=model, unknown=errors.unknown & some, drawn=drawn)


@dataclass(frozen=True, eq=False)
class ConditionedFit(_WithZeros):
    """Least-squares fit to one measurement, given structural zeros."""

    @property
    def takes_one_pass(self) -> bool:
        """Whether the estimate is solved for without iteration."""
        return self._solver.closed

    @cached_property
    def _solver(self) -> LeastSquares:
        """Solver of (A_p^T P A_p)^-1."""
        (measured,) = self.fit.measurements
        return given_zeros(measured.queries, measured.design.sizes, self.possible)

    @cached_property
    def estimate(self) -> Floats:
        if self.fit.family == "linear" and not self._solver.closed:
            own = self.fit.estimate
            if not own[~self.possible].any():  # as `kept_given_zeros` made it
                return own
        (measured,) = self.fit.measurements
        weighed = measured.queries.T @ (measured.answers / measured.design.sizes)
        return self._solver.solve(weighed[:, None])[0][:, 0]

    def errors(self, columns: Floats) -> Errors:
        """Weights of the row noises in weighted sums of cells; columns: (cells, sums). No model error."""
        (measured,), sums = self.fit.measurements, columns.shape[1]
        solved, estimable = self._solver.solve(columns)
        weights = (measured.queries @ solved) / measured.design.sizes[:, None]
        return Errors(measured.design, weights, np.zeros((sums, sums)), ~estimable)

    def merged(self, domain: Domain) -> Merged | None:
        """Solver for sums that distinguish few classes of cells; None unless queries are products over the axes."""
        return self._merged(domain.shape)

    @cached_property
    def _merged(self) -> Callable[[tuple[int, ...]], Merged | None]:
        """Cached constructor of the reduced solver (`merged`), by the shape of the domain."""
        from sfumato.least_squares.classes import Merged

        return cache(lambda shape: Merged.of(self.fit.measurements[0].design, shape, self.possible))

    def bounds(self, domain: Domain, rows: Find | None) -> Find:
        """The estimate plus or minus the quantile of its noise."""
        return Unbiased.guaranteed(cast("Fit", self), domain, rows)


# -- public counts


def agreeing(fit: Fit, facts: Sequence[Fact], domain: Domain) -> tuple[Fit, tuple[Fact, ...]]:
    """Condition a fit of counts on public counts (facts); also returns the facts that its noisy counts contradict."""
    whole = _FactFit(fit, tuple(facts), domain)
    odd = tuple(fact for fact in facts if whole.contradicted(fact))
    followed = tuple(fact for fact in facts if fact not in odd)
    return (cast("Fit", replace(whole, facts=followed)) if followed else fit), odd


@dataclass(frozen=True, eq=False)
class _FactFit(AroundFit):
    """Fit that agrees with facts. fit: as published; facts: those that are followed."""

    fit: Fit
    facts: tuple[Fact, ...]
    domain: Domain

    @cached_property
    def _labels(self) -> list[Codes]:
        """For each fact, the index in b of the public count that each cell belongs to, (cells,)."""
        shape, labels, start = self.domain.shape, list[Codes](), 0
        codes = np.unravel_index(np.arange(self.domain.size), shape)
        for fact in self.facts:
            code = np.zeros(self.domain.size, dtype=np.int64)
            for place in fact.places:
                code = code * shape[place] + codes[place]
            labels.append(code + start)
            start += len(fact.counts)
        return labels

    @cached_property
    def _counts(self) -> Floats:
        """Public counts b, (counts,)."""
        return np.concatenate([fact.counts for fact in self.facts])

    @cached_property
    def _scale(self) -> Floats:
        """Diagonal of D, (cells,)."""
        return np.ones(self.domain.size) if self.fit.exact else np.maximum(self.fit.estimate, 1.0 / PARTS)

    @cached_property
    def _inverse(self) -> Floats:
        """(A'DA)^+, (counts, counts)."""
        many = len(self._counts)
        between = np.zeros((many, many))
        for first in self._labels:
            for second in self._labels:
                between += np.bincount(first * many + second, self._scale, many * many).reshape(many, many)
        return np.asarray(np.linalg.pinv(between, hermitian=True))

    def _summed(self, columns: Floats) -> Floats:
        """A'c, (counts, sums), of columns c (cells, sums)."""
        many = len(self._counts)
        parts = ([np.bincount(label, column, many) for column in columns.T] for label in self._labels)
        return np.asarray(np.sum([np.stack(part, axis=1) for part in parts], axis=0))

    @cached_property
    def estimate(self) -> Floats:
        moves = self._inverse @ (self._counts - self._summed(self.fit.estimate[:, None])[:, 0])
        every: Floats = np.sum([moves[label] for label in self._labels], axis=0)
        return self.fit.estimate + self._scale * every

    def errors(self, columns: Floats) -> Errors:
        left = self._less(columns)
        errors, unsure = self.fit.errors(left), left.any(axis=0)
        # An error that was measured by kind of question is one of nothing, too; what facts tell has none.
        return _of_some(errors, np.asarray(unsure))

    def _less(self, columns: Floats) -> Floats:
        """Weights after projection on the facts: q - A K'q, (cells, sums)."""
        known = self._inverse @ self._summed(columns * self._scale[:, None])
        left = columns - np.sum([known[label] for label in self._labels], axis=0)
        rounding = np.abs(columns).max(initial=0.0) / PARTS**3
        return np.where(np.abs(left) > rounding, left, 0.0)

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        """Bounds of the fit itself."""
        return self.fit.guaranteed(domain, rows)

    def contradicted(self, fact: Fact) -> bool:
        """Whether the fit's own estimate of a fact's counts is farther off than its errors explain."""
        label = self._labels[self.facts.index(fact)]
        columns = (label[:, None] == np.arange(label.min(), label.min() + len(fact.counts))).astype(np.float64)
        errors = self.fit.errors(columns)
        many = 1 if errors.counts is None else errors.counts
        variances = (errors.design.variances * many) @ errors.weights**2 + np.diagonal(errors.model)
        return fact.contradicts(self.fit.estimate @ columns, variances)
