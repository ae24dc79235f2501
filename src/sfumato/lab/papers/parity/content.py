"""Release of a cube of noisy cells over bits, with the parity of the others that a label follows.

For bits x, a label y and counts n(x, y), the fit of a vector v is C(v) = sum over x of (-1)^(v.x) (n(x, 0) - n(x, 1)):
the rows whose label is the parity v.x, less those whose label is its opposite. The fast Walsh-Hadamard transform gives
all of them at once; the best fit has the largest |C(v)|. The bound on the chance that another vector fits the private
table better holds for every table (docs/parity.md, "How sure that is").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from math import exp, log, log1p, sqrt
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.answers.fieller import Interval
from sfumato.answers.noise_sum import MOMENTS, check_confidence, half_width
from sfumato.arrays import Floats, Whole
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.lab.papers.forms import noisy_share, share_of, with_predictions
from sfumato.measurement import Laplace
from sfumato.releases.contents.content import About, Written
from sfumato.releases.contents.cube import Cube
from sfumato.releases.file.manifest import Manifest, details_as
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import Text, record, refusal
from sfumato.releases.rows.coding import NOWHERE, codes_in
from sfumato.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Learnt:
    """Parity of best fit. vector: a bit for each attribute but the label, the first one highest.

    opposite: whether the label is 1 where the parity is 0. lead: its |C(v)|. gap: by how much it is ahead of the next.
    """

    vector: int
    opposite: bool
    lead: float
    gap: float


def transformed(values: Whole) -> Whole:
    """Walsh-Hadamard transform of integers whose number is a power of two, exact.

    >>> transformed(np.array([3, 1])).tolist()
    [4, 2]
    """
    found = np.array(values, dtype=np.int64)
    step = 1
    while step < len(found):
        pairs = found.reshape(-1, 2, step)
        found = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        step *= 2
    return found


def learn(zeros: Whole, ones: Whole) -> Learnt:
    """Non-zero vector of best fit, from noisy counts by the bits x (first attribute highest) of either label."""
    fits = transformed(zeros - ones)
    sizes = np.abs(fits)
    sizes[0] = -1  # a label that never changes is no parity
    best = int(sizes.argmax())
    lead = int(sizes[best])
    sizes[best] = -1
    return Learnt(best, bool(fits[best] < 0), float(lead), float(lead - max(0, int(sizes.max()))))


def odd(bits: Whole) -> Whole:
    """Parity of the number of ones in each integer: 1 if odd.

    >>> odd(np.array([0, 1, 3, 7])).tolist()
    [0, 1, 0, 1]
    """
    for shift in (32, 16, 8, 4, 2, 1):
        bits = bits ^ (bits >> shift)
    return np.asarray(bits & 1, dtype=np.int64)


def as_cells(counts: Floats | Whole, place: int, attributes: int) -> tuple[Whole, Whole]:
    """Split the counts of all cells, last attribute fastest, by label: counts by the other bits, twice.

    place: of the label among the attributes.
    """
    grid = np.moveaxis(np.asarray(counts).reshape((2,) * attributes), place, -1)
    flat = np.asarray(grid.reshape(-1, 2), dtype=np.int64)
    return flat[:, 0].copy(), flat[:, 1].copy()


AT_MOST = 0.999  # of the moment at which a Laplace noise has none: the bound is sought below it
CLOSE = 1000  # parts of a number of rows that nobody tells apart
TINY, HALVINGS = 1e-9, 20  # below the first Chernoff's bound will do; above it, steps of a search


def parity_doubt(lead: float, gap: float, cells: int, noise: Laplace) -> float:
    """Upper bound on the probability that another vector fits the true table better, given this lead.

    lead: |C(v)| of the one that was found. gap: to the next.

    >>> from fractions import Fraction
    >>> parity_doubt(100.0, 0.0, 16, Laplace(Fraction(1))), parity_doubt(100.0, 90.0, 16, Laplace(Fraction(1))) < 1e-6
    (1.0, True)
    """
    others = cells - 4  # every vector of one bit less, but 0 and the one found, and each opposite
    beyond = others * tail(noise, cells // 2, gap / 2.0) if others else 0.0
    return min(1.0, 2.0 * max(beyond, tail(noise, cells, lead)))


def enough_ahead(cells: int, noise: Laplace, doubt: float) -> int:
    """Lead over the next vector, in rows, that bounds `parity_doubt` by `doubt`; nearly the least.

    >>> from fractions import Fraction
    >>> enough_ahead(16, Laplace(Fraction(1)), 0.05)
    25
    """
    low, high = 0, 1
    while parity_doubt(high, high, cells, noise) > doubt:
        low, high = high, 2 * high
    while high - low > max(1, high // CLOSE):
        middle = (low + high) // 2
        low, high = (low, middle) if parity_doubt(middle, middle, cells, noise) <= doubt else (middle, high)
    return high


def tail(noise: Laplace, many: int, beyond: float) -> float:
    """Upper bound on P(sum of so many noises >= beyond).

    Where it is tiny, Chernoff's at the best of 25 moments; else what the distribution of the sum gives, rounded up.

    >>> from fractions import Fraction
    >>> tail(Laplace(Fraction(1)), 4, 0.0), round(tail(Laplace(Fraction(1)), 4, 5.0), 3)
    (1.0, 0.048)
    """
    if beyond <= 0.0:
        return 1.0
    if noise.variance == 0.0:  # of a budget so large that there is no noise
        return 0.0
    # Up to the moment that suits a normal sum and a half more, below the one at which a single noise has none.
    limit = min(AT_MOST / float(noise.scale), 1.5 * beyond / (noise.variance * many))
    moments = limit * np.append(MOMENTS, 1.0)
    growth = np.array([-many * log1p(-min(_drop(noise, moment), 1.0 - 1e-15)) for moment in moments])
    bound = min(1.0, exp(float((growth - moments * beyond).min())))
    if bound < TINY:
        return bound
    low, high = log(TINY / 10.0), log(0.5)  # a symmetric sum reaches a positive number half of the time at most
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        reached = half_width([(1.0, noise, many)], 1.0 - 2.0 * exp(middle)) < beyond
        low, high = (low, middle) if reached else (middle, high)
    return min(bound, exp(high))


def _drop(noise: Laplace, moment: float) -> float:
    """1 minus 1 over the moment generating function: 2 variance sinh(moment / 2)^2."""
    root = sqrt(2.0 * noise.variance) * float(np.sinh(moment / 2.0))  # whose parts, squared, need not be numbers
    return root * root


SURE = 0.95  # a vector less sure than this is called a guess
FEWEST, MOST = 2, 20  # attributes, the label among them


@record
class ParityRecord:
    """Manifest of a parity: the label. The vector is learnt afresh from the cells."""

    label: Text


def why_no_bits(domain: Domain, label: str) -> str | None:
    """Reason why no parity of these attributes can be learnt, or None."""
    if label not in domain:
        return f"there is no attribute {label!r} to be the label; there are {', '.join(domain.names)}"
    wide = next((axis for axis in domain if axis.size != 2), None)
    if wide is not None:
        kept = ", one of them for missing values" if wide.missing else ""
        return f"a parity is of bits, and {wide.name} has {wide.size:,} cells{kept}; list two values, or leave it out"
    if not FEWEST <= len(domain.axes) <= MOST:
        return f"a parity is sought among {FEWEST} to {MOST} attributes, and there are {len(domain.axes)}"
    return None


@dataclass(frozen=True, eq=False)
class ParityCube(Cube):
    """Noisy cells; label: the attribute that may be a parity of the others."""

    uses: ClassVar[frozenset[str]] = frozenset({"details"})

    label: str = ""

    @property
    def others(self) -> tuple[str, ...]:
        """Attributes behind the bits of a vector, in order."""
        return tuple(name for name in self.domain.names if name != self.label)

    @cached_property
    def learnt(self) -> Learnt:
        """Vector of best fit to the noisy cells (post-processing)."""
        return learn(*self._by_label)

    @cached_property
    def doubt(self) -> float:
        """Upper bound on the probability that another vector fits the private table better; 1 where unknown."""
        noise = self.fits[0].measurements[0].noise
        assert isinstance(noise, Laplace)  # noqa: S101 (checked in files too)
        return parity_doubt(self.learnt.lead, self.learnt.gap, self.domain.size, noise)

    @property
    def _by_label(self) -> tuple[Whole, Whole]:
        counted = self.fits[0].measurements[0].answers
        return as_cells(counted, self.domain.place(self.label), len(self.domain.axes))

    @property
    def vector(self) -> str:
        """The vector's bits, in the order of `others`."""
        return f"{self.learnt.vector:0{len(self.others)}b}"

    def agreement(self, confidence: float = 0.95) -> Interval:
        """Share of rows whose label is the vector's parity, as an interval for a vector fixed beforehand."""
        half, (zeros, ones) = self.domain.size // 2, self._by_label
        says = (odd(np.arange(len(zeros)) & self.learnt.vector) == 1) != self.learnt.opposite
        right, wrong = (float(np.where(chosen, ones, zeros).sum()) for chosen in (says, ~says))
        return noisy_share(self.fits[0].measurements[0].noise, (right, half), (wrong, half), confidence)

    def predict(self, rows: pa.Table, confidence: float) -> pa.Table:
        check_confidence(confidence)
        codes = codes_in(rows, self.schema, self.others)
        used = [name for name, bit in zip(self.others, self.vector, strict=True) if bit == "1"]
        bits = sum((codes[name] for name in used), np.zeros(rows.num_rows, dtype=np.int64)) % 2
        known = np.all([codes[name] != NOWHERE for name in used], axis=0).tolist()
        values = [self.domain[self.label].label(int(bit ^ self.learnt.opposite)) for bit in (0, 1)]
        said = [values[bit] if sure else None for bit, sure in zip(bits.tolist(), known, strict=True)]
        share = share_of(self.agreement(confidence))
        return with_predictions(rows, said, [share if sure else None for sure in known])

    @property
    def about(self) -> About:
        return replace(super().about, findings=tuple(self._findings()))

    def _findings(self) -> list[str]:
        learnt, axis = self.learnt, self.domain[self.label]
        named = " + ".join(name for name, bit in zip(self.others, self.vector, strict=True) if bit == "1")
        rule = f"{self.label} is {axis.label(0 if learnt.opposite else 1)} where {named} is odd: vector {self.vector}"
        bits = f"bits of {', '.join(self.others)}; the value listed second is 1"
        sure = _percent(self.doubt)
        if self.doubt > 1.0 - SURE:
            return [f"No vector stands out of the noise; the best guess, with confidence {sure}: {rule} ({bits})."]
        share = self.agreement()
        return [
            f"{rule} ({bits}).",
            f"No other vector fits the private table better, with confidence {sure}, whatever the table.",
            f"The label of {100 * share.value:.2f} % of the rows is what it says, 95 % interval {100 * share.low:.2f} "
            f"to {100 * share.high:.2f} %.",
        ]

    def write(self) -> Written:
        plain = super().write()
        return Written("parity", plain.statistics, plain.members, {"details": {"label": self.label}})

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        super().check(manifest, schema)
        if why_no_bits(schema.domain, details_as(ParityRecord, manifest).label) is not None:
            raise refusal("its attributes are not the bits that its kind needs")
        if any(one.noise is None or not isinstance(one.noise.noise, Laplace) for one in manifest.statistics):
            raise refusal("its noise is not the one that its kind has")

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> ParityCube:
        cube = Cube.read(manifest, schema, member)
        return cls(schema, cube.fits, details_as(ParityRecord, manifest).label)


def _percent(doubt: float) -> str:
    """Confidence in percent, never rounded up."""
    return "more than 99.9999 %" if doubt < 1e-6 else f"{np.floor((1.0 - doubt) * 1e6) / 1e4:.10g} %"
