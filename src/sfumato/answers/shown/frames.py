"""An answer as a data frame of one's own library: keys as they are, every number with its error columns."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.version import install_command

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from sfumato.answers.result import Result


LONGEST = 2**63  # whole numbers of a frame are shorter


def as_arrow(result: Result) -> pa.Table:
    import pyarrow as pa

    columns, moments = _columns(result), {"day": pa.date32(), "hour": pa.timestamp("s")}
    types = {name: _arrow_type(name, values, result) for name, values in columns}
    types |= {name: moments[kind] for name, kind in result.moments.items()}
    return pa.table({name: pa.array(values, types[name]) for name, values in columns})


def as_pandas(result: Result) -> pd.DataFrame:
    columns = dict(_columns(result))
    frame: pd.DataFrame = needed("pandas").DataFrame(columns)
    types: dict[str, Any] = {name: float for name, values in columns.items() if _all_unknown(name, values, result)}
    return frame.astype(types | dict.fromkeys(result.moments, "datetime64[s]"))


def as_polars(result: Result) -> pl.DataFrame:
    frame: pl.DataFrame = needed("polars").from_arrow(as_arrow(result))
    return frame


def needed(library: str, extra: str | None = None) -> Any:
    """A library that is not among those which are always there."""
    try:
        return import_module(library)
    except ModuleNotFoundError:
        package = library.partition(".")[0]
        command = f"pip install {package}" if extra is None else install_command(extra)
        raise SfumatoError(f"this needs {package}, which is not installed; run `{command}`") from None


def _columns(result: Result) -> list[tuple[str, list[Any]]]:
    records = result.typed_records()
    return [(name, _in_64_bits([record.get(name) for record in records])) for name in result.headers]


def _in_64_bits(values: list[Any]) -> list[Any]:
    """A column whose whole numbers are beyond 64 bits has fractions instead, as frames hold no longer ones."""
    whole = [value for value in values if isinstance(value, int)]
    if all(-LONGEST <= value < LONGEST for value in whole):
        return values
    return [float(value) if isinstance(value, int) else value for value in values]


def _all_unknown(name: str, values: list[Any], result: Result) -> bool:
    """Whether a column of numbers has none, so that nothing tells its type."""
    is_key = name in result.columns and name not in result.estimated
    return not is_key and all(value is None for value in values)


def _arrow_type(name: str, values: list[Any], result: Result) -> Any:
    """Numbers are numbers also where none is known; text and booleans are told by the values."""
    import pyarrow as pa

    if _all_unknown(name, values, result):
        return pa.float64()
    return pa.string() if not values else None
