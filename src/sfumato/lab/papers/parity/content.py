"""Release of a cube of noisy cells over bits, with the parity of the others that a label follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.answers.fieller import Functional, Interval, Term, ratio_interval
from sfumato.arrays import Whole
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.lab.papers.parity.parities import Learnt, as_cells, learn, odd, parity_doubt
from sfumato.measurement import Laplace
from sfumato.releases.contents.content import About, Written
from sfumato.releases.contents.cube import Cube
from sfumato.releases.file.manifest import Manifest, details_as
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import Text, record, refusal
from sfumato.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

SURE = 0.95  # a vector less sure than this is called a guess
FEWEST, MOST = 2, 20  # attributes, the label among them


@record
class ParityRecord:
    """Manifest of a parity: the label. The vector is learnt afresh from the cells."""

    label: Text


def why_no_bits(domain: Domain, label: str) -> str | None:
    """Why no parity of these attributes can be learnt, or None."""
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
        """The attributes that a vector has a bit for, in its order."""
        return tuple(name for name in self.domain.names if name != self.label)

    @cached_property
    def learnt(self) -> Learnt:
        """The vector that fits best. Made from what was published, so it costs nothing."""
        return learn(*self._by_label)

    @cached_property
    def doubt(self) -> float:
        """A bound on the chance that another vector fits the private table better; 1 where nothing is known."""
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
        """The share of all rows whose label the vector gives, were this vector named beforehand."""
        noise, cells = self.fits[0].measurements[0].noise, self.domain.size
        zeros, ones = self._by_label
        says = (odd(np.arange(len(zeros)) & self.learnt.vector) == 1) != self.learnt.opposite
        right, total = float(np.where(says, ones, zeros).sum()), float(zeros.sum() + ones.sum())
        terms = [Term.of(noise, cells // 2, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0), Term.of(noise, cells // 2, 0, 0, 0, 1, 1, 1)]
        return ratio_interval(
            Functional(right, right, right), Functional(total, total, total), terms, confidence, (0, 1)
        )

    def predict(self, rows: pa.Table, confidence: float) -> pa.Table:
        from sfumato.answers.answer import check_confidence
        from sfumato.lab.papers.predictions import share_of, with_predictions
        from sfumato.releases.rows.encode import NOWHERE, codes_in

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
