"""sfumato init, from the curator's side: types from names, nothing from rows."""

import sqlite3

import duckdb
import yaml
from running import as_process, sfumato

from sfumato.schema import Schema


def test_a_csv_file_gives_types_by_its_names_examples_and_a_unit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text(
        "patient_no;age;sex;arrival_date;charge;remarks\n424242;17;secret;2024-01-01;9;x\n"
    )
    run = sfumato("init", "visits.csv", "--delimiter", ";")
    assert run.returncode == 0, run.stderr
    kinds = {name: part["type"] for name, part in yaml.safe_load(run.stdout)["attributes"].items()}
    assert kinds == {"age": "integer", "sex": "category", "arrival_date": "date", "charge": "number", "remarks": None}
    assert "secret" not in run.stdout and "424242" not in run.stdout and "17" not in run.stdout
    assert "  # age: {type: integer, lower: 0, upper: 120}" in run.stdout
    assert "# measures:" in run.stdout and "#   charge: {lower: , upper: }" in run.stdout
    assert "patient_no looks like a person's" in run.stdout
    assert yaml.safe_load(run.stdout)["file"] == {"delimiter": ";"}


def test_json_lines_do_not_say_what_they_hold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.jsonl").write_text('{"age": 1}\n')
    assert "--columns" in sfumato("init", "t.jsonl").stderr
    assert "age:" in sfumato("init", "t.jsonl", "--columns", "age,sex").stdout


def test_names_with_blanks_and_hyphens_are_understood(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "staff.csv").write_text("Employee ID,Patient-Nr,Full time,Hired,Alter\n")
    text = sfumato("init", "staff.csv").stdout
    kinds = {name: part["type"] for name, part in yaml.safe_load(text)["attributes"].items()}
    assert kinds == {"Full time": "boolean", "Hired": "date", "Alter": "integer"}
    assert "Employee ID" in text and "Patient-Nr" in text


