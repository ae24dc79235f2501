"""What a fit claims of the errors of regions: the variance that goes with all rows or is noise, and the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.answers.fit import Errors, Fit
from sfumato.answers.grouped import ByGroup, Grouped
from sfumato.arrays import Codes, Floats
from sfumato.models.calibration.fit import Brought, by_group_with_total, parts_of, with_total

AT_ONCE = 2**22  # weights of cells that are laid out at a time


def claims(brought: Brought, labels: Codes, chosen: Codes) -> tuple[Floats, Floats]:
    """Of some regions: variances that are in doubt, whose size is measured, and those that are sure.

    brought: a fit and the counts that it was brought to. labels: the region of every cell. chosen: which regions.
    """
    number = np.full(int(labels.max()) + 1, -1)
    number[chosen] = np.arange(len(chosen))
    asked = Grouped.of_cells(number[labels], len(chosen), np.ones((len(labels), 1)), None)
    fit, steadied, blocks = brought.fit, brought.along, brought.blocks
    products = None if steadied is None else steadied.products_by_group(asked)
    means = None if blocks is None else blocks.by_group(asked)
    sure, doubtful = np.empty(len(chosen)), np.empty(len(chosen))
    for place, errors in enumerate(_by_group(fit, number[labels], asked)):
        by_block = None if means is None else (means[0][place], means[1][place])
        along = None if products is None else products[place]
        known, rest = parts_of(errors.model, along, steadied, blocks, by_block)
        noise = errors.design.variances * errors.weights[:, 0] ** 2
        counted = noise.sum() if errors.counts is None else errors.counts @ noise
        sure[place], doubtful[place] = float(known[0, 0]) + float(counted), float(rest[0, 0])
    return doubtful, sure


def _by_group(fit: Fit, group: Codes, asked: Grouped) -> Sequence[Errors]:
    cells, groups = len(group), asked.groups
    if isinstance(fit, ByGroup):
        found = by_group_with_total(fit, asked, cells)
        if found is not None:
            return found
    each: list[Errors] = []
    block = max(1, AT_ONCE // cells)
    for start in range(0, groups, block):
        some = np.arange(start, min(start + block, groups))
        errors = with_total(fit, (group[:, None] == some).astype(np.float64))
        each += [_only(errors, place) for place in range(len(some))]
    return each


def _only(errors: Errors, place: int) -> Errors:
    """One sum, and the last."""
    both = [place, -1]
    return Errors(
        errors.design, errors.weights[:, both], errors.model[np.ix_(both, both)], errors.unknown[both], errors.counts
    )
