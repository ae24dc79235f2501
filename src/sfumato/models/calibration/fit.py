"""A fit whose model's errors have the size that was measured, by kind of question.

The number of all rows is known by noise alone, or by whatever the fit says of it, and so are counts along attributes
where these were measured besides. So an error is divided into the part that goes with them, which stays as it is, and
the rest, of which the deviation is multiplied by the factor of the question's kind. Nearly all rows then have nearly
the error of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np

from sfumato.answers.fit import Arrays, ByModel, Errors, Fit, FitReader, Inside, Sets, TotalByNoise
from sfumato.answers.grouped import ByGroup, Grouped
from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.models.calibration.block_counts import BlockCounts
from sfumato.models.calibration.gls_update import NO_NOISE, Steadied
from sfumato.models.calibration.moved import MovedFit, Spreading
from sfumato.models.calibration.scales import Questions, Scales

if TYPE_CHECKING:
    from sfumato.answers.guaranteed.along import Runs
    from sfumato.answers.guaranteed.ends import Find


@dataclass(frozen=True, eq=False)
class Brought:
    """A fit, and the counts measured besides that it was brought to: along attributes, and of blocks."""

    fit: Fit
    along: Steadied | None = None
    blocks: BlockCounts | None = None


@dataclass(frozen=True, eq=False)
class MeasuredFit(ByModel):
    """inner: the fit. scales: factors by kind. misfits: what was measured in order to know them.

    steadied, blocks: counts along attributes, and of blocks, that the fit was brought to, if any.
    """

    family = "measured"
    room = 4

    inner: Fit
    domain: Domain
    scales: Scales
    misfits: tuple[Measurement, ...]
    steadied: Steadied | None = None
    blocks: BlockCounts | None = None

    @classmethod
    def of_brought(cls, brought: Brought, domain: Domain, scales: Scales, misfits: tuple[Measurement, ...]) -> Self:
        return cls(brought.fit, domain, scales, misfits, brought.along, brought.blocks)

    @property
    def of(self) -> str:
        return self.inner.of

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.scales.words)

    @property
    def estimate(self) -> Floats:
        return self.inner.estimate

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        along = self.steadied.measured if self.steadied else ()
        counted = (*along, self.blocks.measured) if self.blocks else along
        return (*self.inner.measurements, *counted, *self.misfits)

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        from sfumato.answers.guaranteed.along import with_counts_along

        return with_counts_along(self.runs(), innermost(self.inner).guaranteed(domain, rows))

    def runs(self) -> list[Runs]:
        """All that were counted besides: along attributes, blocks, all rows."""
        from sfumato.answers.guaranteed.along import Runs

        found = self.inner.runs() if isinstance(self.inner, MovedFit) else []
        if self.steadied is not None:
            along = self.steadied.along
            found += [Runs(along.labels(number), one) for number, one in enumerate(self.steadied.measured)]
        return found if self.blocks is None else [*found, Runs(self.blocks.blocks.labels, self.blocks.measured)]

    def measured_inside(self, within: Sets) -> Inside | None:
        return self.inner.measured_inside(within)

    def errors(self, columns: Floats) -> Errors:
        found = with_total(self.inner, columns)
        products = None if self.steadied is None else self.steadied.model.with_cells.T @ columns
        means = None if self.blocks is None else (self.blocks.means(columns), self.blocks.with_cells.T @ columns)
        return self._scaled(found, products, means, Questions.of_columns(self.domain, columns, self.estimate))

    def errors_by_group(self, asked: Grouped) -> list[Errors] | None:
        """The same for many groups; None where they have to be found group by group."""
        if not isinstance(self.inner, ByGroup):
            return None
        found = by_group_with_total(self.inner, asked, len(self.estimate))
        if found is None:
            return None
        questions = Questions.of_groups(self.domain, asked, self.estimate)
        products = None if self.steadied is None else self.steadied.products_by_group(asked)
        means = None if self.blocks is None else self.blocks.by_group(asked)
        each = []
        for group, errors in enumerate(found):
            own = slice(group * asked.sums, (group + 1) * asked.sums)
            along = None if products is None else products[group]
            blocks = None if means is None else (means[0][group], means[1][group])
            each.append(self._scaled(errors, along, blocks, questions.some(own)))
        return each

    def _scaled(
        self, found: Errors, products: Floats | None, means: tuple[Floats, Floats] | None, questions: Questions
    ) -> Errors:
        """found: with the errors of all rows last. products, means: of the sums, along attributes and by block."""
        sure, rest = parts_of(found.model, products, self.steadied, self.blocks, means)
        factors, hidden = self.scales.of(questions, len(self.domain.axes))
        claimed = np.diagonal(rest)
        sizes = factors**2 * claimed + hidden
        stretch = np.sqrt(np.divide(sizes, claimed, out=np.zeros_like(sizes), where=claimed > 0.0))
        model = sure + stretch[:, None] * rest * stretch
        np.fill_diagonal(model, np.diagonal(sure) + sizes)
        return replace(found, weights=found.weights[:, :-1], model=model, unknown=found.unknown[:-1])

    def record(self, domain: Domain) -> Arrays:
        along = {} if self.steadied is None else self.steadied.record()
        blocks = {} if self.blocks is None else self.blocks.record()
        return {**self.inner.record(domain), **along, **blocks, **self.scales.record()}

    @classmethod
    def read_around(cls, file: FitReader, inner: Spreading) -> Self:
        """The rest of a file around the fit that was read from it."""
        along = Steadied.read(file, inner)
        blocks = BlockCounts.read(file, inner, along)
        return cls(inner, file.domain, Scales.read(file), file.others(), along, blocks)


def with_total(fit: Fit, columns: Floats) -> Errors:
    """The errors of weighted sums of cells, and last of all rows."""
    if isinstance(fit, TotalByNoise):
        return _and_nothing(fit.errors(columns))
    return fit.errors(np.column_stack([columns, np.ones(len(columns))]))


def by_group_with_total(fit: ByGroup, asked: Grouped, cells: int) -> Sequence[Errors] | None:
    """The same for many groups; None where they have to be found group by group."""
    if isinstance(fit, MovedFit) and fit.whole is not None:
        return fit.with_all_rows(asked)
    if not isinstance(fit, TotalByNoise):
        return fit.errors_by_group(with_all_rows(asked, cells))
    found = fit.errors_by_group(asked)
    return None if found is None else [*map(_and_nothing, found)]


def _and_nothing(errors: Errors) -> Errors:
    """With the model's error of all rows, where a model says nothing of them."""
    weights = np.zeros((len(errors.weights), errors.weights.shape[1] + 1))
    weights[:, :-1] = errors.weights
    model = np.zeros((len(errors.model) + 1, len(errors.model) + 1))
    model[:-1, :-1] = errors.model
    return replace(errors, weights=weights, model=model, unknown=np.append(errors.unknown, False))


