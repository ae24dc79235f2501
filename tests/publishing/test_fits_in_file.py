"""What no file could hold is refused beforehand, in words that say what to do."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.errors import BudgetError, MechanismError, ReleaseFileError, SchemaError, SfumatoError
from sfumato.kernel.budget import Cost
from sfumato.models import MECHANISMS
from sfumato.models.base.mechanism import Forecast, Mechanism
from sfumato.planner.plan import make_plan
from sfumato.publishing.fits_in_file import check_writable
from sfumato.queries import Identity, Stack, Total, Workload, default_workload
from sfumato.queries.strategy import Strategy
from sfumato.schema import Schema


def schema(upper: int = 99, **more) -> Schema:
    ages = {"age": {"type": "integer", "lower": 0, "upper": upper}}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": ages, **more})


def linear(queries) -> Mechanism:
    return Mechanism(
        "asks",
        "what it is told to",
        lambda *_: None,
        gaussian=True,
        forecast=Forecast(strategy=lambda *_: Strategy(queries)),
    )


FREE = Mechanism("free", "not linear", lambda *_: None)


def check(public: Schema, mechanism: Mechanism, epsilon="1", delta=None) -> None:
    check_writable(public, Cost.stated(epsilon, delta), mechanism, default_workload(public.domain))


@pytest.mark.parametrize("delta", [None, "1e-6"])
def test_what_can_be_written_passes(delta):
    public = schema(measures={"charge": {"lower": 0, "upper": 10, "step": "0.01"}})
    check(public, linear(Stack(Identity(100), Total(100))), delta=delta)
    for mechanism in (MECHANISMS["cells"], MECHANISMS["sparse-cells"], FREE):
        check(public, mechanism)


def refused(kind: type[SfumatoError], words: str, *arguments) -> None:
    with pytest.raises(kind, match=words) as caught:
        check(*arguments)
    assert "\n" not in str(caught.value)


def test_noise_beyond_64_bits():
    fine = schema(measures={"charge": {"lower": 0, "upper": 10}})
    for mechanism in (linear(Identity(100)), MECHANISMS["cells"], MECHANISMS["sparse-cells"], FREE):
        refused(BudgetError, "64 bits", schema(), mechanism, "1e-16")
        refused(BudgetError, "64 bits", fine, mechanism, "1e-7")
    refused(BudgetError, "64 bits", schema(), linear(Identity(100)), "1e-9", "1e-20")
    refused(BudgetError, "give the measure `step: ", fine, linear(Identity(100)), "1", "1e-6")


def test_numbers_of_too_many_digits():
    long = Fraction(10**99, 10**99 + 7)
    for mechanism in (linear(Identity(100)), MECHANISMS["cells"], FREE):
        check(schema(), MECHANISMS["cells"], Fraction(10**40, 10**40 + 7))
        refused(ReleaseFileError, "digits", schema(measures={"m": {"lower": 0, "upper": 9999}}), mechanism, long)


def test_lists_of_values_that_are_too_long():
    """`plan` and a release say so alike, with both numbers; lists of 200,000 values are fine."""

    def listing(number: int, letters: int) -> Schema:
        values = [f"{'x' * letters}{n}" for n in range(number)]
        return Schema.from_dict({**schema().to_dict(), "attributes": {"a": {"type": "category", "values": values}}})

    long, message = listing(60_000, 300), r"take 1[89],\d\d\d,\d\d\d bytes .*15,099,494 is the most; .* of a \(60,000"
    for refuses in (lambda: check(long, MECHANISMS["cells"]), lambda: make_plan(long, epsilon=1)):
        with pytest.raises(SchemaError, match=message):
            refuses()
    check(listing(200_000, 12), MECHANISMS["margins"])


def test_queries_of_too_many_kinds():
    many = Stack(*(Total(100) for _ in range(6000)))
    refused(MechanismError, "shorter --workload", schema(), linear(many))
    check(schema(), linear(many[:50]))


def test_more_numbers_than_a_file_holds():
    large = schema(9_999_999)
    measures = {f"m{n}": {"lower": 0, "upper": 1, "step": 1} for n in range(16)}
    wide = schema(9_999_999, measures=measures)
    check(large, linear(Identity(large.domain.size)))
    refused(MechanismError, "use cells", wide, linear(Identity(wide.domain.size)))
    refused(MechanismError, "use cells", wide, FREE)
    check_writable(wide, Cost.stated(1), MECHANISMS["cells"], Workload(("all",), (Total(wide.domain.size),)))
