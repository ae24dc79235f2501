"""Publishing linked tables: one reservation, parts that add up to it, and nothing read before it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import BudgetExhausted, PrivacyError, QueryError, RepeatedRelease, TableError
from sfumato.kernel.budget import Budget, Cost
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.opening import Share, Terms, check_shares
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.planner.plan import make_plan
from sfumato.publishing.linked import open_tables, prepare_linked, publish_linked, rehearse_linked
from sfumato.publishing.prepare import Request
from sfumato.publishing.publish import release
from sfumato.releases.file.linked import open_linked
from sfumato.releases.release import open_release
from sfumato.schema import Schema
from sfumato.schema.linked import LinkedSchema

TABLES: dict[str, Any] = {
    "persons": {"unit": "home", "key": "pid", "attributes": {"age": {"type": "integer", "lower": 0, "upper": 3}}},
    "visits": {
        "belongs_to": "persons",
        "by": "pid",
        "at_most": 4,
        "share": 3,
        "with_parents": ["age"],
        "attributes": {"kind": {"type": "category", "values": ["a", "b"]}},
    },
}
KEYS = {
    "dataset": "town",
    "privacy_unit": {"column": "home", "contributions": 2},
    "budget": {"epsilon": 40, "delta": "1e-6"},
    "tables": TABLES,
}
TOWN = LinkedSchema.from_dict(KEYS)


def rows(many: int = 4_000) -> dict[str, pa.Table]:
    random = np.random.default_rng(5)
    who = np.repeat(np.arange(many), 2)
    persons = {"home": np.arange(many) // 2, "pid": np.arange(many), "age": random.integers(0, 4, many)}
    return {"persons": pa.table(persons), "visits": pa.table({"pid": who, "kind": ["a", "b"] * many})}


def asked(tmp_path: Path, epsilon: Any = 8, **more: Any) -> Request:
    return Request(TOWN.head, epsilon, ledger=Ledger(tmp_path / "ledger"), **{"mechanism": "cells", **more})


def published(tmp_path: Path, request: Request, base: Any = None, name: str = "town.sfumato", seed: int = 3) -> Any:
    base = rows() if base is None else base
    return publish_linked(base, TOWN, request, tmp_path / name, step=lambda step: None, entropy=TestingEntropy(seed))


def test_one_entry_in_the_ledger_and_parts_by_share_that_add_up_to_it(tmp_path: Path) -> None:
    request = asked(tmp_path)
    made = published(tmp_path, request)
    (entry,) = request.ledger.entries("town")
    assert (entry.epsilon, entry.delta, entry.state, entry.contributions) == (8, 0, "published", 2)
    assert {name: one.guarantee.epsilon for name, one in made.tables.items()} == {"persons": 2, "visits": 6}
    file = open_linked(tmp_path / "town.sfumato")
    assert [part.epsilon for part in file.head.parts] == [2, 6]
    assert [table.limit for table in file.head.tables] == [2, 8]
    assert not list(tmp_path.glob(".*"))  # parts were put together, and are gone


def test_a_mapping_is_a_schema_of_one_table_or_of_several(tmp_path: Path) -> None:
    ledger, tables = tmp_path / "ledger", rows(40)
    made = release(tables, KEYS, 8, mechanism="cells", ledger=ledger)
    assert made.guarantee.epsilon == 8 and list(made.tables) == ["persons", "visits"]
    one = {
        "dataset": "p",
        "privacy_unit": "row",
        "budget": {"epsilon": 1},
        "attributes": TABLES["persons"]["attributes"],
    }
    assert release(tables["persons"], one, 1, ledger=ledger).schema == Schema.from_dict(one)
    assert make_plan(one, epsilon=1).mechanism == make_plan(Schema.from_dict(one), epsilon=1).mechanism


def test_answers_are_those_of_the_tables(tmp_path: Path) -> None:
    """Noise of cells has scale limit / epsilon, 1 and 4/3, summed over 4 and 8 cells: 10 and 16 times its error."""
    published(tmp_path, asked(tmp_path))
    release = open_release(tmp_path / "town.sfumato", allow_not_private=True)
    for name, true, most in (("persons", 4_000, 60), ("visits", 8_000, 90)):
        found = float(str(release.query(f"SELECT COUNT(*) AS n FROM {name}").records()[0]["n"]))
        assert abs(found - true) < most


def test_with_a_delta_it_is_rho_that_adds_up(tmp_path: Path) -> None:
    request = asked(tmp_path, 2, delta="1e-6", mechanism="margins")
    prepared = prepare_linked(rows(), TOWN, request)
    parts = [one.cost.budget.rho for one in prepared.tables.values()]
    assert sum(part for part in parts if part is not None) == prepared.cost.budget.rho
    assert prepared.cost.epsilon == 2 and prepared.cost.delta == Fraction(1, 10**6)


def test_where_no_table_needs_the_delta_none_is_charged(tmp_path: Path) -> None:
    prepared = prepare_linked(rows(), TOWN, asked(tmp_path, 2, delta="1e-6", mechanism="mwem"))
    assert prepared.cost == Cost(Fraction(2))
    assert sum(one.cost.epsilon for one in prepared.tables.values()) == 2


def test_nothing_is_reserved_where_names_or_types_refuse(tmp_path: Path) -> None:
    base = rows() | {"visits": pa.table({"pid": ["1"], "kind": ["a"]})}
    request = asked(tmp_path)
    for work in (
        lambda: published(tmp_path, request, base),
        lambda: rehearse_linked(base, TOWN, request, tmp_path / "x.sfumato"),
    ):
        with pytest.raises(TableError, match="convert one of the columns"):
            work()
    assert request.ledger.entries("town") == []
    with pytest.raises(TableError, match="'visits'"):
        published(tmp_path, request, {"persons": rows()["persons"]})
    with pytest.raises(TableError, match="is no folder"):
        published(tmp_path, request, str(tmp_path / "nowhere"))


def test_a_dry_run_reads_and_spends_nothing(tmp_path: Path) -> None:
    request = asked(tmp_path)
    prepared, account = rehearse_linked(rows(), TOWN, request, tmp_path / "x.sfumato")
    assert prepared.mechanism == "cells" and account.spent == 0
    assert not (tmp_path / "x.sfumato").exists() and request.ledger.entries("town") == []


def test_the_total_of_the_dataset_holds_for_all_tables_together(tmp_path: Path) -> None:
    with pytest.raises(BudgetExhausted):
        published(tmp_path, asked(tmp_path, 41))


def test_the_same_request_twice_is_refused(tmp_path: Path) -> None:
    request = asked(tmp_path)
    published(tmp_path, request)
    with pytest.raises(RepeatedRelease):
        published(tmp_path, request, name="b.sfumato")
    published(tmp_path, replace(request, again=True), name="b.sfumato", seed=4)
    assert len(request.ledger.entries("town")) == 2


def test_options_of_one_table_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="--workload is about one table"):
        published(tmp_path, asked(tmp_path, workload="SELECT COUNT(*) FROM visits"))


@pytest.mark.parametrize(
    ("cost", "parts"),
    [
        (Cost(Fraction(1)), [Budget.pure("0.5"), Budget.pure("0.6")]),
        (Cost(Fraction(1)), [Budget.pure("0.5"), Budget.zcdp("0.01")]),
        (Cost.stated(None, "1e-6", "0.1"), [Budget.zcdp("0.06"), Budget.pure("0.3")]),
    ],
)
def test_the_kernel_refuses_parts_that_are_more_than_the_whole(cost: Cost, parts: list[Budget]) -> None:
    """0.06 + 0.3^2 / 2 is 0.105 of rho."""
    tables = open_tables(rows(8), TOWN)
    shares = [
        Share(table, TOWN.tables[name].schema, part) for (name, table), part in zip(tables.items(), parts, strict=True)
    ]
    with pytest.raises(PrivacyError, match="more than what is reserved"):
        check_shares(shares, Terms(TOWN.head, cost, "cells"))


def test_sources_in_a_folder(tmp_path: Path) -> None:
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    pc.write_csv(rows(100)["persons"], tmp_path / "p.csv")
    pq.write_table(rows(100)["visits"], tmp_path / "v.parquet")
    tables = {
        "persons": {**TABLES["persons"], "source": "p.csv"},
        "visits": {**TABLES["visits"], "source": "v.parquet"},
    }
    unit = {"column": "home", "contributions": 2}
    town = LinkedSchema.from_dict({"dataset": "town", "privacy_unit": unit, "tables": tables})
    found = open_tables(str(tmp_path), town)["visits"].aggregate(town.tables["visits"].schema, 1)
    assert found.counts.sum() == 200


def test_a_root_counts_its_children_beside_columns_that_a_rule_makes(tmp_path: Path) -> None:
    persons = {
        **TABLES["persons"],
        "recode": {"decade": "FLOOR(age / 2)"},
        "children": "SELECT pid, COUNT(*) AS visits FROM visits GROUP BY pid",
        "attributes": {
            "decade": {"type": "integer", "lower": 0, "upper": 1},
            "visits": {"type": "integer", "lower": 0, "upper": 4},
        },
    }
    visits = {**TABLES["visits"], "with_parents": ["decade"]}
    stated = {"dataset": "town", "privacy_unit": {"column": "home", "contributions": 2}, "budget": {"epsilon": 10**5}}
    town = LinkedSchema.from_dict({**stated, "tables": {"persons": persons, "visits": visits}})
    request = Request(town.head, 10**4, ledger=Ledger(tmp_path / "ledger"), mechanism="cells")
    out = tmp_path / "town.sfumato"
    publish_linked(rows(), town, request, out, step=lambda step: None, entropy=TestingEntropy(3))
    release, table = open_release(out, allow_not_private=True), rows()["persons"]
    decades = np.bincount(table["age"].to_numpy() // 2)
    told = release.query("SELECT decade, COUNT(*) AS n FROM persons WHERE visits = 2 GROUP BY decade").column("n")
    assert [round(one.value) for one in told] == pytest.approx(decades.tolist(), abs=1)
    told = release.query("SELECT decade, COUNT(*) AS n FROM visits GROUP BY decade").column("n")
    assert [round(one.value) for one in told] == pytest.approx((2 * decades).tolist(), abs=1)


def test_the_promise_of_all_tables_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    published(tmp_path, asked(tmp_path, delta="1e-9", mechanism="margins"))
    promised = open_release(tmp_path / "town.sfumato", allow_not_private=True).guarantee
    assert promised.delta == Fraction(1, 10**9) and Fraction(79, 10) < promised.epsilon < 8 + Fraction(1, 10**6)