def test_nothing_but_the_draft_is_printed(tmp_path, monkeypatch):
    """As a process: what an engine says of itself when Python ends is no concern of the user."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("age\n1\n")
    run = as_process("init", "t.csv")
    assert (
        run.returncode == 0
        and run.stderr == ""
        and run.stdout.startswith("# yaml-language-server: $schema=sfumato.schema.json\n# Draft")
    )


def test_what_the_first_line_names_lies_beside_the_draft(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("age\n1\n")
    (tmp_path / "in").mkdir()
    run = sfumato("init", "t.csv", "-o", "in/t.yaml")
    named = (tmp_path / "in" / "t.yaml").read_text().splitlines()[0].partition("$schema=")[2]
    beside = tmp_path / "in" / named
    assert beside.read_text() == sfumato("schema", "json").stdout and f"in/{named}: by it an editor" in run.stdout
    again = sfumato("init", "t.csv", "-o", "in/t.yaml")
    assert again.returncode == 0 and named not in again.stdout
    beside.write_text("of another version")
    assert f"kept as in/{named}.~1~" in sfumato("init", "t.csv", "-o", "in/t.yaml").stdout
    assert beside.read_text() != "of another version"


FOURTEEN = "person_id,sex,age,household,region,income,hours,married,health,smoker,zone,interview,satisfied,height"
BOOK = """variable;value;label;type;min;max
sex;1;female;;;
;2;male;;;
age;;;integer;0;120
household;;;integer;1;20
person_id;;;integer;;
region;N;North;;;
region;S;South;;;
income;;;number;0;200000
hours;0..80;;;;
married;1=yes|2=no;;;;
health;1;good;;;
health;2;bad;;;
smoker;0;no;;;
smoker;1;yes;;;
zone;1|2|3|4|5|6|7|8|9|10|11|12;;;;
interview;2020-01-01..2020-12-31;;;;
satisfied;1;low;;;
satisfied;2;high;;;
height;;;number;40;220
"""


def test_fourteen_columns_and_a_codebook_are_a_schema_in_one_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(FOURTEEN + "\n424242,secret,1,1,N,1,1,1,1,1,1,2020-01-01,1,1\n")
    (tmp_path / "book.csv").write_text(BOOK)
    more = ("--unit", "person_id", "--contributions", "2", "--epsilon", "3", "--measures", "income,hours")
    run = sfumato("init", "people.csv", "--codebook", "book.csv", *more, "-o", "people.yaml")
    assert run.returncode == 0, run.stderr
    assert "13 of 14 columns are as book.csv describes them." in run.stdout and "no blank is left" in run.stdout
    schema = Schema.load(tmp_path / "people.yaml")
    assert len(schema.attributes) == 13 and list(schema.measures) == ["income", "hours"] and schema.epsilon == 3
    assert schema.privacy_unit.contributions == 2 and schema.attributes["zone"].values == tuple(range(1, 13))
    text = (tmp_path / "people.yaml").read_text()
    assert "and from the codebook book.csv: check that it is public" in text
    assert "secret" not in text and "424242" not in text
    assert sfumato("schema", "check", "people.yaml").returncode == 0


def test_codebooks_and_options_that_fit_no_column_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("age,sex\n1,F\n")
    (tmp_path / "book.csv").write_text("variable,value\nalter,1\n")
    for more, said in [
        (("--codebook", "book.csv"), "book.csv describes alter, and the table has age, sex; name the same columns"),
        (("--codebook", "none.csv"), "none.csv: the codebook cannot be read"),
        (("--unit", "who"), "the table has no column 'who'; it has age, sex"),
        (("--measures", "pay"), "the table has no column 'pay'"),
        (("--epsilon", "much"), "much"),
    ]:
        run = sfumato("init", "t.csv", *more)
        assert run.returncode == 1 and said in run.stderr and run.stdout == "", run.stderr


def test_examples_fit_names_and_types(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("birth_year,heating_rate,home_country,pickup_time\n")
    text = sfumato("init", "t.csv").stdout
    assert "  # birth_year: {type: integer, lower: 1900, upper: 2030}" in text
    assert "  # heating_rate: {type: number, lower: 0, upper: 1, width: 0.05}" in text
    assert "  # home_country: {type: category, values: [AT, CH, DE], other: true}" in text
    assert "  # pickup_time: {type: date, lower: 2020-01-01, upper: 2024-12-31, by: hour}" in text


DECLARED = """CREATE TABLE visits (
    patient_id INTEGER CHECK (patient_id >= 1), sex {sex}, age INTEGER CHECK (age BETWEEN 0 AND 120), ward TEXT,
    cost DOUBLE, CHECK (cost >= 0 AND cost <= 500), CHECK (ward IN ('A', 'it''s B')))"""


def test_what_a_database_declares_is_taken_on_demand_and_marked(tmp_path, monkeypatch):
    """From DuckDB and from SQLite: lists and bounds, no row, and nothing without the option."""
    monkeypatch.chdir(tmp_path)
    for engine, run, sex in (
        ("duckdb", duckdb.connect("v.duckdb"), "ENUM ('f', 'm')"),
        ("sqlite", sqlite3.connect("v.sqlite"), "TEXT CHECK (sex IN ('f', 'm'))"),
    ):
        run.execute(DECLARED.format(sex=sex))
        run.execute("INSERT INTO visits VALUES (424242, 'f', 17, 'A', 77.5)")
        run.commit()
        run.close()
        address = ("init", f"{engine}:///v.{engine}", "--table", "visits", "--unit", "patient_id", "--epsilon", "1")
        plain, text = sfumato(*address).stdout, sfumato(*address, "--from-declarations").stdout
        drafted = yaml.safe_load(text)["attributes"]
        assert drafted["sex"] == {"type": "category", "values": ["f", "m"], "other": False}
        assert drafted["age"] == {"type": "integer", "lower": 0, "upper": 120}
        assert drafted["ward"]["values"] == ["A", "it's B"] and "patient_id" not in drafted
        assert (drafted["cost"]["lower"], drafted["cost"]["upper"]) == (0, 500)
        assert text.count("keep it only if it was written down before") == 4 and "are they public?" in text
        assert "424242" not in text and "17" not in text and "77" not in text
        assert yaml.safe_load(plain)["attributes"]["ward"]["values"] is None and "it's B" not in plain
        out = sfumato(*address, "--from-declarations", "-o", f"{engine}.yaml")
        assert "4 of 5 columns have a list or bounds in the database: are they public?" in out.stdout
        assert Schema.load(tmp_path / f"{engine}.yaml").domain.size == 2 * 121 * 2 * 20


def test_only_a_database_declares_anything(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("age\n1\n")
    refused = sfumato("init", "t.csv", "--from-declarations")
    assert refused.returncode == 1 and "leave --from-declarations out" in refused.stderr and not refused.stdout
    with duckdb.connect("v.duckdb") as file:
        file.execute("CREATE TABLE t (age INTEGER CHECK (age >= 0)); CREATE VIEW w AS FROM t")
    refused = sfumato("init", "duckdb:///v.duckdb", "--table", "w", "--from-declarations")
    assert refused.returncode == 1 and "a view declares no types" in refused.stderr


def test_a_draft_that_no_schema_could_be_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twice.csv").write_text("sex,sex\nF,M\n")
    (tmp_path / "wide.csv").write_text(",".join(f"{'wide' * 300}_{number}" for number in range(400)) + "\n")
    for table, words in (
        ("twice.csv", "several of them called 'sex'"),
        ("wide.csv", "400 columns is larger than 1 MB"),
    ):
        run = sfumato("init", table, "-o", "draft.yaml", "--no-questions")
        assert run.returncode == 1 and words in run.stderr and run.stderr.count("\n") == 1
        assert not (tmp_path / "draft.yaml").exists()


def test_the_file_of_a_database_is_told_by_its_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sqlite3.connect("shop.sqlite").close()
    assert "write sqlite:///shop.sqlite --table NAME" in sfumato("init", "shop.sqlite").stderr
