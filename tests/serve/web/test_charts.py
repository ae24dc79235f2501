"""What a chart's answer says of its groups."""

from __future__ import annotations

from math import nan

import pytest

from sfumato.answers.results import Estimate, Result
from sfumato.serve.web.charts import leading


def answer(*ends: tuple[float, float]) -> Result:
    rows = tuple(
        (place, Estimate((low + high) / 2, 1.0, low, high, 0.95, 1.0)) for place, (low, high) in enumerate(ends)
    )
    return Result(("x", "n"), rows, 0.95)


@pytest.mark.parametrize(
    ("ends", "highest", "lowest"),
    [
        (((0, 2), (5, 9), (10, 12)), True, True),
        (((0, 2), (5, 10), (10, 12)), False, True),
        (((0, 6), (5, 9), (10, 12)), True, False),
        (((0, 20), (5, 9), (10, 12)), False, False),
        (((0, 2), (nan, nan), (10, 12)), False, False),
        (((0, 2),), False, False),
        ((), False, False),
    ],
)
def test_a_group_is_the_highest_only_if_its_interval_lies_above_all_others(ends, highest, lowest):
    assert leading(answer(*ends), 1) == {"highest": highest, "lowest": lowest}
