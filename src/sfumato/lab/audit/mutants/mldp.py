"""NOT PRIVATE: learned models made from too little noise, kept so that the audit can be seen to catch them.

Each forgets one clause of the proof in docs/mldp.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from sfumato.arrays import Codes
from sfumato.domain import Partition
from sfumato.domain.blocks import Blocks
from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge, Load
from sfumato.kernel.curator import Curator
from sfumato.lab.audit.attacks.replay import Run, replay
from sfumato.lab.audit.subjects.small_tables import neighbouring_tables
from sfumato.lab.papers.mldp.content import Learned
from sfumato.lab.papers.mldp.measure import example, mldp
from sfumato.lab.papers.mldp.training_queries import training_sets
from sfumato.measurement import Laplace, Measurement, Noise
from sfumato.queries import Predicates, Queries
from sfumato.schema import Schema

Check = Callable[[], str | None]

WHOLE = Budget.pure(1)


def replaying_model(run: Run, kind: type[Curator] = Curator) -> Check:
    """The replay audit on the mechanism's own example, on all tables of up to 2 rows."""

    def check() -> str | None:
        schema = example(1)
        for one, other in neighbouring_tables(schema.domain.size, 2, 1, ((),)):
            for complaint in replay(run, schema, one, other, WHOLE, curator=kind).complaints:
                return complaint.what
        return None

    return check


class EachQueryAloneCurator(Curator):
    """NOT PRIVATE: every training query has the noise of one query, where a row of data is in several of them."""

    def reduce(self, partition: Partition) -> Curator:
        view = super().reduce(partition)
        view.__class__ = type(self)  # the kernel makes its views of its own class
        return view

    def _noises(
        self,
        queries: Queries,
        unit: int,
        budget: Budget | None,
        scales: Fraction | Sequence[Fraction] | None,
        which: Codes | None,
    ) -> tuple[tuple[Noise, ...], Codes | None]:
        noises, which = super()._noises(queries, unit, budget, scales, which)
        return tuple(Laplace(noise.parameter / int(queries.l1)) for noise in noises), which

    def _loads(self, queries: Queries, unit: int, noises: tuple[Noise, ...], which: Codes | None) -> list[Load]:
        return [self._spread(Load(1, Fraction(unit) / noise.parameter)) for noise in noises]


def trained_on(curator: Curator, schema: Schema, budget: Budget) -> Learned:
    """The mechanism as it is."""
    return mldp(curator, schema, budget)


def asked_until_full(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """The mechanism's training set, and the same again for the answers kept aside, each with the whole budget."""
    blocks = Blocks.at_most(schema.domain, schema.domain.size)
    queries = Predicates(blocks.size, [row > 0 for row in training_sets(blocks, "ranges", 0)])
    found = []
    try:
        for _ in range(2):
            found.append(curator.reduce(blocks.partition).measure(queries, budget))
    except PrivacyError:
        return found
    return found


class AsideForFreeCurator(Curator):
    """NOT PRIVATE: what is asked of groups of cells has a charge of its own each time, as if it were kept apart."""

    def reduce(self, partition: Partition) -> Curator:
        view = super().reduce(partition)
        view.charge = Charge(self.charge.budget, self.charge.contributions, self.charge.cells)
        return view
