"""Values of a category with too few rows for a coefficient: their rows are left out of a regression.

Within the noise such a value may have no rows, while sums of products over its rows are not zero. So its own
coefficient is open, and with it all others of columns that vary inside it: there is nothing that it could not explain.
Without its rows the others are what they are. They move by about the share that these rows have in the table, times how
different they are. So nothing is left out if that share may be large: then coefficients stay open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sfumato.answers.design import Design, DesignColumn
from sfumato.answers.evaluate import Evaluation, Sum
from sfumato.answers.fieller import Functional, Interval
from sfumato.answers.function_interval import Function, function_interval
from sfumato.answers.question import ByStatistic
from sfumato.answers.spreads import times
from sfumato.arrays import Floats

Scarce = Mapping[str, frozenset[int]]  # values by attribute
NONE: Scarce = {}
CLEAR = 2.0  # times the half-width of its interval: a count above that is no zero, nor are sums of squares of its rows
MOST_LEFT_OUT = 0.05  # of the rows, at the upper end of the interval of how many are left out
MOST_NAMED = 3  # in a note


def scarce_values(design: Design, counts: ByStatistic, evaluation: Evaluation) -> dict[str, frozenset[int]]:
    """Values of the categories of a design whose counts are not clearly above zero; none if they may hold many rows.

    counts: weights of the count of all rows.
    """
    view, every = evaluation.view, list[tuple[str, int]]()
    coded = (one.attribute for column in design.columns for one in column.factors if one.value is not None)
    for name in dict.fromkeys(coded):
        every += [(name, value) for value in range(view.schema.domain[name].places)]
    if not every:
        return {}
    ones = np.ones(view.cells.size)
    found: dict[str, frozenset[int]] = {}
    parts = [(view.cells.codes[name] == value).astype(np.float64) for name, value in every]
    for (name, value), count in zip(every, _intervals(parts, counts, evaluation), strict=True):
        if count is None or count.value <= CLEAR * (count.value - count.low):
            found[name] = found.get(name, frozenset()) | {value}
    whole, out = _intervals([ones, ones - kept_cells(found, evaluation)], counts, evaluation)
    return found if whole and out and out.high <= MOST_LEFT_OUT * whole.low else {}


def _intervals(parts: Sequence[Floats], counts: ByStatistic, evaluation: Evaluation) -> list[Interval | None]:
    """Intervals of the counts of rows in some cells. parts: 1 for these, 0 for others, (cells,)."""
    sums = [Sum({of: times(one, part) for of, one in counts.items()}, {}, {}, np.zeros(1)) for part in parts]
    held = [Functional(*(float(part[0]) for part in evaluation.values_of(one))) for one in sums]
    terms, units = evaluation.terms(sums)[0], np.eye(len(sums))
    if terms is None:
        return [None] * len(sums)
    return [function_interval(_linear(unit), (), held, terms, evaluation.confidence) for unit in units]


def kept_cells(scarce: Scarce, evaluation: Evaluation) -> Floats:
    """1 for cells without scarce values, 0 for others, (cells,)."""
    cells = evaluation.view.cells
    kept = np.ones(cells.size)
    for name, values in scarce.items():
        kept *= ~np.isin(cells.codes[name], [*values])
    return kept


def without(design: Design, scarce: Scarce) -> tuple[Design, dict[int, int]]:
    """Design without columns of scarce values, and the place in it of every column that means the same there.

    Where a column is there without a category and times its values, coefficients are differences to the first value. If
    that is scarce, they become differences to the first that is not, which none of the asked ones are.
    """
    gone = {
        column for column in design.columns if any(one.value in scarce.get(one.attribute, ()) for one in column.factors)
    }
    known, differ = {column.factors: column for column in design.columns}, set[DesignColumn]()
    for name in (name for name, values in scarce.items() if 0 in values):
        coded = {one.value for column in design.columns for one in column.factors if one.attribute == name}
        first = min((value for value in coded if value is not None and value not in scarce[name]), default=0)
        for column in design.columns:
            rest = tuple(one for one in column.factors if one.attribute != name)
            if len(rest) == len(column.factors) or rest not in known:
                continue
            differ |= {column, known[rest]}
            if any(one.attribute == name and one.value == first for one in column.factors):
                gone.add(column)
    left = [column for column in design.columns if column not in gone]
    places = {design.columns.index(one): place for place, one in enumerate(left) if one not in differ}
    return replace(design, columns=tuple(left)), places


def in_words(scarce: Scarce, evaluation: Evaluation) -> str:
    """Note on the values whose rows are left out."""
    domain = evaluation.view.schema.domain
    named = [f"{name} = {domain[name].label(value)}" for name, values in scarce.items() for value in sorted(values)]
    more = f" and {len(named) - MOST_NAMED} more values" if len(named) > MOST_NAMED else ""
    return (
        f"{', '.join(named[:MOST_NAMED])}{more}: too few rows to tell from none. Coefficients of these are open, and "
        "their rows are left out of the others"
    )


def _linear(weights: Floats) -> Function:
    return lambda sums: (float(weights @ sums), weights)
