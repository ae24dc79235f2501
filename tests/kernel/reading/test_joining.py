"""Rows of linked tables: which of them count, and how far one household moves them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from sfumato.errors import PrivacyError, SchemaError, TableError
from sfumato.kernel.counts import Aggregate
from sfumato.lab.audit.mutants.readers import OrphansCounted, SharedKeys
from sfumato.lab.audit.reading.attack import move
from sfumato.publishing.linked import open_tables
from sfumato.schema.linked import LinkedSchema

AGE = {"age": {"type": "integer", "lower": 0, "upper": 9}}
KIND = {"kind": {"type": "category", "values": ["a", "b"]}}


def group(most_persons: int = 2, most_visits: int = 3, /, **more: Any) -> LinkedSchema:
    tables: dict[str, Any] = {
        "persons": {"unit": "home", "key": "pid", "attributes": AGE},
        "visits": {"belongs_to": "persons", "by": "pid", "key": "vid", "at_most": most_visits, "attributes": KIND}
        | {"with_parents": ["age"]},
        "codes": {"belongs_to": "visits", "by": "vid", "at_most": 2, "with_parents": ["age"]}
        | {"attributes": {"code": {"type": "category", "values": ["x", "y"]}}},
    }
    for name, part in more.items():
        tables[name] |= part
    unit = {"column": "home", "contributions": most_persons}
    return LinkedSchema.from_dict({"dataset": "town", "privacy_unit": unit, "tables": tables})


def columns(**rows: Any) -> pa.Table:
    return pa.table(rows)


NONE = {"codes": columns(vid=pa.array([], pa.int64()), code=pa.array([], pa.string()))}


def counted(schema: LinkedSchema, base: Any, name: str = "visits", key: int = 1) -> Aggregate:
    table = open_tables(base, schema)[name]
    own = schema.tables[name].schema
    table.check(own)
    return table.aggregate(own, key)


def by_age(found: Aggregate) -> dict[int, int]:
    """Rows by age, which is the last axis of ten cells."""
    ages: Counter[int] = Counter()
    for cell, count in zip(found.cells.tolist(), found.counts.tolist(), strict=True):
        ages[cell % 10] += count
    return dict(ages)


def people(**rows: Any) -> dict[str, pa.Table]:
    return {"persons": columns(home=rows["home"], pid=rows["pid"], age=rows["age"]), **NONE}


def visits_of(pids: list[Any], kinds: str | None = None) -> pa.Table:
    return columns(pid=pids, vid=list(range(len(pids))), kind=list(kinds or "a" * len(pids)))


def test_a_child_has_its_parents_columns_and_orphans_and_missing_keys_fall_out() -> None:
    base = people(home=[1, 2, None], pid=[10, 20, 30], age=[3, 7, 5]) | {
        "visits": visits_of([10, 10, 20, 30, 99, None])
    }
    assert by_age(counted(group(), base)) == {3: 2, 7: 1}


def test_limits_of_both_tables_are_kept_whoever_has_more() -> None:
    """A household of 10^5 persons with 3 * 10^5 visits is 2 persons with 3 visits each."""
    many = 100_000
    base = {
        "persons": columns(home=[1] * many + [2], pid=[*range(many), -1], age=[4] * many + [8]),
        "visits": visits_of([*range(many)] * 5 + [-1]),
        **NONE,
    }
    assert by_age(counted(group(), base)) == {4: 6, 8: 1}


def test_a_key_twice_in_a_household_is_one_person_and_one_of_two_households_is_nobodys() -> None:
    base = people(home=[1, 1, 2, 3], pid=[10, 10, 30, 30], age=[3, 4, 5, 6]) | {"visits": visits_of([10, 30, 30])}
    found = by_age(counted(group(), base))
    assert found in ({3: 1}, {4: 1})


def test_a_household_that_goes_may_free_a_key_and_moves_no_more_than_is_charged() -> None:
    """Of a key that two have nothing counts; without one of them the other's rows do: within the limit, not above."""
    schema, visits = group(1, 2), visits_of([30] * 5)
    both = counted(schema, people(home=[2, 3], pid=[30, 30], age=[5, 6]) | {"visits": visits})
    one = counted(schema, people(home=[3], pid=[30], age=[6]) | {"visits": visits})
    assert (by_age(both), by_age(one)) == ({}, {6: 2})
    assert move(schema.tables["visits"].schema, both, one) == 1


