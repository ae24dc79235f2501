"""The bounds of a column as a reader writes them."""

from __future__ import annotations

from fractions import Fraction

from sfumato.schema.attributes import Column


def bounds_of(part: Column) -> tuple[str, str] | None:
    """Lower and upper bound of an attribute or measure; None where it has none, as a category.

    >>> from sfumato.schema.parts import Measure
    >>> bounds_of(Measure(lower=Fraction(0), upper=Fraction(5, 2)))
    ('0', '2.5')
    """
    lower, upper = (getattr(part, name, None) for name in ("lower", "upper"))
    return None if lower is None or upper is None else (_written(lower), _written(upper))


def _written(bound: object) -> str:
    return f"{float(bound):.15g}" if isinstance(bound, Fraction) else str(bound)
