"""Cells that were measured one by one: the estimate is what was published, and its error the noise on it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sfumato.answers.fit import Arrays, Errors, FitReader, OfOneMeasurement, Unbiased
from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement


@dataclass(frozen=True, eq=False)
class NoisyCells(Unbiased, OfOneMeasurement):
    """A measurement of every cell by itself, all with the same noise."""

    family = "noisy-cells"  # in no table: a file keeps such cells as they are
    room = 1

    measurement: Measurement

    @cached_property
    def estimate(self) -> Floats:
        return self.measurement.answers.astype(np.float64)

    def errors(self, columns: Floats) -> Errors:
        sums = columns.shape[1]
        return Errors(self.measurement.design, columns, np.zeros((sums, sums)), np.zeros(sums, dtype=bool))

    def record(self, domain: Domain) -> Arrays:
        return {}

    @classmethod
    def read(cls, file: FitReader) -> NoisyCells:
        return cls(file.measurement(len(file.estimate)))
