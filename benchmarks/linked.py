"""Linked tables: error and coverage of fifty counts, and CPU beside the same GROUP BY by hand.

Two sets of tables by generators of our own: customers, orders and line items in the columns and proportions of TPC-H
(whose own generator DuckDB has to download), and a census of households and persons. Limits are as large as the tables
need, so that no row falls out and intervals are held to the true counts.

    python benchmarks/linked.py                      # 600,000 line items, 20 releases
    python benchmarks/linked.py --items 100000000 --releases 1
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from sfumato.errors import NewLedgerWarning
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.reading.joining import LinkedTable
from sfumato.publishing.linked import publish_linked
from sfumato.publishing.prepare import Request
from sfumato.releases.release import open_release
from sfumato.schema.linked import LinkedSchema

SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
MODES = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]
ITEMS_AN_ORDER, ORDERS_A_CUSTOMER = 4, 10  # on average


def listed(values: list[str]) -> dict[str, Any]:
    return {"type": "category", "values": values}


@dataclass(frozen=True)
class Case:
    """Linked tables: their schema, the SQL that makes each, and each with its parents' columns by hand."""

    name: str
    schema: dict[str, Any]
    makes: dict[str, str]
    by_hand: dict[str, str]


def shop(items: int) -> Case:
    """Customers, orders and line items, in TPC-H's columns and proportions; a third of customers has no order."""
    customers = items // (ITEMS_AN_ORDER * ORDERS_A_CUSTOMER)
    pick = "list_extract({}, 1 + (hash({}) % {})::INT)"
    makes = {
        "customer": f"SELECT i AS c_custkey, (hash(i + 1) % 25)::INT AS c_nationkey, "
        f"{pick.format(SEGMENTS, 'i + 2', 5)} AS c_mktsegment FROM range({customers}) r(i)",
        "orders": "SELECT row_number() OVER () AS o_orderkey, i AS o_custkey, "
        f"{pick.format(['F', 'O', 'P'], 'hash(i) + j + 3', 3)} AS o_orderstatus, "
        f"{pick.format(PRIORITIES, 'hash(i) + j + 4', 5)} AS o_orderpriority, "
        f"1992 + (hash(hash(i) + j + 5) % 7)::INT AS o_year FROM range({customers}) r(i), range(30) s(j) "
        "WHERE i % 3 > 0 AND j < 1 + hash(i + 6) % 29",
        "lineitem": "SELECT o_orderkey AS l_orderkey, "
        f"{pick.format(['A', 'N', 'R'], 'hash(o_orderkey) + j + 7', 3)} AS l_returnflag, "
        f"{pick.format(MODES, 'hash(o_orderkey) + j + 8', 7)} AS l_shipmode, "
        "1 + (hash(hash(o_orderkey) + j + 9) % 50)::INT AS l_quantity FROM orders, range(7) s(j) "
        "WHERE j < 1 + hash(o_orderkey + 10) % 7",
    }
    year = {"type": "integer", "lower": 1992, "upper": 1998}
    tables = {
        "customer": {
            "source": "customer.parquet",
            "unit": "c_custkey",
            "key": "c_custkey",
            "attributes": {
                "c_nationkey": {"type": "integer", "lower": 0, "upper": 24},
                "c_mktsegment": listed(SEGMENTS),
            },
        },
        "orders": {
            "source": "orders.parquet",
            "belongs_to": "customer",
            "by": "o_custkey",
            "key": "o_orderkey",
            "at_most": 50,
            "share": 2,
            "with_parents": ["c_mktsegment"],
            "attributes": {
                "o_orderstatus": listed(["F", "O", "P"]),
                "o_orderpriority": listed(PRIORITIES),
                "o_year": year,
            },
        },
        "lineitem": {
            "source": "lineitem.parquet",
            "belongs_to": "orders",
            "by": "l_orderkey",
            "at_most": 7,
            "share": 4,
            "with_parents": ["c_mktsegment", "o_orderpriority"],
            "attributes": {
                "l_returnflag": listed(["A", "N", "R"]),
                "l_shipmode": listed(MODES),
                "l_quantity": {"type": "integer", "lower": 1, "upper": 50, "bins": 5},
            },
        },
    }
    by_hand = {
        "customer": "customer",
        "orders": "orders JOIN customer ON o_custkey = c_custkey",
        "lineitem": "lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey",
    }
    return Case("customers, orders, line items", linked("shop", "c_custkey", 1, tables), makes, by_hand)


