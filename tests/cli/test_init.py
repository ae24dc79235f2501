"""sfumato init, from the curator's side: types from names, nothing from rows."""

import yaml
from running import sfumato


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
