"""Parity: noise on every cell of bits, and the hidden vector learnt from the noisy cells; see docs/parity.md.

Xiao, Xiong, Yuan, TR-2010-003, section 6. Corrected: cells below zero are kept, the number of rows stays private, and
all vectors are compared at once, where the paper eliminates bit by bit in samples (that stands in `reproduce`).
"""

from __future__ import annotations

from math import sqrt

from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.lab.papers.forms import small_table
from sfumato.lab.papers.parity.content import ParityCube, enough_ahead, parity_doubt, why_no_bits
from sfumato.measurement import Laplace
from sfumato.models.base.measure_and_fit import every_cell
from sfumato.models.base.mechanism import Figure, Forecast, Lab, Mechanism, Promises, sure, with_rows, without_rows
from sfumato.models.cells.cells import cells
from sfumato.queries import Workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema


@dataclass(frozen=True)
class Options:
    """Options of the user. target: the attribute that may be a parity of the others; the last one if left open."""

    target: str | None = None


PLAIN = Options()


def parity(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, options: Options = PLAIN
) -> ParityCube:
    """Publish noisy cells, from which anyone can learn the parity vector.

    budget: spent as `cells` does, on counts and measures. Learning from what was released costs nothing.
    """
    released = cells(curator, schema, budget)
    assert isinstance(released, Cube)  # noqa: S101 (at most 2^20 cells)
    return ParityCube(schema, released.fits, label_of(schema, options))


def label_of(schema: Schema, options: Options) -> str:
    return schema.domain.names[-1] if options.target is None else options.target


def refuses(schema: Schema, workload: Workload | None, options: Options = PLAIN) -> str | None:
    return why_no_bits(schema.domain, label_of(schema, options))


def _promises(
    schema: Schema, budget: Budget, confidence: float, workload: Workload | None, options: Options = PLAIN
) -> Promises:
    for_count = budget.split(*schema.weights.values())[0]
    noise, cells = Laplace(schema.privacy_unit.contributions / for_count.amount), schema.domain.size
    figures = (
        Figure("cells, each with noise of its own", cells, "counts"),
        Figure("standard error of one cell", sqrt(noise.variance)),
        Figure(
            f"rows by which a vector must be ahead of the next to be claimed, {sure(confidence)}, whatever the table",
            enough_ahead(cells, noise, 1.0 - confidence),
        ),
        *with_rows(
            schema,
            lambda rows: Figure(
                f"chance, at most, that noise hides a vector that all of {rows:,} rows follow, and no other fits",
                100.0 * parity_doubt(rows, rows, cells, noise),
                "%",
            ),
        ),
    )
    return Promises(figures, without_rows(schema, "how likely noise hides a vector"))


_BIT = {"type": "category", "values": ["0", "1"]}
EXAMPLE = small_table("bits", a=_BIT, b=_BIT, odd=_BIT)


MECHANISM = Mechanism(
    name="parity",
    summary="noise on every cell of bits, and which parity of the others one of them follows",
    paper="Xiao, Xiong, Yuan 2010",
    run=parity,
    refuses=refuses,
    options=Options,
    forecast=Forecast(strategy=every_cell, for_auto=False, promises=_promises),
    lab=Lab(example=EXAMPLE, tried_with={"target": "odd"}),
)
