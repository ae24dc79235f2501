"""Steps of measures that a schema leaves out, coarse enough for the noise that a release would draw.

Usually a step is 2^-30 of half the range, which no noise lets anybody see. Where many attributes share a small budget
the noise on a sum would be more such steps than 64 bits hold. Then steps are 16 times coarser, and again, until it
fits: the noise is still 2^36 of them at least (LARGEST_SCALE, less the small shares that fits_in_file.py leaves room
for), beside which rounding the rows of any table is nothing. It follows from schema, epsilon and mechanism alone. A
step that the schema states is what its sums mean, so it is kept, and refused where it does not fit.
"""

from __future__ import annotations

from collections.abc import Callable

from sfumato.errors import BudgetError
from sfumato.schema import Schema
from sfumato.schema.values import exact

COARSER, TIMES = 16, 5


def with_steps_that_fit(schema: Schema, check: Callable[[Schema], None]) -> Schema:
    """The schema, its own steps coarser where `check` asks for it; the first refusal where that does not help."""
    free = [name for name, measure in schema.measures.items() if "step" not in measure.model_fields_set]
    refused = None
    for times in range(TIMES + 1 if free else 1):
        tried = _coarser(schema, free, COARSER**times) if times else schema
        try:
            check(tried)
        except BudgetError as problem:
            refused = refused or problem
        else:
            return tried
    assert refused is not None  # noqa: S101 (nothing was returned)
    raise refused


def _coarser(schema: Schema, names: list[str], factor: int) -> Schema:
    measures = {
        name: measure.model_copy(update={"step": exact(measure.step * factor)}) if name in names else measure
        for name, measure in schema.measures.items()
    }
    return schema.model_copy(update={"measures": measures})