def test_without_that_rule_whoever_goes_gives_way_to_another_and_twice_as_much_moves() -> None:
    schema = group(1, 2)
    tables = [
        open_tables(people(home=homes, pid=[30] * len(homes), age=ages) | {"visits": visits_of([30] * 2)}, schema)
        for homes, ages in (([2, 3], [5, 6]), ([3], [6]))
    ]
    own = schema.tables["visits"].schema
    for key in range(8):  # which of the two is counted depends on the key
        read = [SharedKeys(one["visits"].engine, False, one["visits"].chain).aggregate(own, key) for one in tables]
        if move(own, *read) > 1:
            break
    assert move(own, *read) > 1


def test_orphans_that_counted_would_be_people_beyond_the_limit() -> None:
    schema = group(1, 1, visits={"with_parents": []}, codes={"with_parents": []})
    whole = people(home=[1] * 6, pid=list(range(6)), age=[1] * 6) | {"visits": visits_of(list(range(6)))}
    none = people(home=pa.array([], pa.int64()), pid=pa.array([], pa.int64()), age=pa.array([], pa.int64()))
    none |= {"visits": visits_of(pa.array([], pa.int64()), "")}  # type: ignore[arg-type]
    own = schema.tables["visits"].schema
    sound, broken = [], []
    for base in (whole, none):
        table = open_tables(base, schema)["visits"]
        sound.append(table.aggregate(own, 1))
        broken.append(OrphansCounted(table.engine, False, table.chain).aggregate(own, 1))
    assert (move(own, *sound), move(own, *broken)) == (1, 6)


