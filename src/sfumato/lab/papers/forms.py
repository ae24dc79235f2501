"""Forms that single-purpose mechanisms share: members of a file, names in SQL, columns of predictions, examples.

Predictions of every published model have four columns beside the rows' own. predicted: the value of the target.
probability: the share of rows judged alike for which that is right, in the table that was released, and the ends of its
interval; null where nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from sfumato.answers.fieller import Functional, Interval, Term, ratio_interval
from sfumato.errors import QueryError
from sfumato.measurement import Noise
from sfumato.plain_text import printable
from sfumato.releases.file.manifest import Manifest, Statistic
from sfumato.releases.file.records import refusal
from sfumato.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Share = tuple[float | None, float | None, float | None]  # a probability and the ends of its interval
PREDICTED = ("predicted", "probability", "probability_low", "probability_high")


def check_form(
    manifest: Manifest, columns: Mapping[str, Sequence[str]], statistics: Sequence[Statistic], what: str
) -> None:
    """Refuse a manifest whose members or statistics differ from those of a kind of content."""
    if {name: member.columns for name, member in manifest.members.items()} != columns:
        raise refusal(f"its members are not those of {what}")
    if manifest.statistics != statistics:
        raise refusal(f"its statistics are not those of {what}")


def in_sql(name: str) -> str:
    """Name of a column or table in SQL, quoted where it may need it."""
    plain = name.isidentifier() and name.isascii() and printable(name) == name
    return name if plain else '"' + name.replace('"', '""') + '"'


def noisy_share(noise: Noise, inside: tuple[float, int], outside: tuple[float, int], confidence: float) -> Interval:
    """Share of some noisy counts in all of them. inside, outside: the sum of such counts and their number."""
    (top, _), bottom = inside, inside[0] + outside[0]
    sums = ((inside[1], 1.0), (outside[1], 0.0))
    terms = [Term.of(noise, number, part, part, part, 1.0, 1.0, 1.0) for number, part in sums if number]
    return ratio_interval(Functional(top, top, top), Functional(bottom, bottom, bottom), terms, confidence, (0, 1))


def with_predictions(rows: pa.Table, predicted: Sequence[object], shares: Sequence[Share | None]) -> pa.Table:
    """Append the prediction columns to rows; a table that has one of these columns already is refused."""
    import pyarrow as pa

    if taken := [name for name in PREDICTED if name in rows.column_names]:
        raise QueryError(f"the rows have a column {taken[0]!r} already, which the model's is called; rename yours")
    rows = rows.append_column(PREDICTED[0], pa.array(predicted))
    for end, name in enumerate(PREDICTED[1:]):
        column = [_known(None if one is None else one[end]) for one in shares]
        rows = rows.append_column(name, pa.array(column, pa.float64()))
    return rows


def share_of(found: Interval) -> Share:
    """Interval as a tuple (value, low, high)."""
    return found.value, found.low, found.high


def _known(number: float | None) -> float | None:
    return number if number is not None and isfinite(number) else None


def small_table(dataset: str, **attributes: dict[str, Any]) -> Callable[[int], Schema]:
    """Constructor of a small example schema, given the number of rows per person."""

    def made(contributions: int) -> Schema:
        unit = {"column": "person", "contributions": contributions}
        return Schema.from_dict({"dataset": dataset, "privacy_unit": unit, "attributes": attributes})

    return made


def whole_up_to(upper: int) -> dict[str, Any]:
    """Declaration of an integer attribute from 0 to `upper`."""
    return {"type": "integer", "lower": 0, "upper": upper}
