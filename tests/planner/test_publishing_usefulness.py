"""What would tell nothing is refused before anything is reserved, unless it is meant."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

from sfumato.errors import BudgetError
from sfumato.kernel.budget import Budget
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.models import find_mechanism
from sfumato.planner.forecast import one_way_forecast
from sfumato.planner.marginal_errors import one_way_errors
from sfumato.planner.plan import make_plan
from sfumato.publishing.prepare import Request, prepare
from sfumato.publishing.publish import release
from sfumato.queries import default_workload
from sfumato.schema import Schema


def schema_of(rows, size=50):
    attributes = {name: {"type": "integer", "lower": 0, "upper": size - 1} for name in ("x", "y")}
    fields = {"dataset": "t", "privacy_unit": "row", "budget": {"epsilon": 5}, "attributes": attributes}
    return Schema.from_dict(fields | ({} if rows is None else {"expected_rows": rows}))


@pytest.mark.parametrize("mechanism", ["cells", "hierarchical", "sfumato", "auto"])
def test_noise_alone_is_refused_and_nothing_is_spent(mechanism, tmp_path):
    """200 rows over 50 values are 4 each; at epsilon 0.05 the noise on one count alone is 28."""
    ledger, table = tmp_path / "l.sqlite", pa.table({"x": [1, 2, 3], "y": [1, 2, 3]})
    with pytest.raises(BudgetError, match=r"useless.*--even-if-useless"):
        release(table, schema_of(200), "0.05", mechanism=mechanism, ledger=ledger)
    assert not ledger.exists()
    release(table, schema_of(200), "0.05", mechanism=mechanism, ledger=ledger, even_if_useless=True)
    assert float(Ledger(ledger).account("t").spent) == 0.05


def test_one_that_adapts_is_refused_by_the_forecast_that_its_plan_shows():
    """Where noise on a full table drowns every value, and what is empty leaves enough of them, it is not refused."""
    schema, budget = schema_of(1000, 40), Budget.pure(Fraction(1, 4))
    mine, workload = find_mechanism("sfumato"), default_workload(schema.domain)
    full = one_way_errors(schema, mine, workload, budget)
    shown = one_way_forecast(mine, schema, workload, budget)
    assert min(full.values()) > 25 > min(shown.values())  # rows of a value
    prepare(Request(schema, "0.25", mechanism="sfumato"))
    (lines,) = (one.lines for one in make_plan(schema, epsilon="0.25", mechanism="sfumato").outlooks)
    by_query = {line.query: line.stderr for line in lines}
    assert by_query["COUNT(*) ... GROUP BY x"] == pytest.approx(shown["x"])


@pytest.mark.parametrize(("rows", "epsilon"), [(None, "0.05"), (10**6, "0.05"), (2000, 5)])
def test_what_is_of_use_or_unknown_is_not_refused(rows, epsilon):
    prepare(Request(schema_of(rows), epsilon, mechanism="hierarchical"))


def test_cells_above_a_threshold_need_rows_to_reach_it():
    wide = schema_of(300, 10**5)
    with pytest.raises(BudgetError, match="only cells with"):
        prepare(Request(wide, 1))
    prepare(Request(schema_of(10**8, 10**5), 1))


def test_one_attribute_that_stands_out_is_enough():
    """1,000 values of x are noise, two of y are not."""
    fields = {"x": {"type": "integer", "lower": 0, "upper": 999}, "y": {"type": "boolean"}}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": fields, "expected_rows": 2000})
    prepare(Request(schema, 1, mechanism="cells"))
