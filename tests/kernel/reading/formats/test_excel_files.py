"""Excel: each cell by itself, formulas and errors as missing, and dates in the form that the schema states."""

import datetime as dt
from zipfile import ZipFile

import pytest

from sfumato.errors import TableError
from sfumato.kernel.reading.formats import excel_files
from sfumato.kernel.reading.formats.origin import text_of
from sfumato.kernel.reading.table import open_table
from sfumato.lab.audit.reading.record_tables import write_sheet
from sfumato.schema import Schema

openpyxl = pytest.importorskip("openpyxl")
PUBLIC = {
    "dataset": "t",
    "privacy_unit": "row",
    "attributes": {
        "age": {"type": "integer", "lower": 0, "upper": 9},
        "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31", "by": "month"},
    },
}


def written(tmp_path, rows, title="Sheet"):
    book = openpyxl.Workbook()
    book.active.title = "first"
    sheet = book.active if title == "Sheet" else book.create_sheet(title)
    for row in rows:
        sheet.append(row)
    book.save(tmp_path / "t.xlsx")
    return tmp_path / "t.xlsx"


def counts(path, **file):
    schema = Schema.from_dict(PUBLIC | ({"file": file} if file else {}))
    found = open_table(path, schema=schema).aggregate(schema, key=1)
    return [cell for cell, n in zip(found.cells.tolist(), found.counts.tolist(), strict=True) for _ in range(n)]


DAY = dt.date(2024, 3, 1)
ROWS = [
    ["note", "age", "day"],
    ["x", 1, DAY],
    [None] * 3,
    ["x", "2", "2024-02-01"],
    ["x", "=1+1", DAY],
    ["x", "#N/A", DAY],
]


def test_cells_are_read_one_by_one(tmp_path):
    rows = [*ROWS, ["x", 3.0, dt.datetime(2024, 3, 1, 23, 59), "beyond the header"], ["x", 4, None], ["short"]]
    assert counts(written(tmp_path, rows)) == [14, 25, 38]


def test_dates_of_excel_and_dates_as_text_in_one_column(tmp_path):
    rows = [ROWS[0], ["x", 1, DAY], ["x", 2, "01.03.2024"], ["x", 3, "2024-03-01"]]
    assert counts(written(tmp_path, rows), dates="%d.%m.%Y") == [14, 26]


def test_a_sheet_is_named_and_a_header_may_be_missing(tmp_path):
    path = written(tmp_path, ROWS, "data")
    assert counts(path, sheet="data") == [14, 25]
    with pytest.raises(TableError, match="has no sheet 'dat'; it has first, data"):
        counts(path, sheet="dat")
    with pytest.raises(TableError, match=r"t\.xlsx has no header"):
        counts(path)
    (tmp_path / "bad.xlsx").write_text("x")
    with pytest.raises(TableError, match=r"bad\.xlsx cannot be opened"):
        counts(tmp_path / "bad.xlsx")
    assert counts(written(tmp_path, ROWS[1:]), columns=["note", "age", "day"]) == [14, 25]


FIVE = 5 * 12  # the cell of five years, on a day before all others
ROW = '<row r="{0}"><c r="A{0}" t="s"><v>0</v></c>{1}<c r="C{0}" t="s"><v>4</v></c></row>'
MALFORMED = {
    "a number in letters": '<c r="B2" t="n"><v>abc</v></c>',
    "a number of other digits": '<c r="B2"><v>１_0</v></c>',
    "a number too long to be one": f'<c r="B2"><v>{"9" * 5000}</v></c>',
    "a day out of range": '<c r="B2" s="1"><v>99999999999</v></c>',
    "a day that is none": '<c r="B2" t="d"><v>2020-02-31</v></c>',
    "a text beyond the list": '<c r="B2" t="s"><v>6</v></c>',
    "a text before the list": '<c r="B2" t="s"><v>-3</v></c>',
    "a word for a boolean": '<c r="B2" t="b"><v>yes</v></c>',
    "a format that is none": '<c r="B2" s="first"><v>5</v></c>',
    "a type that is none": '<c r="B2" t="z"><v>5</v></c>',
    "a place that is none": '<c r="2B"><v>5</v></c>',
    "a shared formula of nothing": '<c r="B2"><f t="shared" si="7"/><v>5</v></c>',
    "a table of data": '<c r="B2"><f t="dataTable" odd="1"/><v>5</v></c>',
}


