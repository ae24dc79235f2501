"""A draft filled by private looks: order of work, cost, receipts, and what later releases say of it."""

from __future__ import annotations

import json
import sqlite3
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
import yaml

import sfumato as sf
from sfumato.errors import BudgetError, LedgerError, PrivacyError, RepeatedRelease, SchemaError, TableError
from sfumato.kernel.discovering import Looks
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.reading.table import Table
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.publishing.discover import Finding, Wish, discover, fill, read_draft, rehearse_fill
from sfumato.schema import Schema
from sfumato.schema.blanks import Blank

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.NewLedgerWarning")
RNG = np.random.default_rng(8)
ROWS = 6000
TABLE = pa.table(
    {
        "pid": RNG.integers(0, 3000, ROWS),
        "age": RNG.integers(0, 96, ROWS),
        "town": RNG.choice(["Aa", "Bern", "Ulm", "other"], ROWS, p=[0.5, 0.3, 0.1, 0.1]),
        "cost": RNG.gamma(2, 100, ROWS),
    }
)
ALONE = TABLE.set_column(0, "pid", pa.array(range(ROWS)))
DRAFT = {
    "dataset": "visits",
    "privacy_unit": {"column": "pid", "contributions": None},
    "budget": {"epsilon": 9},
    "attributes": {
        "age": {"type": "integer", "lower": None, "upper": None},
        "town": {"type": "category", "values": None, "other": False},
    },
    "measures": {"cost": {"lower": 0, "upper": None}},
}


