"""An answer and how far it may be off."""

from __future__ import annotations

from sfumato.frozen import dataclass


@dataclass(frozen=True)
class Estimate:
    """A value, its standard error, and an interval that holds the truth with the stated confidence.

    noise: the part of the standard error that comes from the privacy noise. model: the part that comes from an
    assumption about how rows are spread, inside cells or over cells; 0 where no assumption was needed. dates: whether
    value, low and high count days since 1970-01-01; timed: whether these have a time of day. real: of a difference,
    whether its interval excludes zero, so that the noise alone did not make it; None where the answer is not one. sure:
    the ends of the guaranteed interval, where both kinds were asked for.
    """

    value: float
    stderr: float
    low: float
    high: float
    confidence: float
    noise: float
    model: float = 0.0
    dates: bool = False
    timed: bool = False
    real: bool | None = None
    sure: tuple[float, float] | None = None

    @property
    def source(self) -> str:
        """Where the error comes from, in words."""
        return "privacy noise" if self.model == 0 else "privacy noise and how rows are taken to be spread"
