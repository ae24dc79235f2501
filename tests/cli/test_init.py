"""sfumato init, from the curator's side: types from names, nothing from rows."""

import yaml
from running import as_process, sfumato


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
    assert run.returncode == 0 and run.stderr == "" and run.stdout.startswith("# Draft")