@pytest.mark.parametrize("cell", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_cell_is_missing_and_stops_nobody(tmp_path, cell):
    path = tmp_path / "t.xlsx"
    five = '<c r="B{}"><v>5</v></c>'
    good = [ROW.format(place, five.format(place)) for place in (3, 4)]
    write_sheet(path, ["note", "age", "day"], [ROW.format(2, cell), *good])
    assert counts(path) == [FIVE] * 2
    write_sheet(path, ["note", "age", "day"], good)
    assert counts(path) == [FIVE] * 2


def test_where_a_row_says_that_it_stands_means_nothing(tmp_path):
    """Not to itself, and not to the rows behind it."""
    rows = [ROW.format(number, f'<c r="B{number}"><v>5</v></c>') for number in (900_000, 1, 0, 7, 7, "x")]
    unnumbered = "<row><c><v>0</v></c><c><v>5</v></c><c t='s'><v>4</v></c></row>"
    write_sheet(tmp_path / "t.xlsx", ["note", "age", "day"], [*rows, unnumbered])
    assert counts(tmp_path / "t.xlsx") == [FIVE] * 6  # without the one whose cells have no place


def test_entities_are_refused_before_anything_is_spent(tmp_path):
    path, other = tmp_path / "t.xlsx", tmp_path / "u.xlsx"
    write_sheet(path, ["note", "age", "day"], [])
    bomb = '<!DOCTYPE sst [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    with ZipFile(path) as old, ZipFile(other, "w") as new:
        for name in old.namelist():
            text = old.read(name).decode()
            changed = text.replace("<sst ", f"{bomb}<sst ").replace("<t>p</t>", "<t>&b;</t>")
            new.writestr(name, changed if "shared" in name else text)
    assert counts(path) == []
    with pytest.raises(TableError, match=r"u\.xlsx cannot be opened"):
        counts(other)


@pytest.mark.filterwarnings("ignore:Workbook contains no default style")
def test_texts_are_those_that_openpyxl_reads(tmp_path):
    """Rich texts, hints for pronunciation, escapes, blanks and large numbers, cell by cell."""
    texts = ["<si><r><t>a</t></r><r><t xml:space='preserve'> b</t></r><rPh sb='0' eb='1'><t>x</t></rPh></si>"]
    texts += ["<si><t>_x005F_x000D_</t></si>", "<si/>", "<si><t> c </t></si>"]
    cells = [f'<c t="s"><v>{place}</v></c>' for place in range(4)]
    cells += [
        "<c><v>12345678901234567890</v></c>",
        "<c><v>1.50</v></c>",
        "<c><v>1E3</v></c>",
        '<c s="1"><v>1.5</v></c>',
    ]
    cells += [
        '<c t="b"><v>1</v></c>',
        '<c t="str"><v>x</v></c>',
        '<c s="1"><v>0.25</v></c>',
        '<c t="e"><v>#N/A</v></c>',
    ]
    names, path = [f"c{place}" for place in range(len(cells))], tmp_path / "t.xlsx"
    write_sheet(path, names, [f"<row>{''.join(cells)}</row>"], [])
    with ZipFile(path) as old, ZipFile(tmp_path / "u.xlsx", "w") as new:
        for name in old.namelist():
            changed = old.read(name).replace(b"</sst>", "".join(texts).encode() + b"</sst>")
            new.writestr(name, changed)
    sheet = openpyxl.load_workbook(tmp_path / "u.xlsx", read_only=True).active
    (row,) = sheet.iter_rows(min_row=2)
    wanted = [None if cell.data_type == "e" else text_of(cell.value) or None for cell in row]
    with excel_files.open_sheet(tmp_path / "u.xlsx", None) as found:
        _, mine = found.rows()
        assert [found.text(mine.cells[place]) for place in range(len(cells))] == wanted
    assert wanted[:2] == ["a b", "_x000D_"] and wanted[4] == "12345678901234567890"
