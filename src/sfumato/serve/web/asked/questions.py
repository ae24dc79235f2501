"""What may be asked, field by field. Bodies are checked against this, and the OpenAPI document is made from it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from sfumato.serve.web.refusals import Refusal

Name = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Label = str | int | bool | None
Interval = Literal["typical", "guaranteed", "both"]
Amount = Literal["count", "share", "sum", "average", "median"]
PLAIN: tuple[Amount, ...] = ("count", "share")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Manner(_Body):
    """How sure an answer is to be."""

    confidence: float = Field(0.95, ge=0.01, le=0.99999, description="How sure the intervals are.")
    interval: Interval = Field("typical", description="typical: right on average over questions; guaranteed: always.")
    possible: bool = Field(False, description="End intervals where no table can go further.")
    simultaneous: bool = Field(False, description="Intervals that hold for all rows of the answer together.")
    selected: bool = Field(True, description="Intervals that allow for rows chosen by noisy values, as by LIMIT.")
    unbiased: bool = Field(False, description="Counts and sums as measured, without what a model made of them.")

    @property
    def slow(self) -> bool:
        """Whether its intervals take much longer than usual ones."""
        return self.interval != "typical" or self.simultaneous


class Query(Manner):
    """A statement in SQL."""

    sql: Annotated[str, StringConstraints(min_length=1, max_length=20_000)]
    strict: bool = Field(False, description="Refuse answers that depend on how rows are spread inside a bin.")


class Filter(_Body):
    """Rows with some values of one attribute: those that are listed, or all cells from `first` to `last`."""

    attribute: Name
    labels: Annotated[list[Label], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="Values or bins, as the description of the release lists them."
    )
    first: Label = Field(None, description="A value or bin of an ordered attribute; none: from its beginning.")
    last: Label = Field(None, description="A value or bin, which is included; none: to its end.")

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.labels is not None and (self.first is not None or self.last is not None):
            raise Refusal("invalid", "a filter has labels or first and last, not both", "leave one of them out")
        return self


Filters = Annotated[list[Filter], Field(max_length=50)]


class Chart(Manner):
    """A number for every value of up to two attributes."""

    by: Annotated[list[Name], Field(max_length=2)] = Field(default=[], description="Up to two attributes.")
    amount: Amount = "count"
    of: Name | None = Field(None, description="Which column is summed or averaged.")
    where: Filters = Field(default=[])


class Compare(Manner):
    """One number in two groups, and what can be said of their difference."""

    first: Filters
    second: Filters
    amount: Amount = "count"
    of: Name | None = Field(None, description="Which column is summed or averaged.")
    having: Filters = Field(default=[], description="Of a share: whose share in each group.")
