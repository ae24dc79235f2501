"""File form of queries and fits: records as strict JSON, arrays of integers beside them.

A fit is written with its measurements, noises and own arrays, so that an answer from the file equals the answer before
saving. Reading trusts nothing. A record has the keys of its family and no others, every array and every record is used
exactly once, queries are nested at most `MOST_DEPTH` deep and span no more cells than the whole, the families'
constructors check the rest, and an estimate that does not follow from its fit is refused. No family stores more than
its arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.fit import PARTS, Fit, FitReader
from sfumato.answers.fit import Arrays as FitArrays
from sfumato.arrays import MOST_SPANNED, ByAxis, Flags, Floats, Which, Whole
from sfumato.domain import Domain
from sfumato.errors import QueryError, ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.queries import Kron, Queries, trust
from sfumato.queries.base import Form, too_many
from sfumato.releases.file.records import FAMILIES, FitRecord, MeasurementRecord, QueriesRecord, noise_record, refusal

Record = dict[str, Any]
Families = dict[str, tuple[Form, Callable[..., Queries]]]  # by their names in a file: how each is kept and made

MOST_DEPTH = 8  # of families within families: twice as many levels of JSON, and strict_json allows twenty in all


class Arrays:
    """Arrays of a file, in order; on reading each is handed out once, so that none can be multiplied."""

    def __init__(self, arrays: list[Whole] | None = None) -> None:
        self.all = arrays if arrays is not None else []
        self._left = set(range(len(self.all)))

    def keep(self, values: NDArray[Any]) -> int:
        """Append an array; return its index."""
        self.all.append(np.ascontiguousarray(values, dtype=np.int64).reshape(-1))
        return len(self.all) - 1

    def take(self, index: object) -> Whole:
        """Hand out the array at an index, once."""
        if type(index) is not int or index not in self._left:
            raise refusal("it names an array that it does not have, or one twice")
        self._left.remove(index)
        return self.all[index]

    def refuse_leftovers(self) -> None:
        """Refuse a file with unused arrays."""
        if self._left:
            raise refusal("it has arrays that nothing in it names")


def describe(queries: Queries, arrays: Arrays) -> Record:
    """Record of a query matrix; its arrays are appended to `arrays`.

    >>> from sfumato.queries import Identity, Kron, Total
    >>> describe(Kron(Total(2), Identity(3)), Arrays())["parts"][0]
    {'family': 'total', 'columns': 2}
    """
    if not trust.trusted(queries) or not queries.integral:
        raise ReleaseFileError("only whole-number queries of the families of sfumato.queries can be kept in a file")
    return _describe(queries, arrays, 1)


def _describe(queries: Queries, arrays: Arrays, depth: int) -> Record:
    """Record of a query matrix at a nesting depth."""
    if depth > MOST_DEPTH:
        raise ReleaseFileError("queries within queries within queries, too deep for a file; ask for plainer ones")
    form = queries.form
    if form.alone is not None and getattr(queries, form.arrays[0]).ndim == 0:
        form = form.single()
    inner = () if form.parts is None else getattr(queries, form.parts)
    parts = inner if isinstance(inner, tuple) else (inner,)
    _refuse(too_many(len(parts)) or form.unkept(*parts, *(getattr(queries, key) for key in form.numbers + form.arrays)))
    record: Record = {"family": form.name}
    for key in form.numbers:
        record[key] = _as_json(getattr(queries, key))
    for key in form.arrays:
        values = getattr(queries, key)
        record[key] = [arrays.keep(one) for one in values] if isinstance(values, tuple) else arrays.keep(values)
    if form.parts is not None:
        record["parts"] = [_describe(part, arrays, depth + 1) for part in parts]
    return record


def rebuild(record: object, arrays: Arrays, columns: int) -> Queries:
    """Query matrix of an untrusted record over so many columns; any defect is a ReleaseFileError."""
    both = [(form, family) for family in trust.FAMILIES for form in (family.form, family.form.single())]
    families = {form.name: (form, form.make or family) for form, family in both}
    try:
        queries = _rebuild(record, arrays, families, columns, 1)
    except (AttributeError, QueryError, LookupError, TypeError, ValueError, ArithmeticError):
        raise refusal("its queries are not well formed") from None
    if queries.columns != columns or not queries.integral:
        raise refusal("its queries do not span its cells, or are not whole numbers")
    return queries


def _rebuild(record: Any, arrays: Arrays, families: Families, most: int, depth: int) -> Queries:
    """Query matrix of an untrusted record at a nesting depth; any defect raises."""
    form, make = families[record["family"]]
    inner = () if form.parts is None else ("parts",)
    if depth > MOST_DEPTH or record.keys() != {"family", *form.numbers, *form.arrays, *inner}:
        raise ValueError
    if "columns" in form.numbers and not (type(record["columns"]) is int and 1 <= record["columns"] <= most):
        raise ValueError
    arguments = [_only_whole(record[key]) for key in form.numbers]
    for key in form.arrays:
        indices = record[key]
        arguments.append([arrays.take(place) for place in indices] if type(indices) is list else arrays.take(indices))
    parts: list[Queries] = []
    for key in inner:
        _refuse(too_many(len(record[key])))
        parts = [_rebuild(part, arrays, families, most, depth + 1) for part in record[key]]
    _refuse(form.unkept(*parts, *arguments))
    return make(*parts, *arguments)


def _as_json(value: Any) -> Any:
    return [_as_json(one) for one in value] if isinstance(value, tuple) else int(value)


def _only_whole(value: Any) -> Any:
    """Integer or nested list of integers, or a ValueError."""
    if type(value) is not int and not (type(value) is list and all(_only_whole(one) is one for one in value)):
        raise ValueError
    return value


def _refuse(reason: str) -> None:
    if reason:
        raise ReleaseFileError(reason)


LARGEST = 2**62  # of an estimate; nothing the kernel hands out is larger
IN_PARTS = "_parts"  # ends the name of the array that adds 1024ths to another


@dataclass
class WrittenFits:
    """Records of fits and of their queries (shared ones once), and all arrays."""

    fits: list[FitRecord] = field(default_factory=list)
    queries: list[QueriesRecord] = field(default_factory=list)
    arrays: Arrays = field(default_factory=Arrays)
    _places: dict[int, int] = field(default_factory=dict)

    def add(self, fit: Fit, domain: Domain) -> None:
        """Append the record of a fit."""
        if FAMILIES.get(fit.family) is not type(fit):
            raise ReleaseFileError(f"a file cannot keep a fit of the kind {type(fit).__name__}")
        arrays: dict[str, int] = {}
        for name, values in fit.record(domain).items():
            kept = in_whole_numbers(values) if values.dtype.kind == "f" else (values,)
            arrays |= {key: self.arrays.keep(one) for key, one in zip((name, name + IN_PARTS), kept, strict=False)}
        measurements = [self.measurement(measured) for measured in fit.measurements]
        self.fits.append(FitRecord(fit.of, fit.family, measurements, arrays))

    def measurement(self, measured: Measurement) -> MeasurementRecord:
        """Record of a measurement; its queries are written once however many share them."""
        index = self._places.get(id(measured.queries))
        if index is None:
            index = self._places[id(measured.queries)] = len(self.queries)
            self.queries.append(describe(measured.queries, self.arrays))
        return MeasurementRecord(
            measured.of,
            measured.queries.columns,
            index,
            self.arrays.keep(measured.answers),
            [noise_record(noise) for noise in measured.noises],
            self._which(measured.which),
        )

    def _which(self, which: Which) -> int | list[int] | None:
        """Index of the stored array that says which noise each answer has; by axis, a list of such indices."""
        if isinstance(which, ByAxis):
            return [self.arrays.keep(codes) for codes in which.along]
        return None if which is None else self.arrays.keep(which)


def write_fits(fits: tuple[Fit, ...], domain: Domain) -> WrittenFits:
    """Encode fits as records; their estimates are left out, as the table of cells has them."""
    written = WrittenFits()
    for fit in fits:
        written.add(fit, domain)
    return written


@dataclass
class Reading:
    """Reader of untrusted fit records."""

    queries: list[QueriesRecord]
    arrays: Arrays
    domain: Domain
    possible: Flags | None = None  # cells that are no structural zeros
    _built: dict[int, Queries] = field(default_factory=dict)

    def fit(self, record: FitRecord, estimate: Floats | None) -> Fit:
        """Restore one fit with its published estimate, (cells,); None where it is solved for."""
        if estimate is not None and estimate.shape != (self.domain.size,):
            raise refusal("it does not have an estimate for each cell of its schema")
        try:
            measurements = [partial(self._measurement, one, record.of) for one in record.measurements]
            arrays = self._arrays(record.arrays)
            file = FitReader(self.domain, estimate, arrays, [*measurements], self.possible)
            fit = FAMILIES[record.family].read(file)
            if file.arrays or file.measurements:
                raise QueryError("it has measurements or arrays that do not go with its kind")
            follows = estimate is None or fit.estimate is estimate or _alike(fit.estimate, estimate)
        except QueryError as error:
            raise refusal(f"a fit in it contradicts itself: {error}") from None
        except (LookupError, ValueError):  # ValueError: equations without a solution
            raise refusal("a fit in it contradicts itself") from None
        if not follows:
            raise refusal("its estimates do not follow from its fits")
        return fit

    def _arrays(self, indices: dict[str, int]) -> FitArrays:
        """Arrays of a fit, with integer and 1024ths arrays joined to numbers."""
        taken = {name: self.arrays.take(place) for name, place in indices.items()}
        result: FitArrays = {}
        for name in [name for name in taken if name + IN_PARTS in taken]:
            whole, parts = taken.pop(name), taken.pop(name + IN_PARTS)
            if len(parts) != len(whole) or ((parts < 0) | (parts >= PARTS)).any():
                raise refusal("a fit in it has numbers that are not spelled as Sfumato spells them")
            result[name] = from_whole_numbers(whole, parts)
        return result | taken

    def _measurement(self, record: MeasurementRecord, of: str, columns: int | None) -> Measurement:
        """Restore a measurement of a statistic over so many cells or buckets, checked row by row.

        columns: None for one that no estimate depends on, of any statistic and any span.
        """
        if columns is None:
            of, columns = record.of, min(record.columns, MOST_SPANNED)
        if (record.of, record.columns) != (of, columns):
            raise refusal("a fit in it leans on another statistic, or on other cells than its own")
        queries = self._queries(record.queries, columns)
        answers = self.arrays.take(record.answers)
        which: Which = None
        if isinstance(record.which, list):
            which = self._by_axis(record.which, queries)
        elif record.which is not None:
            which = self.arrays.take(record.which)
        if len(answers) != queries.rows or (which is not None and len(which) != queries.rows):
            raise refusal("it does not have an answer and a noise for each of its queries")
        kinds = len(record.noises)
        known = prod(which.kinds) == kinds if isinstance(which, ByAxis) else True
        if isinstance(which, np.ndarray):
            known = 0 <= int(which.min()) <= int(which.max()) < kinds
        if not known or (which is None and kinds != 1):
            raise refusal("it does not say which of its answers carry which noise")
        return Measurement(record.of, queries, answers, tuple(noise.noise for noise in record.noises), which)

    def _by_axis(self, listed: list[int], queries: Queries) -> ByAxis:
        """Noise numbers by axis, a code for each row along each factor of a product."""
        which = ByAxis(tuple(map(self.arrays.take, listed)))
        rows = [factor.rows for factor in queries.factors] if type(queries) is Kron else []
        if [*map(len, which.along)] != rows or any(int(codes.min()) < 0 for codes in which.along):
            raise refusal("it does not have an answer and a noise for each of its queries")
        return which

    def _queries(self, index: int, columns: int) -> Queries:
        """Query matrix by its index, built once."""
        if index >= len(self.queries):
            raise refusal("it names queries that it does not have")
        if index not in self._built:
            self._built[index] = rebuild(self.queries[index], self.arrays, columns)
        if self._built[index].columns != columns:
            raise refusal("its queries do not span its cells")
        return self._built[index]

    def refuse_leftovers(self) -> None:
        """Refuse a file with unused records or arrays."""
        self.arrays.refuse_leftovers()
        if len(self._built) < len(self.queries):
            raise refusal("it has queries that nothing in it names")


def _alike(estimate: Floats, other: Floats) -> bool:
    """Whether two estimates agree up to rounding, with equal shapes (NumPy would broadcast)."""
    return estimate.shape == other.shape and np.allclose(estimate, other, rtol=1e-9, atol=2 / PARTS)


def in_whole_numbers(estimate: Floats) -> tuple[Whole, Whole]:
    """Split an estimate into integers and 1024ths: exact, as estimates are multiples of these.

    >>> [column.tolist() for column in in_whole_numbers(np.array([2.5, -0.25]))]
    [[2, -1], [512, 768]]
    """
    clipped = np.clip(estimate, -LARGEST, LARGEST)
    whole = np.floor(clipped)
    return whole.astype(np.int64), np.rint((clipped - whole) * PARTS).astype(np.int64)


def from_whole_numbers(whole: Whole, parts: Whole) -> Floats:
    """Join integers and 1024ths to an estimate; exact in floating point."""
    estimate = whole.astype(np.float64)
    estimate += parts / PARTS
    return estimate