@pytest.fixture
def book(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite")


def wish(book, draft=DRAFT, epsilon="4", delta="1e-6", **more):
    return Wish(draft, yaml.safe_dump(draft, sort_keys=False), epsilon, delta, ledger=book, **more)


def filled(book, steps=None, table=TABLE, seed=5, **more):
    told = [] if steps is None else steps
    return fill(table, wish(book, **more), step=told.append, entropy=TestingEntropy(seed))


def test_every_blank_is_filled_and_the_schema_carries_the_receipt(book):
    steps: list[str] = []
    done = filled(book, steps)
    schema = done.schema()
    assert steps == ["check", "reserve", "read", "publish"]
    assert schema.attributes["town"].listed == ("Aa", "Bern", "Ulm")  # 'other' is in the cell of that name
    assert schema.attributes["town"].other
    assert (schema.attributes["age"].lower, schema.attributes["age"].upper) in {(0, 95), (0, 96), (0, 100)}
    assert schema.measures["cost"].lower == 0 and 400 < schema.measures["cost"].upper < 1500
    assert schema.privacy_unit.contributions >= 3
    (receipt,) = schema.discovered
    (entry,) = book.entries("visits")
    assert (receipt.ledger, receipt.entry, receipt.nonce) == (book.identity(), entry.number, entry.nonce)
    assert (receipt.epsilon, receipt.delta) == (entry.epsilon, entry.delta) == (4, Fraction(1, 10**6))
    assert entry.mechanism == "discover" and entry.state == "published" and entry.contributions == 1
    assert entry.rho is None  # a threshold's delta follows from none: it is added up
    assert "measures.cost.lower" not in receipt.filled and "measures.cost.upper" in receipt.filled
    assert done.left == [] and Schema.from_dict(yaml.safe_load(done.text)) == schema


def test_shares_split_the_cost_exactly_and_only_values_take_of_the_delta(book):
    parts = wish(book, epsilon="0.7", shares={"town": Fraction(4)}).parts
    assert sum(epsilon for _, epsilon, _ in parts) == Fraction(7, 10)
    assert {one.name: (epsilon, delta) for one, epsilon, delta in parts} == {
        "contributions": (Fraction(1, 10), 0),
        "age": (Fraction(1, 10), 0),
        "town": (Fraction(4, 10), Fraction(1, 10**6)),
        "cost": (Fraction(1, 10), 0),
    }


@pytest.mark.parametrize("most", ["0.05", "1"])
def test_looks_take_all_that_was_reserved_and_never_more(book, monkeypatch, most):
    taken = []
    take = Looks.take

    def noted(self, epsilon, delta=Fraction(0)):
        taken.append((epsilon, delta))
        return take(self, epsilon, delta)

    monkeypatch.setattr(Looks, "take", noted)
    filled(book, epsilon=most)
    spent = sum(epsilon for epsilon, _ in taken)
    assert spent <= Fraction(most) and sum(delta for _, delta in taken) == Fraction(1, 10**6)


def test_a_look_beyond_the_reservation_or_of_another_unit_is_refused(book):
    one = wish(book)
    looks = Looks(lambda: one.opened(TABLE), one.terms(TABLE), None, TestingEntropy(1))
    by_row = Schema(dataset="t", privacy_unit="row", attributes={"age": {"type": "integer", "lower": 0, "upper": 9}})
    by_person = by_row.model_copy(update={"privacy_unit": one.schema.privacy_unit})
    with pytest.raises(PrivacyError, match="another unit"):
        looks.curator(by_row, Fraction(1))
    with pytest.raises(PrivacyError, match="another unit"):
        looks.values(by_row, Fraction(1), Fraction(1, 10**6), most=3, values_a_person=1)
    looks.curator(by_person, Fraction(3))
    with pytest.raises(PrivacyError, match="more than was reserved"):
        looks.curator(by_person, Fraction(2))
    with pytest.raises(PrivacyError, match="more than was reserved"):
        looks.values(by_person, Fraction(1, 2), Fraction(1, 10**5), most=3, values_a_person=1)


def test_columns_that_rules_make_can_be_asked_for(book):
    draft = {
        "dataset": "visits",
        "privacy_unit": {"column": "pid"},
        "budget": {"epsilon": 9},
        "recode": {"decade": "FLOOR(age / 10)"},
        "attributes": {"decade": {"type": "integer"}},
    }
    schema = filled(book, draft=draft).schema()
    assert (schema.attributes["decade"].lower, schema.attributes["decade"].upper) in {(0, 9), (0, 10)}
    assert schema.privacy_unit.contributions > 1
    people = {**draft, "recode": None, "attributes": {"visits": {"type": "integer"}}}
    people["per_person"] = "SELECT pid, COUNT(*) AS visits FROM visits GROUP BY pid"
    del people["recode"]
    (found,) = filled(book, draft=people, seed=9).findings
    assert found.found["attributes", "visits", "lower"] <= 1 and found.found["attributes", "visits", "upper"] in range(
        4, 12
    )


def test_nothing_is_read_before_the_reservation_and_a_failed_look_keeps_it(book, monkeypatch):
    read, seen = Table.read, []

    def failing(self, *given, **named):
        seen.append(len(book.entries("visits")))
        raise TableError("the table could not be read to its end")

    monkeypatch.setattr(Table, "read", failing)
    done = filled(book)
    assert seen and set(seen) == {1}  # the reservation was on disk
    words = {one.blank.name: one.words for one in done.findings}
    assert "could not be read" in words["age"] and words["town"].startswith("3 values")  # which another way reads
    assert book.account("visits").spent == 4
    assert read is not Table.read


def test_where_too_few_people_are_there_the_blank_stays_and_is_said(book):
    few = TABLE.slice(0, 3)
    done = filled(book, table=few, epsilon="0.5")
    assert done.left and all(not one.found for one in done.findings)
    assert "discovered" not in done.mapping and done.text == yaml.safe_dump(DRAFT, sort_keys=False)
    assert book.account("visits").spent == Fraction(1, 2)
    with pytest.raises(SchemaError, match="blank"):
        done.schema()


def test_a_rehearsal_spends_nothing_and_refuses_what_would_be_refused(book):
    assert rehearse_fill(TABLE, wish(book)).spent == 0 and book.entries() == []
    for change, said, kind in [
        ({"epsilon": "10"}, "is left for such a release", BudgetError),
        ({"delta": None}, "needs a delta", BudgetError),
        ({"columns": ("nobody",)}, "no blank called 'nobody'", SchemaError),
        (
            {"draft": {**DRAFT, "privacy_unit": {"column": "who", "contributions": None}}},
            "which the table lacks",
            TableError,
        ),
        ({"draft": {**DRAFT, "attributes": {"town": {"type": "integer"}}}}, "holds text", TableError),
    ]:
        with pytest.raises(kind, match=said):
            rehearse_fill(TABLE, wish(book, **change))
    with pytest.raises(TableError, match="standard input"):
        rehearse_fill("-", wish(book))
    assert book.entries() == []


def test_some_columns_now_and_the_others_later(book):
    first = filled(book, columns=("age",), epsilon="1", delta=None)
    assert first.left == ["privacy_unit.contributions", "attributes.town.values", "measures.cost.upper"]
    assert first.cost.pure  # bounds need no delta
    second = fill(
        TABLE,
        Wish(first.mapping, first.text, "3", "1e-6", ledger=book),
        step=lambda name: None,
        entropy=TestingEntropy(6),
    )
    assert [one.epsilon for one in second.schema().discovered] == [1, 3]
    assert yaml.safe_load(second.text)["discovered"] == second.mapping["discovered"]


def test_the_same_looks_twice_are_refused_unless_meant(book):
    filled(book)
    with pytest.raises(RepeatedRelease):
        filled(book, seed=6)
    filled(book, seed=7, again=True)
    assert book.account("visits").spent == 8


def test_a_bound_that_contradicts_a_stated_one_is_not_filled(book):
    draft = {**DRAFT, "measures": {"cost": {"lower": 10**6, "upper": None}}}
    done = filled(book, draft=draft)
    assert done.left == ["measures.cost.upper"]
    assert next(one for one in done.findings if one.blank.name == "cost").words.endswith("the bound that is stated")


def test_later_releases_name_what_was_bought_and_charge_the_same_account(book, tmp_path):
    draft = {key: part for key, part in DRAFT.items() if key != "measures"}
    draft["privacy_unit"] = {"column": "pid", "contributions": 1}
    schema = discover(TABLE, draft, 2, delta="1e-6", shares={"age": 2}, ledger=book)
    made = sf.release(TABLE, schema, 1, mechanism="cells", ledger=book)
    said = "Its lists of values and bounds were bought before, with epsilon 2 and delta 1e-6 of the same account."
    assert made.guarantee.statement.endswith(said)
    made.save(tmp_path / "v.sfumato")
    opened = sf.open(tmp_path / "v.sfumato")  # which checks the words against the schema
    assert opened.schema.discovered == schema.discovered
    assert book.account("visits").spent == 3
    certified = sf.certificate(tmp_path / "v.sfumato")
    budget = certified.to_dict()["budget"]
    assert budget["with_this_release"] == {"epsilon": "3", "delta": "0.000001"}
    assert budget["discovered"][0]["filled"] == list(schema.discovered[0].filled)
    assert "bought before" in repr(certified) and json.dumps(budget)
    other = Ledger(tmp_path / "other.sqlite")
    other.set_budget("visits", 9)
    with pytest.raises(LedgerError, match="requires the ledger"):  # one that does not know what was spent
        sf.release(TABLE, schema, 1, mechanism="cells", ledger=other)


def test_what_is_said_of_the_file_holds_for_looks(book, tmp_path):
    lines = ["pid;age;town", *(f"{place};{place % 50},0 y;{'NA' if place % 3 else 'Bern'}" for place in range(3000))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    file = {"delimiter": ";", "decimal": ",", "missing": {"town": ["NA"]}, "strip": {"age": ["y"]}}
    draft = {key: part for key, part in DRAFT.items() if key != "measures"} | {"file": file}
    schema = filled(book, table=tmp_path / "t.csv", draft=draft).schema()
    assert schema.attributes["town"].listed == ("Bern",)
    assert (schema.attributes["age"].lower, schema.attributes["age"].upper) == (0, 50)


def of_sqlite(table, folder):
    connection = sqlite3.connect(folder / "t.sqlite")
    connection.execute("CREATE TABLE visits (pid INTEGER, age INTEGER, town TEXT, cost REAL)")
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows)
    connection.commit()
    return connection


@pytest.mark.parametrize(
    ("kind", "name"), [(lambda table, folder: table.to_pandas(), None), (of_sqlite, "visits")], ids=["pandas", "sqlite"]
)
def test_frames_and_connections_are_read_several_times(book, tmp_path, kind, name):
    done = filled(book, table=kind(TABLE, tmp_path), table_name=name)
    assert done.left == [] and done.schema().attributes["town"].listed == ("Aa", "Bern", "Ulm")


def test_postgresql_finds_the_same(tmp_path):
    from postgres import own_schema

    with own_schema() as (connection, url, schema):
        connection.execute("CREATE TABLE visits (pid bigint, age bigint, town text, cost double precision)")
        with connection.cursor() as cursor:
            rows = list(zip(*(column.to_pylist() for column in ALONE.columns), strict=True))
            cursor.executemany("INSERT INTO visits VALUES (%s, %s, %s, %s)", rows)
        assert found_in(url, tmp_path, f"{schema}.visits") == found_in(ALONE, tmp_path)


def test_spark_finds_the_same(tmp_path):
    pytest.importorskip("pyspark")
    import pyarrow.parquet as pq

    from sfumato.lab.audit.reading.server_sources import small_session

    pq.write_table(ALONE, tmp_path / "t.parquet")
    assert found_in(small_session(), tmp_path, str(tmp_path / "t.parquet")) == found_in(ALONE, tmp_path)


def found_in(table, folder, name=None):
    """What looks with the same noise find, whichever engine counts; each person has one row, so none is chosen."""
    done = filled(Ledger(folder / f"{name is None}.sqlite"), table=table, table_name=name)
    return [(one.blank.name, one.found) for one in done.findings]


def test_a_draft_is_read_from_its_file_with_lists_beside_it(book, tmp_path):
    (tmp_path / "towns.txt").write_text("Aa\nBern\n")
    draft = {**DRAFT, "attributes": {**DRAFT["attributes"], "town": {"type": "category", "values": "towns.txt"}}}
    (tmp_path / "draft.yaml").write_text(yaml.safe_dump(draft, sort_keys=False))
    schema = discover(TABLE, tmp_path / "draft.yaml", 4, ledger=book)
    assert schema.attributes["town"].listed == ("Aa", "Bern") and schema.discovered[0].delta == 0
    with pytest.raises(SchemaError, match="holds none"):
        (tmp_path / "draft.yaml").write_text("- 1\n")
        read_draft(tmp_path / "draft.yaml")


def test_a_blank_that_noise_hides_is_named_with_what_to_do(book):
    few = pa.table({"pid": [1, 2], "age": [3, 4]})
    draft = {
        "dataset": "few",
        "privacy_unit": "row",
        "budget": {"epsilon": 1},
        "attributes": {"age": {"type": "integer"}},
    }
    with pytest.raises(SchemaError, match=r"noise left blank age \(too few rows.*more epsilon"):
        discover(few, draft, "0.1", ledger=book)


@pytest.mark.parametrize(
    ("values", "ends"),
    [(["2", "10", "-1", "0"], (-1, 10)), (["01067", "80331"], None), (["1", "x"], None), (["7"], None), ([], None)],
)
def test_values_in_digits_are_numbers_unless_they_begin_with_zeros(values, ends):
    place = ("attributes", "age")
    blank = Blank("age", "values", "age", "category", (place,), ((*place, "values"),))
    assert Finding(blank, {(*place, "values"): values}, "").numbers == ends
