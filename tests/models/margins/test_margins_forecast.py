"""What margins are expected to be off by, before any data is read."""

from __future__ import annotations

from math import sqrt

import pytest

from sfumato.kernel.budget import Budget, Cost
from sfumato.models.margins.measure import MECHANISM
from sfumato.models.margins.views import FOR_TABLES, Forecast, foresee
from sfumato.queries import AllRanges, Identity, Ranges, Stack, Total, default_workload
from sfumato.queries.kron import over
from sfumato.schema import Schema


def schema_of(*sizes: int, rows: int | None = 50_000, unit: object = "row") -> Schema:
    attributes = {f"a{i}": {"type": "category", "values": [str(v) for v in range(n)]} for i, n in enumerate(sizes)}
    keys = {"dataset": "t", "privacy_unit": unit, "attributes": attributes}
    return Schema.from_dict(keys | ({} if rows is None else {"expected_rows": rows}))


def test_pairs_tell_their_attributes_and_the_total():
    """Three attributes of 2, 3 and 4 values: three pairs, each with a third of the tables' budget."""
    forecast = Forecast.of(schema_of(2, 3, 4), Budget.pure(3))
    each = (FOR_TABLES * 3 / 3) ** 2 / 2
    whole = (FOR_TABLES * 3) ** 2 / 2 / 24
    assert forecast.noise((0, 1)) == pytest.approx(1 / max(each, whole * 6))
    assert forecast.noise((0,)) == pytest.approx(1 / max(each / 3 + each / 4, whole * 2))
    assert forecast.noise(()) == pytest.approx(1 / max(each / 6 + each / 8 + each / 12, whole))


def test_a_larger_budget_and_more_rows_do_not_make_errors_relatively_larger():
    schema = schema_of(5, 6, 7, 8)
    small, large = (foresee(schema, Budget.pure(epsilon)) for epsilon in (1, 4))
    usual = default_workload(schema.domain)
    assert set(small.by_kind) == {"all rows", "one attribute", "two attributes", "three attributes"}
    assert all(large.by_kind[kind] < error for kind, error in small.by_kind.items())
    assert large.overall(usual) < small.overall(usual) and set(small.one_way) == {"a0", "a1", "a2", "a3"}


def test_people_with_several_rows_cost_as_many_times_more():
    three = {"column": "who", "contributions": 3}
    one, many = (foresee(schema_of(5, 6, 7, unit=unit), Budget.pure(1)) for unit in ("row", three))
    assert many.by_kind["all rows"] == pytest.approx(3 * one.by_kind["all rows"])


def test_a_delta_buys_more_the_more_attributes_there_are():
    """Noise grows with the number of pairs under pure epsilon, with its root under the other."""
    gains = []
    for attributes in (8, 32):
        schema = schema_of(*[4] * attributes)
        pure, gaussian = (foresee(schema, Cost.stated(1, delta).budget).one_way["a0"] for delta in (None, "1e-9"))
        gains.append(pure / gaussian)
    assert gains[1] / gains[0] == pytest.approx(sqrt((32 * 31) / (8 * 7)), rel=0.01)


def test_a_hundred_attributes_are_foretold_and_one_is_too():
    wide = foresee(schema_of(*[10] * 100), Budget.pure(1))
    assert wide.overall(None) > 0 and len(wide.one_way) == 100
    alone = foresee(schema_of(10, rows=None), Budget.pure(1))
    assert set(alone.by_kind) == {"all rows", "one attribute"} and alone.overall(None) > 0


def test_any_block_of_queries_is_foretold_by_the_attributes_it_names_and_the_values_it_sums():
    schema = schema_of(4, 9, 3)
    domain, forecast = schema.domain, Forecast.of(schema, Budget.pure(1))
    sizes, of_block = domain.shape, foresee(schema, Budget.pure(1)).of_block
    assert of_block(Total(domain.size)) == pytest.approx(forecast.error((), {}))
    ranges = over(domain, {"a1": AllRanges(sizes[1])})
    assert of_block(ranges) == pytest.approx(forecast.error((1,), {1: (sizes[1] + 2) / 3}))
    cells = Identity(domain.size)
    assert of_block(cells) == pytest.approx(forecast.error((0, 1, 2), {}))
    half = over(domain, {"a0": Ranges(sizes[0], [0], [1]), "a2": Identity(sizes[2])})
    assert of_block(half) == pytest.approx(forecast.error((0, 2), {0: 2.0}))
    both = (ranges.rows * of_block(ranges) ** 2 + cells.rows * of_block(cells) ** 2) / (ranges.rows + cells.rows)
    assert of_block(Stack(ranges, cells)) == pytest.approx(sqrt(both))


def test_the_total_of_a_measure_is_foretold_from_all_tables_of_its_sums():
    """One attribute of two values: all of the measure's quarter of the budget goes to the two sums."""
    keys = {"dataset": "t", "privacy_unit": "row", "attributes": {"a": {"type": "boolean"}}}
    schema = Schema.from_dict(keys | {"measures": {"pay": {"lower": 0, "upper": 100}}})
    found = MECHANISM.forecast.foretold(schema, Budget.pure(1))
    cells = schema.domain.size
    assert found.of_sums == {"pay": pytest.approx(50 * sqrt(2 * 4**2 * cells))}
