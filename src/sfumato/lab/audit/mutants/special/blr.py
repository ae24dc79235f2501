"""NOT PRIVATE: broken choices of a whole table, kept so that the audit can be seen to catch them.

The proof says: the largest misfit moves both ways, so the factor 2 stays, and what candidates answer is public. Each
forgets one half of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.largest_misfit import LargestMisfit
from sfumato.lab.audit.attacks.exact import Distribution, Law, exponential
from sfumato.lab.audit.mutants.choices import exactly
from sfumato.lab.papers.blr.measure import Options, blr, small_tables
from sfumato.queries import Identity
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

ROWS = 4  # of the small tables


def table_law(rate: Fraction) -> Law:
    """With which chances each table of a few rows on four cells is chosen, by its cells."""
    score = LargestMisfit(Identity(4), small_tables(4, 3))

    def distribution(counts: Sequence[int], last: int) -> Sequence[Distribution]:
        return [exponential(score.scores(np.array(counts, dtype=np.int64)).tolist(), rate)]

    return distribution


def saved_as_counts() -> str | None:
    """NOT PRIVATE: the saving for counts, which move one way, is taken for misfits, which do not."""
    return exactly(table_law(Fraction(1)))()


def saved_nothing() -> str | None:
    """The rate of `select`: nothing is wrong here."""
    return exactly(table_law(Fraction(1, 2)))()


def scaled_by_the_table(curator: Curator, schema: Schema, budget: Budget) -> Cube:
    """NOT PRIVATE: small tables are scaled by the private number of rows, as in the paper."""
    for_choice, for_rest = budget.split(1, 1)
    rows = int(getattr(curator, "_Recorder__inner", curator)._dense("count").sum())
    answers = small_tables(schema.domain.size, ROWS) * rows // ROWS
    curator.select(LargestMisfit(Identity(schema.domain.size), answers), for_choice)
    return blr(curator, schema, for_rest, options=Options(ROWS))


def scaled_by_noise(curator: Curator, schema: Schema, budget: Budget) -> Cube:
    """The mechanism itself: nothing is wrong here."""
    return blr(curator, schema, budget, options=Options(ROWS))