def census(persons: int) -> Case:
    """Households of one to eight persons."""
    homes, regions = persons // 3, [f"region {number}" for number in range(12)]
    ties = ["head", "partner", "child", "other"]
    makes = {
        "households": f"SELECT i AS home, 'region ' || (hash(i) % 12)::INT AS region, "
        f"list_extract(['owned', 'rented', 'other'], 1 + (hash(i + 1) % 3)::INT) AS tenure FROM range({homes}) r(i)",
        "persons": "SELECT home, (hash(hash(home) + j + 2) % 100)::INT AS age, "
        "list_extract(['f', 'm'], 1 + (hash(hash(home) + j + 3) % 2)::INT) AS sex, "
        f"list_extract({ties}, 1 + least(j, 3)::INT) AS tie FROM households, range(8) s(j) "
        "WHERE j < greatest(1, least(8, 1 + hash(home + 4) % 5 + (hash(home + 5) % 10 = 0)::INT * 3))",
    }
    tables = {
        "households": {
            "source": "households.parquet",
            "unit": "home",
            "key": "home",
            "attributes": {"region": listed(regions), "tenure": listed(["owned", "rented", "other"])},
        },
        "persons": {
            "source": "persons.parquet",
            "belongs_to": "households",
            "by": "home",
            "at_most": 8,
            "share": 2,
            "with_parents": ["region", "tenure"],
            "attributes": {
                "age": {"type": "integer", "lower": 0, "upper": 99, "width": 5},
                "sex": listed(["f", "m"]),
                "tie": listed(ties),
            },
        },
    }
    by_hand = {"households": "households", "persons": "persons JOIN households USING (home)"}
    return Case("households, persons", linked("census", "home", 1, tables), makes, by_hand)


def linked(dataset: str, unit: str, contributions: int, tables: dict[str, Any]) -> dict[str, Any]:
    whose = {"column": unit, "contributions": contributions}
    return {"dataset": dataset, "privacy_unit": whose, "budget": {"epsilon": 10**6}, "tables": tables}


def write(case: Case, folder: Path) -> dict[str, int]:
    """Parquet file of each table; numbers of rows."""
    rows = {}
    with duckdb.connect() as database:
        database.execute("SET threads = 2")
        for name, sql in case.makes.items():
            database.execute(f"COPY ({sql}) TO '{folder}/{name}.parquet'")
            database.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder}/{name}.parquet'")
            ((rows[name],),) = database.execute(f"SELECT COUNT(*) FROM {name}").fetchall()
    return rows


def counts(case: Case, number: int, seed: int) -> list[tuple[str, str]]:
    """Conditions on one to three columns of a random table."""
    random, found = np.random.default_rng(seed), []
    schema = LinkedSchema.from_dict(case.schema)
    for place in range(number):
        name = list(schema.tables)[place % len(schema.tables)]
        domain = schema.tables[name].schema.domain
        chosen = random.choice(domain.names, min(len(domain.names), 1 + int(random.integers(3))), replace=False)
        said = []
        for axis in (domain[str(one)] for one in chosen):
            if axis.ordered:
                low, high = np.sort(random.choice(axis.size + 1, 2, replace=False))
                said.append(f"{axis.name} >= {axis.edges[low]:g} AND {axis.name} < {axis.edges[high]:g}")
            else:
                values = random.choice(axis.values, 1 + int(random.integers(axis.size - 1)), replace=False)
                said.append(f"{axis.name} IN ({', '.join(repr(str(value)) for value in values)})")
        found.append((name, " AND ".join(said)))
    return found


def seconds(work: Any) -> tuple[float, Any]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


