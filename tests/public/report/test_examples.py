"""Examples are what they are said to be: sure, apart, overlapping, lost."""

from __future__ import annotations

from sfumato.answers.results import Estimate
from sfumato.public.report.distributions import Distribution, cut
from sfumato.public.report.reading import examples, reading
from sfumato.schema import Schema


def distribution(*counts: tuple[float, float]) -> Distribution:
    values = [f"<{place}>" for place in range(len(counts))]
    schema = {"dataset": "t", "privacy_unit": "row", "attributes": {"kind": {"type": "category", "values": values}}}
    axis = Schema.from_dict(schema).domain["kind"]
    found = tuple(Estimate(value, half / 2, value - half, value + half, 0.9, half / 2) for value, half in counts)
    return Distribution(cut(axis, len(counts)), found)


def test_each_example_is_what_it_is_said_to_be():
    found = examples([distribution((1000.0, 20.0), (500.0, 20.0), (490.0, 20.0), (5.0, 20.0))])
    assert found.sure.label == "<0>"
    assert [one.label for one in found.differ] == ["<0>", "<1>"]
    assert [one.label for one in found.alike] == ["<1>", "<2>"]
    assert found.lost.label == "<3>"


def test_what_is_not_known_is_no_example():
    assert examples([distribution((5.0, float("inf")))]) is None and reading([], 0.95) is None
    alone = examples([distribution((1000.0, 20.0))])
    assert alone.differ is alone.alike is alone.lost is None


def test_it_is_said_with_the_numbers_of_the_release():
    page = reading([distribution((1000.0, 20.0), (500.0, 20.0), (5.0, 20.0))], 0.9)
    assert "between 980 and 1,020" in page and "Of 10 statements" in page
    assert "anything from 0 to 25" in page and "&lt;0&gt;" in page
