"""NOT PRIVATE: curators that get margins or Walsh coefficients wrong, kept so that the audit can be seen to catch them.

Each forgets one clause of section 9 or theorem 6 in docs/privacy.md, or of the proof for coefficients of contingency
tables (docs/fourier.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes
from sfumato.domain import Domain
from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge, Load
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.measuring import Guess, PartsMisfit
from sfumato.lab.audit.attacks.replay import Run, replay
from sfumato.lab.audit.subjects.small_tables import neighbouring_tables, square_schema
from sfumato.lab.papers.fourier.content import Coefficients, queries_of
from sfumato.lab.papers.fourier.measure import example, fourier
from sfumato.lab.papers.fourier.walsh import downward_closure
from sfumato.measurement import Measurement, Noise
from sfumato.queries import Identity, Queries
from sfumato.schema import Schema

Check = Callable[[], str | None]

WHOLE = Budget.pure(1)


def replaying_margins(run: Run, kind: type[Curator] = Curator) -> Check:
    """The replay audit of a small mechanism, on all tables of up to 2 rows on a square of two attributes."""

    def check() -> str | None:
        schema = square_schema(1)
        for one, other in neighbouring_tables(4, 2, 1):
            for complaint in replay(run, schema, one, other, WHOLE, curator=kind).complaints:
                return complaint.what
        return None

    return check


def misfits_in_one_sum(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
    """Measure the misfit of both margins and the square from zero, as one sum."""
    margins = (["a"], ["b"], ["a", "b"])
    guesses = [(names, np.zeros(2 ** len(names), dtype=np.int64)) for names in margins]
    return curator.measure_margin_misfits(guesses, budget, np.zeros(3, dtype=np.int64))


def misfits_in_parts(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
    """Measure the misfit of both diagonals of the square from zero, as one sum."""
    return curator.measure_margin_misfits([(["a", "b"], np.zeros(2, dtype=np.int64), np.array([0, 1, 1, 0]))], budget)


def margins_until_refused(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """Measure one margin after the other, each with the whole budget."""
    found: list[Measurement] = []
    with suppress(PrivacyError):
        for names in (["a"], ["b"]):
            found.append(curator.margin(names).measure(Identity(2), budget))
    return found


def a_chosen_margin(curator: Curator, schema: Schema, budget: Budget) -> int:
    """Choose, of both margins and the square, the one farthest from zero, less its cells."""
    margins = (["a"], ["b"], ["a", "b"])
    guesses = [(names, np.zeros(2 ** len(names), dtype=np.int64)) for names in margins]
    guesses[1] = ["b"], np.array([0, 9])  # which a row in its second cell comes nearer to
    return curator.select_margin(guesses, (0, 9, 4), budget)


class SharpChoiceCurator(Curator):
    """NOT PRIVATE: a choice follows its scores as if a row could move them in one direction only."""

    def _choice_rate(self, budget: Budget, spread: int) -> Fraction:
        return 2 * super()._choice_rate(budget, spread)


class FreeChoiceCurator(Curator):
    """NOT PRIVATE: a choice is charged to nobody, as if only numbers told something of a table."""

    def _charge_all(self, budget: Budget) -> None:
        pass


class MarginsAsOneCurator(Curator):
    """NOT PRIVATE: a group's misfits are charged as those of one margin, where a row of data moves them all."""

    def _margin_noise(self, labels: Codes, groups: int, budget: Budget) -> tuple[Noise, Load]:
        return super()._margin_noise(np.arange(groups), groups, budget)


class _TwoPartsMisfit(PartsMisfit):
    def total(self, counts: NDArray[np.int64]) -> np.int64:
        return np.int64(super().total(counts) + super().total(np.roll(counts, 1)))


class PartsOverlapCurator(Curator):
    """NOT PRIVATE: a row counts in its own part of a margin and in that of the next cell, and is charged for one."""

    def _asked_of_margins(self, guesses: Sequence[Guess]) -> tuple[list[Domain], list[PartsMisfit]]:
        domains, found = super()._asked_of_margins(guesses)
        return domains, [_TwoPartsMisfit(each.misfit, each.parts) for each in found]


class MarginsApartCurator(Curator):
    """NOT PRIVATE: every margin has a charge of its own, as if a row lay in one of them only."""

    def margin(self, names: Sequence[str]) -> Curator:
        view = super().margin(names)
        view.charge = Charge(self.charge.budget, self.charge.contributions, self.charge.cells)
        return view


def replaying_coefficients(run: Run, kind: type[Curator] = Curator) -> Check:
    """The replay audit of a recipe on all tables of up to 2 rows of the mechanism's own example."""

    def check() -> str | None:
        schema = example(1)
        for one, other in neighbouring_tables(schema.domain.size, 2, 1):
            for complaint in replay(run, schema, one, other, WHOLE, curator=kind).complaints:
                return complaint.what
        return None

    return check


class CoefficientsAsOneCurator(Curator):
    """NOT PRIVATE: all coefficients of a set of attributes are charged as one, as if they were cells of a histogram."""

    def _loads(self, queries: Queries, unit: int, noises: tuple[Noise, ...], which: Codes | None) -> list[Load]:
        return [Load(1, unit / noise.parameter) for noise in noises]


def honest(curator: Curator, schema: Schema, budget: Budget) -> Coefficients:
    """The mechanism as it is."""
    return fourier(curator, schema, budget)


def scale_by_sets(curator: Curator, schema: Schema, budget: Budget) -> Coefficients:
    """The noise that would do if a row moved one coefficient of each set of attributes, and not all of them."""
    sizes, names = schema.domain.shape, schema.domain.names
    sets = downward_closure([(0, 1)], sizes)
    measured = tuple(
        curator.margin([names[place] for place in places]).measure(
            queries_of(places, sizes), scales=len(sets) / budget.amount
        )
        for places in sets
    )
    return Coefficients(schema, sets, measured, None, None)


def fitted_to_the_truth(curator: Curator, schema: Schema, budget: Budget) -> Coefficients:
    """NOT PRIVATE: the coefficients are honest, and the table that is published behind them is the private one."""
    content = fourier(curator, schema, budget)
    counts = getattr(curator, "_Recorder__inner", curator)._dense("count")
    cells = np.flatnonzero(counts)
    return replace(content, cells_kept=cells, counts=counts[cells])
