"""The mechanisms, by name: one paper, one file, one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import MechanismError
from sfumato.limits import MOST_DENSE
from sfumato.mechanisms import dawa as _dawa
from sfumato.mechanisms import ispe as _ispe
from sfumato.mechanisms import kdtree as _kdtree
from sfumato.mechanisms import sfumato as _sfumato
from sfumato.mechanisms._multiplicative_weights import shape_refuses
from sfumato.mechanisms.cells import cells, sparse_cells
from sfumato.mechanisms.division import division, division_refuses, division_strategy
from sfumato.mechanisms.hierarchical import hierarchical, hierarchical_strategy
from sfumato.mechanisms.laplace import laplace, laplace_refuses, laplace_strategy
from sfumato.mechanisms.matrix import matrix, matrix_strategy
from sfumato.mechanisms.mwem import mwem, mwem_work
from sfumato.mechanisms.pmw import pmw, pmw_work
from sfumato.mechanisms.wavelet import wavelet, wavelet_strategy

if TYPE_CHECKING:
    from sfumato.kernel.budget import Budget
    from sfumato.kernel.curator import Curator
    from sfumato.queries import Workload
    from sfumato.queries.strategy import Strategy
    from sfumato.releases.contents.content import Content
    from sfumato.schema import Schema

Refusal = Callable[["Schema", "Workload | None"], "str | None"]
Work = Callable[["Schema", "Workload", "Budget", int], int]  # schema, workload, budget, about how many rows


def fits_every_schema(schema: Schema, workload: Workload | None) -> str | None:
    """No schema is too large."""
    return None


def per_cell(updates: int) -> Work:
    """Work in proportion to the cells.

    updates: of a number in memory, for each cell; from release times, a microsecond being about 64 of them.
    """

    def work(schema: Schema, workload: Workload, budget: Budget, rows: int) -> int:
        return updates * schema.domain.size

    return work


A_FEW_PASSES = per_cell(128)


@dataclass(frozen=True)
class Mechanism:
    """A recipe that turns a private table into something to publish.

    strategy: for linear mechanisms, what they ask (schema, workload, whether the budget is pure epsilon); their error
    is known before any data is. gaussian: whether it also takes rho-zCDP. refuses: why it does not fit, or None.
    error_if_full: for one that adapts to the table, about its error where there is nothing to adapt to.
    work: about how many numbers in memory one release changes. It tells what a trial costs by public numbers alone, so
    that nothing in a plan depends on the clock.
    """

    name: str
    summary: str
    run: Callable[[Curator, Schema, Budget, Workload | None], Content]
    strategy: Callable[[Schema, Workload, bool], Strategy] | None = None
    gaussian: bool = False
    refuses: Refusal = fits_every_schema
    error_if_full: Callable[[Schema, Workload, Budget], float] | None = None
    work: Work = A_FEW_PASSES


def _laid_out(name: str, further: Refusal = fits_every_schema) -> Refusal:
    """Refuse a domain that cannot be laid out in full, and whatever else a mechanism cannot take."""

    def refuses(schema: Schema, workload: Workload | None) -> str | None:
        if schema.domain.size > MOST_DENSE:
            return (
                f"{name} lays out every cell and takes at most {MOST_DENSE:,}; the schema has {schema.domain.size:,}. "
                "Use sparse-cells, which publishes only the cells that stand out"
            )
        return further(schema, workload)

    return refuses


MECHANISMS = {
    mechanism.name: mechanism
    for mechanism in (
        Mechanism("cells", "noise on every cell", cells),
        Mechanism("sparse-cells", "noise on every cell, published above a threshold only", sparse_cells),
        Mechanism(
            "sfumato",
            "a tree descended once, each look deciding the next",
            _sfumato.sfumato,
            gaussian=True,
            refuses=_laid_out("sfumato", _sfumato.refuses),
            error_if_full=_sfumato.error_if_full,
            work=per_cell(1024),
        ),
        Mechanism(
            "hierarchical",
            "a tree of ranges, made consistent",
            hierarchical,
            hierarchical_strategy,
            gaussian=True,
            refuses=_laid_out("hierarchical"),
        ),
        Mechanism(
            "wavelet",
            "Haar coefficients of the cells (Privelet)",
            wavelet,
            wavelet_strategy,
            gaussian=True,
            refuses=_laid_out("wavelet"),
        ),
        Mechanism(
            "matrix",
            "the best strategy found for the workload",
            matrix,
            matrix_strategy,
            gaussian=True,
            refuses=_laid_out("matrix"),
        ),
        Mechanism(
            "kdtree",
            "noisy cells, then boxes found in them (DPCube)",
            _kdtree.kdtree,
            refuses=_laid_out("kdtree", _kdtree.refuses),
            work=per_cell(2048),
        ),
        Mechanism(
            "ispe",
            "noisy cells, smoothed into regions, both used",
            _ispe.ispe,
            refuses=_laid_out("ispe", _ispe.refuses),
        ),
        Mechanism(
            "dawa",
            "buckets of even counts, chosen privately",
            _dawa.dawa,
            refuses=_laid_out("dawa", _dawa.refuses),
            work=per_cell(1024),
        ),
        Mechanism(
            "mwem",
            "fitted, round by round, to the query answered worst",
            mwem,
            refuses=_laid_out("mwem", shape_refuses),
            work=mwem_work,
        ),
        Mechanism(
            "pmw",
            "fitted to queries in turn, where it is off",
            pmw,
            refuses=_laid_out("pmw", shape_refuses),
            work=pmw_work,
        ),
        Mechanism(
            "division",
            "noise on the workload's queries, more where they crowd",
            division,
            division_strategy,
            refuses=_laid_out("division", division_refuses),
        ),
        Mechanism(
            "laplace",
            "noise on the workload's queries, the same on all",
            laplace,
            laplace_strategy,
            refuses=_laid_out("laplace", laplace_refuses),
        ),
    )
}


def find_mechanism(name: str) -> Mechanism:
    """The mechanism of that name.

    >>> find_mechanism("hierarchical").gaussian
    True
    """
    if name not in MECHANISMS:
        raise MechanismError(f"no mechanism {name!r}; there are auto, {', '.join(MECHANISMS)}")
    return MECHANISMS[name]
