"""sfumato check, from the curator's side: figures on a terminal, marked, and nowhere else."""

import shlex

import pytest
from running import sfumato

SCHEMA = """
dataset: visits
privacy_unit: {column: patient, contributions: 1}
attributes:
  age: {type: integer, lower: 0, upper: 99}
  sex: {type: category, values: [F, M]}
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.yaml").write_text(SCHEMA)
    rows = ["p,5,F", "p,120,M", "q,x,F", "r,7,männl.", "s,7,männl.", ",7,F", "broken"]
    (tmp_path / "visits.csv").write_bytes(("patient;age;sex\n" + "\n".join(rows).replace(",", ";")).encode("cp1252"))
    return tmp_path


OPTIONS = ("check", "visits.csv", "--schema", "visits.yaml", "--delimiter", ";", "--encoding", "cp1252")


def test_a_pipe_is_refused_unless_it_is_meant(table):
    run = sfumato(*OPTIONS)
    assert run.returncode == 1 and run.stdout == ""
    assert "is for a terminal only" in run.stderr and "--even-if-not-a-terminal" in run.stderr


def test_what_is_shown_and_how_it_is_marked(table):
    run = sfumato(*OPTIONS, "--even-if-not-a-terminal")
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0].startswith("FOR YOUR EYES ONLY") and sum(line.startswith("FOR YOUR EYES") for line in lines) == 2
    assert "1 record could not be read as rows" in run.stdout and "6 rows read." in run.stdout
    (age,) = [line.split() for line in lines if line.startswith("attributes.age ")]
    (sex,) = [line.split() for line in lines if line.startswith("attributes.sex ")]
    assert age[1:] == ["integer", "-", "1", "1", "-"] and sex[1:] == ["category", "-", "-", "-", "2"]
    assert "attributes.sex, not listed, the most frequent: 'männl.' (2)" in run.stdout
    assert "attributes.age, unreadable, the most frequent: 'x' (1)" in run.stdout
    assert "1 row has no patient" in run.stdout
    assert "Of 1 patient in the rest, 1 with more than 1 row: 1 row over the limit not counted." in run.stdout
    assert "A release would count 1 row." in run.stdout
    assert "Why: none of this is protected by noise" in lines[-1]


def test_nothing_is_spent_and_nothing_is_written(table, monkeypatch):
    monkeypatch.setenv("SFUMATO_LEDGER", str(table / "ledger.db"))
    before = set(table.iterdir())
    assert sfumato(*OPTIONS, "--even-if-not-a-terminal").returncode == 0
    assert set(table.iterdir()) == before


def test_unreadable_numbers_and_dates_come_with_what_could_be_stated(table):
    (table / "visits.yaml").write_text(SCHEMA + "  day: {type: date, lower: 2024-01-01, upper: 2024-12-31}\n")
    (table / "visits.csv").write_text("patient;age;sex;day\np;1,5;F;31.12.2024\n")
    run = sfumato(*OPTIONS, "--even-if-not-a-terminal")
    assert "'1,5' (1); if numbers are written so, state it, such as --decimal ," in run.stdout
    assert "'31.12.2024' (1); if dates are written so, state the form, such as --dates %d.%m.%Y" in run.stdout


def test_values_of_a_stranger_are_shown_and_not_obeyed(table):
    (table / "visits.csv").write_text("patient;age;sex\np;1;\x1b[31mF\n")
    run = sfumato(*OPTIONS, "--even-if-not-a-terminal")
    assert run.returncode == 0 and "\x1b" not in run.stdout


def test_the_standard_input_is_told_to_be_a_file(table):
    run = sfumato("check", "-", "--schema", "visits.yaml", "--columns", "patient,age,sex", "--even-if-not-a-terminal")
    assert run.returncode == 1 and "use a file" in run.stderr


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("31.12.2024", "%d.%m.%Y"),
        ("31.12.2024 11:50", "%d.%m.%Y %H:%M"),
        ("31/12/24 11:50:07", "%d/%m/%y %H:%M:%S"),
        ("12/31/2024 1:50 PM", "%m/%d/%Y %I:%M %p"),
        ("2024/12/31", "%Y/%m/%d"),
        ("last week", "%d.%m.%Y"),
    ],
)
def test_the_form_of_dates_that_is_proposed_reads_them(table, written, form):
    (table / "visits.yaml").write_text(SCHEMA + "  day: {type: date, lower: 2024-01-01, upper: 2024-12-31}\n")
    (table / "visits.csv").write_text(f"patient;age;sex;day\np;1;F;{written}\n")
    shown = sfumato(*OPTIONS, "--even-if-not-a-terminal").stdout
    assert ("day, unreadable" in shown) == (f"--dates {shlex.quote(form)}" in shown)
    again = sfumato(*OPTIONS, "--even-if-not-a-terminal", "--dates", form).stdout
    assert ("A release would count 1 row." in again) == (written != "last week")


def test_words_for_missing_values_and_units_come_with_what_to_write(table):
    (table / "visits.csv").write_text("patient;age;sex\np;12 EUR;n/a\nq;€ 7;NA\nr;-;F\n")
    run = sfumato(*OPTIONS, "--encoding", "utf-8", "--even-if-not-a-terminal")
    assert "if these stand for no value, write into the schema: file: {missing: [NA, n/a]}" in run.stdout
    assert "write into the schema: file: {missing: ['-']}" in run.stdout
    assert "if these are units, write into the schema: file: {strip: [EUR, €]}" in run.stdout
    (table / "visits.yaml").write_text(SCHEMA + "file: {missing: [NA, n/a, '-'], strip: [EUR, €]}\n")
    again = sfumato(*OPTIONS, "--encoding", "utf-8", "--even-if-not-a-terminal").stdout
    (age,) = [line.split() for line in again.splitlines() if line.startswith("attributes.age ")]
    assert age[1:] == ["integer", "1", "-", "-", "-"] and "write into the schema" not in again


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("12,50 EUR", "file: {strip: [EUR]}; if numbers are written so, state it, such as --decimal , --thousands ."),
        ("1,250 EUR", "file: {strip: [EUR]}; if numbers are written so, state it, such as --thousands ,\n"),
        ("1.250,50", "'1.250,50' (1); if numbers are written so, state it, such as --decimal , --thousands ."),
        ("12.50 EUR", "file: {strip: [EUR]}\n"),
    ],
)
def test_the_form_of_numbers_is_proposed_beside_their_units(table, written, said):
    (table / "visits.yaml").write_text(SCHEMA + "  paid: {type: number, lower: 0, upper: 5000, bins: 10}\n")
    (table / "visits.csv").write_text(f'patient;age;sex;paid\np;1;F;"{written}"\n')
    assert said in sfumato(*OPTIONS, "--even-if-not-a-terminal").stdout


def test_words_for_true_and_false_come_with_what_to_write(table):
    (table / "visits.yaml").write_text(SCHEMA + "  paid: {type: boolean}\n")
    (table / "visits.csv").write_text("patient;age;sex;paid\np;1;F;nein\nq;2;F;ja\nr;2;F;nein\n")
    shown = sfumato(*OPTIONS, "--even-if-not-a-terminal").stdout
    said = "if these mean true and false, say which in the schema: paid: {map: {nein: false, ja: true}}"
    assert said in shown
    (table / "visits.yaml").write_text(SCHEMA + "  paid: {type: boolean, map: {nein: false, ja: true}}\n")
    assert "A release would count 3 rows." in sfumato(*OPTIONS, "--even-if-not-a-terminal").stdout


def test_lists_that_no_release_file_has_room_for_are_named_with_their_size(table):
    (table / "codes.txt").write_text("\n".join(f"{'x' * 300}{n}" for n in range(54_000)))
    (table / "visits.yaml").write_text(SCHEMA + "  code: {type: category, values: codes.txt}\n")
    run = sfumato(*OPTIONS, "--even-if-not-a-terminal")
    assert run.returncode == 1 and "15,099,494 is the most; list fewer values of code (54,000 now)" in run.stderr


def test_rows_of_one_period_are_looked_at(table):
    rows = ["a,5,F,2026-01-03", "a,6,F,2026-02-03", "b,x,F,2026-01-31", "b,7,M,2026-02-01", "c,7,M,soon", "d,8,M,"]
    (table / "months.csv").write_text("patient,age,sex,day\n" + "\n".join(rows))
    series = "series: {period: month, unit: person in a month, column: day}\n"
    (table / "visits.yaml").write_text(SCHEMA + series)
    options = ("check", "months.csv", "--schema", "visits.yaml", "--even-if-not-a-terminal")
    shown = sfumato(*options, "--period", "2026-1").stdout
    assert "2 rows read. They are of 2026-01; 4 rows have another day, or none that can be read." in shown
    assert "attributes.age, unreadable, the most frequent: 'x' (1)" in shown
    assert "Of 1 patient in the rest, 0 with more than 1 row" in shown and "would count 1 row." in shown
    every = sfumato(*options).stdout
    assert "6 rows read. They are of all periods, by day; --period looks at one, as a release does." in every
    (table / "visits.yaml").write_text(SCHEMA + "series: {period: month, unit: person in at most 2 months}\n")
    shown = sfumato(*options, "--period", "2026-02").stdout
    assert "6 rows read. The schema names no column of periods: a release of a month counts all of them." in shown
    assert "would count at most 4 rows: none of whoever was in 2 others." in shown
    for stated, period, told in ((SCHEMA, "2026-01", "no series"), (SCHEMA + series, "2026-13", "is no month")):
        (table / "visits.yaml").write_text(stated)
        run = sfumato(*options, "--period", period)
        assert run.returncode == 1 and told in run.stderr and run.stderr.count("\n") == 1
