"""A condition is read as every WHERE is, and anything besides is refused."""

from __future__ import annotations

import pytest

from sfumato.errors import SfumatoError
from sfumato.lab.papers.pac.content import condition_of, holds_in_cells
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {"age": {"type": "integer", "lower": 0, "upper": 9, "bins": 5}, "ill": {"type": "boolean"}},
    }
)


@pytest.mark.parametrize(
    ("text", "inside"),
    [("age >= 4", [0, 0, 1, 1, 1]), ("age < 2 OR age >= 8", [1, 0, 0, 0, 1]), ("1 = 1", [1] * 5), ("1 = 0", [0] * 5)],
)
def test_it_holds_where_sql_says(text, inside):
    assert holds_in_cells(condition_of(text, SCHEMA), SCHEMA.domain.along(["age"])).tolist() == [x == 1 for x in inside]


@pytest.mark.parametrize(
    "text",
    ["", " ", "age >= 3", "nobody = 1", "age", "1=1) GROUP BY (ill", "1=1; DROP TABLE t", "COUNT(*) > 3", "x" * 3000],
)
def test_anything_else_is_refused(text):
    with pytest.raises(SfumatoError):
        condition_of(text, SCHEMA)
