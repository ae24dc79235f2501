"""The curator's own check: every number against plain counting, and the release's own reading behind it."""

import pytest

from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema

PUBLIC = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": {"column": "who", "contributions": 2},
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 99},
            "sex": {"type": "category", "values": ["F", "M"]},
            "ward": {"type": "category", "values": ["a"], "other": True},
            "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31", "by": "month"},
        },
        "measures": {"pay": {"lower": 0, "upper": 100}},
    }
)
ROWS = [
    "p,5,F,a,2024-01-01,1",
    "p,120,M,b,2023-01-01,-1",  # age, day and pay out of bounds; ward not listed, and counted as other
    "p,99.5,M,a,2024-05-05,x",  # pay unreadable; over the limit of two rows
    "q,,F,,2024-01-01,",  # age, ward and pay missing
    "q,old,f,a,someday,5",  # age and day unreadable, sex not listed
    "q,7,f,a,2024-01-01,5",
    "q,7,w,a,2024-01-01,5",
    ",7,F,a,2024-01-01,5",  # nobody's
    "r,7,F,a,2024-01-01,101",
    "too,short",
]


def found(tmp_path, rows=ROWS):
    path = tmp_path / "t.csv"
    path.write_text("who,age,sex,ward,day,pay\n" + "".join(f"{row}\n" for row in rows))
    return path, open_table(path, schema=PUBLIC).look(PUBLIC)


def test_every_figure_is_what_plain_counting_gives(tmp_path):
    _, checked = found(tmp_path)
    assert (checked.rows, checked.unfit, checked.nobody) == (9, 1, 1)
    shown = {
        part.name.split(".")[1]: (part.missing, part.unreadable, part.outside, part.unlisted) for part in checked.parts
    }
    assert shown == {
        "age": (1, 1, 1, 0),
        "sex": (0, 0, 0, 3),
        "ward": (1, 0, 0, 1),
        "day": (0, 1, 1, 0),
        "pay": (1, 1, 2, 0),
    }
    odd = {part.name.split(".")[1]: part.odd for part in checked.parts}
    assert odd["sex"] == (("f", 2), ("w", 1)) and odd["age"] == (("old", 1),) and odd["pay"] == (("x", 1),)
    assert (checked.placed, checked.units, checked.over, checked.counted) == (4, 2, 1, 3)


def test_what_would_be_counted_is_what_a_release_counts(tmp_path):
    path, checked = found(tmp_path)
    assert checked.counted == int(open_table(path).aggregate(PUBLIC, key=5).counts.sum())


def test_typed_columns_and_empty_tables(tmp_path):
    import pyarrow as pa

    schema = Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": "row",
            "attributes": {
                "n": {"type": "integer", "lower": 0, "upper": 9},
                "c": {"type": "category", "values": [1, 2]},
                "b": {"type": "boolean"},
            },
        }
    )
    table = pa.table({"n": [5, 12, None], "c": [1.0, 3.0, 2.0], "b": [True, None, False]})
    checked = open_table(table).look(schema)
    assert [(part.missing, part.outside, part.unlisted) for part in checked.parts] == [(1, 1, 0), (0, 0, 1), (1, 0, 0)]
    assert checked.counted == 1 and checked.parts[1].odd[0][1] == 1
    _, nothing = found(tmp_path, [])
    assert (nothing.rows, nothing.placed, nothing.counted) == (0, 0, 0)


def test_what_was_found_does_not_show_itself(tmp_path):
    _, checked = found(tmp_path)
    assert "old" not in repr(checked) and "old" not in repr(checked.parts[0])


def test_spellings_are_the_most_frequent_ones(tmp_path):
    rows = [f"p{n},7,{word},a,2024-01-01,5" for n, word in enumerate("aaabbbbccdefg")]
    _, checked = found(tmp_path, rows)
    assert checked.parts[1].odd == (("b", 4), ("a", 3), ("c", 2), ("d", 1), ("e", 1))


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_the_standard_input_is_not_checked(kind):
    from sfumato.errors import TableError
    from sfumato.schema.dialect import Dialect

    schema = PUBLIC.model_copy(
        update={"file": Dialect(format=kind, columns=("who", "age", "sex", "ward", "day", "pay"))}
    )
    with pytest.raises(TableError, match="more than once"):
        open_table("-", schema=schema).look(schema)


def test_recoded_and_kept_values_are_looked_at_as_a_release_reads_them(tmp_path):
    schema = Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": "row",
            "attributes": {
                "sex": {"type": "category", "values": ["F", "M"], "map": {"w": "F"}, "missing": "keep"},
                "day": {"type": "date", "by": "weekday", "missing": "keep"},
            },
            "file": {"dates": "%d.%m.%Y"},
        }
    )
    path = tmp_path / "t.csv"
    path.write_text("sex,day\nw,01.01.2024\n,\nx,someday\nF,someday\n")
    checked = open_table(path, schema=schema).look(schema)
    assert [(part.missing, part.unreadable, part.unlisted) for part in checked.parts] == [(1, 0, 1), (1, 2, 0)]
    assert checked.counted == int(open_table(path, schema=schema).aggregate(schema, key=1).counts.sum()) == 3


@pytest.mark.parametrize("missing", ["keep", "drop"])
def test_without_units_every_row_that_reaches_a_cell_is_counted(tmp_path, missing):
    """Counted in the first pass; beside it the release's own reading of the same rows."""
    declared = PUBLIC.to_dict() | {"privacy_unit": "row"}
    declared["measures"]["pay"]["missing"] = missing
    public = Schema.from_dict(declared)
    path, _ = found(tmp_path)
    checked = open_table(path, schema=public).look(public)
    wanted = {"keep": 5, "drop": 4}[missing]  # five rows have an age, a sex, a ward or other, and a day
    assert (checked.placed, checked.units, checked.over, checked.counted) == (wanted, wanted, 0, wanted)
    assert open_table(path, schema=public).aggregate(public, key=1).counts.sum() == wanted
    everything = Schema.from_dict({**declared, "attributes": {"ward": declared["attributes"]["ward"]}, "measures": {}})
    assert open_table(path, schema=everything).look(everything).counted == 9  # a missing ward is another one
    assert open_table(path, schema=everything).aggregate(everything, key=1).counts.sum() == 9


def test_public_tables_are_compared_with_the_rows_that_a_release_would_count(tmp_path):
    facts = [
        {"by": "sex", "counts": {"F": 2, "M": 1}, "source": "a"},
        {"by": "ward", "counts": {"a": 1, "other": 2}, "source": "b"},
        {"by": ["ward", "sex"], "counts": {"a": {"F": 1, "M": 0}, "other": {"F": 1, "M": 1}}, "source": "c"},
    ]
    path, _ = found(tmp_path)
    stated = PUBLIC.model_copy(update={"facts": None}).to_dict() | {"facts": facts}
    public = Schema.from_dict(stated | {"privacy_unit": {"column": "who", "contributions": 3}})
    checked = open_table(path, schema=public).look(public)
    assert checked.counted == 4  # of p 5 F a, 120 M b, 99.5 M a; of r 7 F a
    assert checked.against_facts == (
        ("rows by sex (a)", 1, "M", 1, 2),
        ("rows by ward (b)", 2, "a", 1, 3),
        ("rows by sex and ward (c)", 3, "F, a", 1, 2),
    )
    assert open_table(path, schema=PUBLIC).look(PUBLIC).against_facts == ()
