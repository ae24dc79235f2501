"""One form of predictions for every model."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from curators import curator_of

from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.lab.papers.forms import PREDICTED, with_predictions
from sfumato.models import find_mechanism
from sfumato.schema import Schema

BITS = Schema.from_dict(
    {"dataset": "t", "privacy_unit": "row", "attributes": {name: {"type": "boolean"} for name in "abc"}}
)


@pytest.mark.parametrize("name", ["sq", "pac", "parity"])
def test_every_learner_adds_the_same_four_columns_of_the_same_types(name):
    counts = np.array([[[400, 20], [30, 300]], [[20, 350], [500, 10]]])  # c is about a XOR b
    content = find_mechanism(name).run(curator_of(BITS, counts, epsilon=50), BITS, Budget.pure(50), None)
    found = content.predict(pa.table({"a": [True, False], "b": [False, False]}), 0.95)
    assert tuple(found.column_names) == ("a", "b", *PREDICTED)
    assert [str(found.schema.field(one).type) for one in PREDICTED] == ["bool", "double", "double", "double"]
    for row in found.to_pylist():
        assert 0 <= row["probability_low"] <= row["probability"] <= row["probability_high"] <= 1
    if name == "parity":
        assert found.column("predicted").to_pylist() == [True, False]
        assert found.column("probability")[0].as_py() == pytest.approx(1550 / 1630, abs=0.01)
    with pytest.raises(QueryError, match="a column 'predicted' already"):
        content.predict(pa.table({"a": [True], "b": [False], "predicted": [1]}), 0.95)


def test_what_is_not_known_is_null():
    found = with_predictions(pa.table({"x": [1, 2]}), ["yes", None], [(0.5, float("nan"), None), None]).to_pylist()
    assert found[0] == {
        "x": 1,
        "predicted": "yes",
        "probability": 0.5,
        "probability_low": None,
        "probability_high": None,
    }
    assert found[1]["predicted"] is None and found[1]["probability"] is None
