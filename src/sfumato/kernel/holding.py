"""The private counts that a curator holds: their place in the whole table, their charge, and public subsets of rows.

`Holding` draws no noise and publishes nothing; `curator.py` has the verbs. `View` maps the cells of a curator's domain
to the cells of the whole table, so that every load reaches the cells that it belongs to.
Row number j of cell c is in public subset s if bit s of a public hash of (seed, c, j) is set; why this costs what the
whole table does, for every seed, is in docs/privacy.md, section 9.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import MOST_DENSE, MOST_MEASURED, ByAxis, Codes, Which, Whole
from sfumato.domain import Axis, Domain
from sfumato.errors import PrivacyError, QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge, Load, load_of
from sfumato.kernel.counts import Aggregate, MarginCounts, Rows
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.verbs.measuring import loads_by_axis
from sfumato.measurement import Laplace, Noise
from sfumato.queries import Cells, Kron, Queries, Total, trusted
from sfumato.schema.invariants import ExactSets
from sfumato.schema.schema import missing_of

if TYPE_CHECKING:  # few tables are parts of a series with running totals
    from sfumato.kernel.ledger.past_noise import Carried

SUBSETS_AT_ONCE = 64  # bits of one hash
BLOCK = 2**20  # rows that are looked at together
MOST_SUBSETS = 2**16


def checked_subset(seed: int, number: int) -> int:
    """Validate the seed and number of a public subset of rows."""
    if not 0 <= seed < 2**32 or not 0 <= number < MOST_SUBSETS:
        raise QueryError(f"a subset has a seed below 2^32 and a number below {MOST_SUBSETS:,}; state such")
    return int(number)


def checked_map(name: str, size: int, axis: Axis, codes: Codes) -> Codes:
    """Validate a public function of an attribute's cells; returns a copy that nobody can change any more."""
    found = np.array(codes)
    if axis.name != name or found.shape != (size,) or found.dtype.kind not in "iu":
        raise QueryError(f"recoding {name} takes an axis of that name and a whole number for each of its {size} cells")
    if not 0 <= int(found.min()) <= int(found.max()) < axis.size:
        raise QueryError(f"recoding {name} leads beyond the {axis.size} cells of the new axis")
    return found.astype(np.int64)


def thinned(aggregate: Aggregate, seed: int, word: int) -> Whole:
    """Number of rows of each aggregate cell in the public subsets 64 * word to 64 * word + 63, (64, cells)."""
    kept = np.zeros((SUBSETS_AT_ONCE, len(aggregate.cells)), dtype=np.int64)
    ends = np.concatenate([[0], np.cumsum(aggregate.counts)])
    for start in range(0, int(ends[-1]), BLOCK):
        rows = np.arange(start, min(start + BLOCK, int(ends[-1])))
        place = np.searchsorted(ends, rows, side="right") - 1
        hashed = _hash(aggregate.cells[place].astype(np.uint64), (rows - ends[place]).astype(np.uint64), seed, word)
        first = np.flatnonzero(np.diff(place, prepend=-1))  # rows of a cell stand together
        for bit in range(SUBSETS_AT_ONCE):
            inside = ((hashed >> np.uint64(bit)) & np.uint64(1)).astype(np.int64)
            kept[bit, place[first]] += np.add.reduceat(inside, first)
    return kept


def subset_of(aggregate: Aggregate, kept: Whole) -> Aggregate:
    """Aggregate of a public subset of rows, without sums of measures. kept: rows of every cell that are in it."""
    held = np.flatnonzero(kept)
    return Aggregate(aggregate.cells[held], kept[held])


def _hash(cells: NDArray[np.uint64], numbers: NDArray[np.uint64], seed: int, word: int) -> NDArray[np.uint64]:
    """64-bit hash of each row, by three rounds of an integer mixer."""
    mixed = _mix(np.uint64(seed * 2**16 + word) * np.ones_like(cells))
    return _mix(_mix(mixed + cells) + numbers)


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


@dataclass(frozen=True, eq=False)
class View:
    """Map from the cells of a curator's domain to cells of the whole table."""

    cells: Codes  # cells of the table that this view sees
    groups: Codes  # the view's own cell that each of them belongs to

    def within(self, inside: Codes) -> View:
        """View restricted to some cells. inside: for each cell its new index, or -1."""
        seen = inside[self.groups]
        return View(self.cells[seen >= 0], seen[seen >= 0])