def test_three_levels_multiply() -> None:
    """One household: 2 of its 3 persons, 3 of the 5 visits of each, 2 of the 4 codes of each: 12 codes."""
    persons, visits = range(3), range(15)
    base = {
        "persons": columns(home=[1] * 3, pid=list(persons), age=[2] * 3),
        "visits": columns(pid=[v // 5 for v in visits], vid=list(visits), kind=["a"] * 15),
        "codes": columns(vid=[v for v in visits for _ in range(4)], code=["x"] * 60),
    }
    schema = group()
    assert schema.tables["codes"].limit == 12
    assert by_age(counted(schema, base, "codes")) == {2: 12}


def test_a_key_of_two_visits_of_different_persons_is_nobodys() -> None:
    base = {
        "persons": columns(home=[1, 2], pid=[1, 2], age=[2, 3]),
        "visits": columns(pid=[1, 2, 2], vid=[7, 7, 8], kind=["a"] * 3),
        "codes": columns(vid=[7, 7, 8], code=["x"] * 3),
    }
    assert by_age(counted(group(), base, "codes")) == {3: 1}


def test_rows_that_cannot_be_counted_do_not_use_up_the_limit() -> None:
    base = people(home=[1], pid=[10], age=[3]) | {"visits": visits_of([10] * 9, "zzzzzzaab")}
    assert by_age(counted(group(), base)) == {3: 3}


def test_the_root_is_capped_by_its_own_column_whatever_the_unit_is_called() -> None:
    base = people(home=[1, 1, 1, 2, None], pid=[1, 2, 3, 4, 5], age=[3] * 5) | {"visits": visits_of([1])}
    assert sum(counted(group(), base, "persons").counts.tolist()) == 3


def test_keys_are_compared_as_text_where_a_source_has_no_types(tmp_path: Path) -> None:
    persons = tmp_path / "persons.csv"
    persons.write_text("home,pid,age\n1,7,3\n2,08,4\n")
    base: Mapping[str, Any] = {"persons": persons, "visits": visits_of([7, 7, 8]), **NONE}
    assert by_age(counted(group(), base)) == {3: 2}


def test_keys_of_two_types_are_refused_before_anything_is_read() -> None:
    base = people(home=[1], pid=[7], age=[3]) | {"visits": visits_of(["7"])}
    with pytest.raises(TableError, match=r"tables\.visits\.by is of type VARCHAR .* key of persons of type BIGINT"):
        counted(group(), base)


def test_keys_in_floats_are_refused() -> None:
    base = people(home=[1], pid=[7.0], age=[3]) | {"visits": visits_of([7.0])}
    with pytest.raises(TableError, match="whole numbers or text"):
        counted(group(), base)


def test_a_key_that_is_not_there_is_told_with_the_table() -> None:
    base = people(home=[1], pid=[7], age=[3]) | {"visits": columns(who=[7], vid=[1], kind=["a"])}
    with pytest.raises(TableError, match=r"tables\.visits\.by asks for the column 'pid'"):
        counted(group(), base)


def test_a_schema_charged_for_another_limit_is_refused() -> None:
    schema = group()
    base = people(home=[1], pid=[7], age=[3]) | {"visits": visits_of([7])}
    with pytest.raises(PrivacyError, match="not those that its schema is charged for"):
        open_tables(base, schema)["visits"].read(group(2, 2).tables["visits"].schema, 1)


def test_which_keys_are_kept_depends_on_the_random_key_and_nothing_else() -> None:
    base = people(home=[1] * 6, pid=list(range(6)), age=list(range(6))) | {"visits": visits_of(list(range(6)))}
    turned = {name: table.take(pa.array(reversed(range(table.num_rows)), pa.int64())) for name, table in base.items()}
    found = [by_age(counted(group(), base, key=key)) for key in range(3)]
    assert found == [by_age(counted(group(), turned, key=key)) for key in range(3)]
    assert len({tuple(sorted(one)) for one in found}) > 1


def test_rules_of_a_table_work_before_the_join_for_its_own_rows_and_its_childrens() -> None:
    """A parent's age is made from another column, a child's kind too; the key of a child may be made as well."""
    schema = group(
        persons={"recode": {"age": "2026 - born"}},
        visits={"recode": {"kind": "CASE WHEN code > 5 THEN 'a' ELSE 'b' END"}},
    )
    base = {
        "persons": columns(home=[1, 2], pid=[1, 2], born=[2023, 2019]),
        "visits": columns(pid=[1, 2, 2], vid=[1, 2, 3], code=[9, 1, 1]),
        **NONE,
    }
    assert by_age(counted(schema, base)) == {3: 1, 7: 2}
    assert counted(schema, base).cells.tolist() == [3, 17]
    assert counted(schema, base, "persons").cells.tolist() == [3, 7]


VISITS = {"visits": {"type": "integer", "lower": 0, "upper": 4}}
COUNTED = {"attributes": VISITS, "children": "SELECT pid, COUNT(*) AS visits FROM visits GROUP BY pid"}


def test_a_parent_counts_its_childrens_rows() -> None:
    """Nobody's visits, orphans and those of a missing key are in no number; without any it is 0."""
    schema = group(persons=COUNTED, visits={"with_parents": []}, codes={"with_parents": []})
    base = {
        "persons": columns(home=[1, 1, 2, 3, None], pid=[1, 2, 3, None, 4]),
        "visits": visits_of([1, 1, 1, 2, 9, None, 4]),
        **NONE,
    }
    found = counted(schema, base, "persons")
    assert dict(zip(found.cells.tolist(), found.counts.tolist(), strict=True)) == {0: 2, 1: 1, 3: 1}


AMOUNTS = [
    ("COUNT(*) FILTER (WHERE cost > 2)", [2, 0, 0]),
    ("COUNT(*) + 1", [4, 2, 1]),
    ("COUNT(DISTINCT cost)", [2, 1, 0]),
    ("SUM(cost)", [7, 1, None]),
    ("MAX(cost)", [3, 1, None]),
    ("COALESCE(LAST(cost ORDER BY vid), 4)", [3, 1, 4]),
    ("CASE WHEN BOOL_AND(cost > 0) THEN 3 ELSE 1 END", [3, 3, 1]),
    ("MAX(LENGTH(note))", [2, None, None]),
]


@pytest.mark.parametrize(("sql", "wanted"), AMOUNTS)
@pytest.mark.parametrize("as_csv", [False, True])
def test_what_childrens_rows_amount_to_is_a_column_of_their_parent(
    sql: str, wanted: list[int | None], as_csv: bool, tmp_path: Path
) -> None:
    """Of three persons with three visits, one and none; whose amount is missing falls out."""
    rule = f"SELECT pid, {sql} AS many FROM visits GROUP BY pid"
    many = {"attributes": {"many": {"type": "integer", "lower": 0, "upper": 9}}, "children": rule}
    schema = group(3, persons=many, visits={"with_parents": [], "source": "visits.csv"}, codes={"with_parents": []})
    visits = columns(
        pid=[1, 1, 1, 2, 9, None], vid=[1, 2, 3, 4, 5, 6], kind=["a"] * 6, cost=[1, 3, 3, 1, 8, 8]
    ).append_column("note", pa.array(["x", "ab", None, None, "abc", "abc"]))
    base: dict[str, Any] = {"persons": columns(home=[1, 1, 1], pid=[1, 2, 3]), "visits": visits, **NONE}
    if as_csv:  # whose values have no types
        pa.csv.write_csv(visits, tmp_path / "visits.csv")
        base["visits"] = tmp_path / "visits.csv"
    found = counted(schema, base, "persons")
    cells = Counter(one for one in wanted if one is not None)
    assert dict(zip(found.cells.tolist(), found.counts.tolist(), strict=True)) == cells


def test_a_child_too_has_columns_of_what_its_own_children_amount_to() -> None:
    """Visits have the numbers of their codes; orphans, and codes of none, are in no number."""
    rule = "SELECT vid, COUNT(*) FILTER (WHERE code = 'x') AS many, COUNT(*) AS all_codes FROM codes GROUP BY vid"
    many = {"attributes": {"many": {"type": "integer", "lower": 0, "upper": 4}, **VISITS}, "children": rule}
    many["attributes"]["visits"] = {"type": "integer", "lower": 0, "upper": 4, "column": "all_codes"}
    schema = group(visits={**many, "with_parents": ["age"]}, codes={"with_parents": []})
    assert schema.tables["visits"].counts == {"codes": "all_codes"}
    base = people(home=[1, 1], pid=[1, 2], age=[3, 5]) | {
        "visits": columns(pid=[1, 1, 2, 7], vid=[10, 20, 30, 40]),
        "codes": columns(vid=[10, 10, 10, 30, 40, None], code=["x", "y", "x", "y", "x", "x"]),
    }
    found = counted(schema, base)
    places = [np.unravel_index(cell, schema.tables["visits"].schema.domain.shape) for cell in found.cells.tolist()]
    assert sorted(tuple(map(int, place)) for place in places) == [(0, 0, 3), (0, 1, 5), (2, 3, 3)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT pid, kind AS visits FROM visits GROUP BY pid", "children has kind alone, of which a person has many"),
        ("SELECT pid, COUNT(*) AS others FROM visits GROUP BY pid", "declare one as an attribute, with its bounds"),
        ("SELECT vid, COUNT(*) AS visits FROM codes GROUP BY vid", "a table that belongs to it"),
        ("SELECT COUNT(*) FROM visits", "tables.persons.children"),
    ],
)
def test_what_children_cannot_amount_to_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        group(persons={**COUNTED, "children": text}, visits={"with_parents": []}, codes={"with_parents": []})


def test_a_number_of_children_is_no_column_of_the_children() -> None:
    with pytest.raises(SchemaError, match="which persons makes of children"):
        group(persons=COUNTED, visits={"with_parents": ["visits"]}, codes={"with_parents": []})