@contextmanager
def reading() -> Iterator[list[float]]:
    """CPU seconds of each table that is read."""
    spent: list[float] = []
    plain = LinkedTable.read

    def timed(self: LinkedTable, *given: Any, **named: Any) -> Any:
        cpu, found = seconds(lambda: plain(self, *given, **named))
        spent.append(cpu)
        return found

    LinkedTable.read = timed  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        LinkedTable.read = plain  # type: ignore[method-assign]


def by_hand(case: Case, folder: Path) -> float:
    """CPU seconds of a GROUP BY of every table, joined with its parents, by all of its attributes."""
    schema = LinkedSchema.from_dict(case.schema)
    with duckdb.connect() as database:
        for name in case.makes:
            database.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder}/{name}.parquet'")

        def work() -> None:
            for name, table in schema.tables.items():
                keys = ", ".join(table.schema.attributes)
                database.execute(f"SELECT {keys}, COUNT(*) FROM {case.by_hand[name]} GROUP BY {keys}").fetchall()

        return min(seconds(work)[0] for _ in range(3))


def run(case: Case, releases: int, epsilon: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rows = write(case, folder)
        print(f"\n{case.name}: " + ", ".join(f"{number:,} {name}" for name, number in rows.items()))
        schema, asked = LinkedSchema.from_dict(case.schema), counts(case, 50, 1)
        hand = by_hand(case, folder)
        with duckdb.connect() as database:
            for name in case.makes:
                database.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder}/{name}.parquet'")
            truth = [
                database.execute(f"SELECT COUNT(*) FROM {case.by_hand[name]} WHERE {where}").fetchone()[0]
                for name, where in asked
            ]
            quotients = [
                (
                    f"(SELECT COUNT(*) FROM {name} WHERE {where}) / (SELECT COUNT(*) FROM {asked[0][0]})",
                    true / rows[asked[0][0]],
                )
                for (name, where), true in zip(asked, truth, strict=True)
                if name != asked[0][0]
            ][:20]
        book, spent, errors, held, ratios = Ledger(folder / "ledger"), [], [], [], []
        for number in range(releases):
            request = Request(schema.head, epsilon=epsilon, ledger=book, again=True)
            path = folder / f"{number}.sfumato"
            with reading() as read:
                whole, _ = seconds(
                    lambda r=request, p=path: publish_linked(folder, schema, r, p, step=lambda name: None)
                )
            spent.append((sum(read), whole))
            opened = open_release(path)
            for (name, where), true in zip(asked, truth, strict=True):
                ((found,),) = opened.query(f"SELECT COUNT(*) AS n FROM {name} WHERE {where}").rows
                errors.append((name, abs(found.value - true), true))
                held.append(found.low <= true <= found.high)
            for sql, true in quotients:
                ((found,),) = opened.query(f"SELECT {sql} AS n").rows
                ratios.append(found.low <= true <= found.high)
        for name in rows:
            mine = [(error, true) for one, error, true in errors if one == name]
            middle = np.median([error for error, _ in mine])
            print(
                f"  {name}: at most {schema.tables[name].limit} rows of a unit; median error {middle:,.0f} rows, "
                f"{100 * np.median([error / true for error, true in mine]):.2f} % of the count"
            )
        print(
            f"  coverage of 95 % intervals: {100 * np.mean(held):.1f} % of {len(held):,} counts, "
            f"{100 * np.mean(ratios):.1f} % of {len(ratios):,} quotients of counts of two tables"
        )
        read, whole = (min(each) for each in zip(*spent, strict=True))
        print(
            f"  CPU: reading {read:.2f} s, joined GROUP BYs by hand {hand:.2f} s, {read / hand:.1f} times; "
            f"whole release {whole:.1f} s"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=600_000, help="line items, about; and persons")
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--epsilon", type=int, default=1)
    given = parser.parse_args()
    warnings.simplefilter("ignore", NewLedgerWarning)
    for made in (shop(given.items), census(given.items)):
        run(made, given.releases, given.epsilon)