class Holding:
    """Private table, or a part of it, bound to one charge; without verbs."""

    def __init__(
        self,
        domain: Domain,
        held: Aggregate | Rows,
        units: dict[str, int],
        charge: Charge,
        entropy: Entropy,
        *,
        view: View | None = None,
        everywhere: bool = False,
        carried: Carried | None = None,
        exact: ExactSets = (),
    ) -> None:
        self.domain = domain
        self.charge = charge
        self._held = held
        self._units = units  # the most one row changes a cell: 1 for "count", half_units for a measure, 1 where missing
        self._entropy = entropy
        self._view = view
        self._thinned: tuple[tuple[int, int], Whole] | None = None  # of the last subsets that were looked at
        self._carried = carried  # noise of earlier parts of a series, held by the curator of the whole table alone
        self._exact = exact  # tables that the ledger names as handed out exactly, by the whole table's curator alone
        self._everywhere = everywhere  # whether its cells together are all of the table: a margin's are

    @property
    def statistics(self) -> tuple[str, ...]:
        """The statistics that a budget is split over: "count" and the measures of the schema."""
        missing = set(map(missing_of, self._units))
        return tuple(of for of in self._units if of not in missing)

    @cached_property
    def _aggregate(self) -> Aggregate:
        """Private counts by cell, gathered on first use."""
        return self._held.gathered if isinstance(self._held, Rows) else self._held

    @cached_property
    def _margins(self) -> MarginCounts:
        return MarginCounts(self.domain, self._held)

    @property
    def private(self) -> bool:
        """False when the noise comes from a testing generator: whatever comes out is NOT PRIVATE."""
        return self._entropy.private

    def _unit(self, of: str) -> int:
        if of not in self._units:
            raise QueryError(f"no statistic {of!r}; there are {', '.join(self._units)}")
        return self._units[of]

    def _check(self, queries: Queries, domain: Domain | None = None) -> None:
        # The proof leans on column_sums, so only families whose column_sums is tested may be measured.
        if not trusted(queries):
            raise PrivacyError("only the query families of sfumato.queries can be measured; their bounds are proved")
        if not queries.integral:
            raise QueryError("queries must have whole-number weights; put weights into the noise scales instead")
        cells = (self.domain if domain is None else domain).size
        if queries.columns != cells:
            raise QueryError(f"the queries span {queries.columns} cells, the domain has {cells}")

    def _check_size(self, most: int = MOST_DENSE) -> None:
        """Refuse, before any charge, a domain too large to lay out."""
        if self.domain.size > most:
            raise QueryError(
                f"a domain of {self.domain.size:.3g} cells is too large to lay out in full; "
                "measure margins, totals, single cells, or cells above a threshold"
            )

    def _charge_all(self, budget: Budget) -> None:
        """Charge a whole budget to every cell in view, before anything is drawn."""
        share = Charge(budget, self.charge.contributions, 1).limit
        self.charge.admit([self._spread(Load(1, share))])

    def _loads(self, queries: Queries, unit: int, noises: tuple[Noise, ...], which: Which) -> list[Load]:
        if isinstance(which, ByAxis):
            whole = self._view is None and not self._everywhere and self.charge.groups == max(self.domain.shape)
            shape = tuple(factor.columns for factor in queries.factors) if type(queries) is Kron else ()
            if type(queries) is Kron and whole and not self.charge.tracked and shape == self.domain.shape:
                return list(loads_by_axis(queries, noises, which, self.domain, unit))
            which = np.asarray(which, dtype=np.int64)
        loads = []
        for kind, noise in enumerate(noises):
            mine = None if which is None else np.flatnonzero(which == kind)
            if mine is not None and not len(mine):
                continue
            rows = queries if mine is None else queries[mine]
            sums = self._per_cell(rows, squared=not isinstance(noise, Laplace))
            loads.append(self._spread(load_of(noise, sums, sums, unit)))
        return loads

    def _per_cell(self, queries: Queries, *, squared: bool) -> NDArray[np.int64] | int:
        if not self.charge.tracked:  # one bound for all cells
            return int(queries.l2_squared if squared else queries.l1)
        if not squared and queries.constant_column_sum is not None:
            return int(queries.constant_column_sum)
        return np.asarray(queries.column_squares() if squared else queries.column_sums(), dtype=np.int64)

    def _spread(self, load: Load) -> Load:
        """Map a load on this view's cells to the cells of the whole table."""
        if self._everywhere:
            return load if isinstance(load.amounts, int) else Load(int(load.amounts.max(initial=0)), load.unit)
        if self._view is None or not self.charge.tracked:
            return load
        amounts = np.zeros(self.charge.cells, dtype=np.int64)
        amounts[self._view.cells] = load.amounts if isinstance(load.amounts, int) else load.amounts[self._view.groups]
        return Load(amounts, load.unit)

    def _answers(self, queries: Queries, of: str) -> NDArray[np.int64]:
        if type(queries) is Total:
            return np.array([self._aggregate.of(of).sum()], dtype=np.int64)
        if type(queries) is Cells:
            return self._aggregate.at(queries.codes, of)
        # Modulo 2^64, as the noise is added: an overflow must not be an error, for that would depend on the data.
        return np.asarray(queries.apply_wrapping(self._dense(of)), dtype=np.int64)  # a new array: never a view

    def _dense(self, of: str) -> NDArray[np.int64]:
        self._check_size(MOST_MEASURED)
        vector = np.zeros(self.domain.size, dtype=np.int64)
        vector[self._aggregate.cells] = self._aggregate.of(of)
        return vector