def with_all_rows(asked: Grouped, cells: int) -> Grouped:
    """The same sums in every group, and last the number of all rows."""
    weights = np.column_stack([asked.weights, np.zeros(len(asked.weights))])
    whole = np.zeros((cells, asked.sums)) if asked.whole is None else asked.whole
    return replace(asked, weights=weights, whole=np.column_stack([whole, np.ones(cells)]))


def parts_of(
    model: Floats,
    products: Floats | None,
    steadied: Steadied | None,
    blocks: BlockCounts | None = None,
    means: tuple[Floats, Floats] | None = None,
) -> tuple[Floats, Floats]:
    """A covariance of sums, all rows being the last, as what is known of it for sure, and the rest.

    products: of the sums, all rows aside, with what was measured along attributes. means: over blocks, and the sums'
    covariances with these.
    """
    if blocks is not None and means is not None:
        model, products = blocks.departing(model, products, *means)
    sure = np.zeros_like(model[:-1, :-1])
    if model[-1, -1] > NO_NOISE * float(np.diagonal(model).max()):
        sure = np.outer(model[:-1, -1], model[:-1, -1]) / model[-1, -1]
    rest = model[:-1, :-1] - sure
    if steadied is not None and products is not None:
        known, less = steadied.parts(products)
        sure, rest = sure + known, rest - less
    if blocks is not None and means is not None:
        sure = sure + blocks.of_means(means[0])
    np.fill_diagonal(rest, np.maximum(np.diagonal(rest), 0.0))  # rounding may leave nothing below zero
    return sure, rest


def innermost(fit: Fit) -> Fit:
    """The fit itself, without what was measured besides."""
    while isinstance(fit, MeasuredFit | MovedFit):
        fit = fit.inner
    return fit
