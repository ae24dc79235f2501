"""sfumato schema: every mistake with its line and column, and the JSON Schema."""

import json

from running import sfumato

from sfumato.schema.json_schema import json_schema

BAD = "dataset: t\nprivacy_unit: row\nattributes:\n  age: {type: integer, lower: 0, uper: 9}\n"


def test_mistakes_have_places_and_exit_code_1(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.yaml").write_text(BAD)
    run = sfumato("schema", "check", "people.yaml")
    assert run.returncode == 1
    assert [line.split(": ")[0] for line in run.stdout.splitlines()] == ["people.yaml:4:3", "people.yaml:4:34"]
    assert run.stderr.strip() == "sfumato: people.yaml has 2 mistakes; mend and check again"
    told = sfumato("schema", "check", "people.yaml", "--json")
    assert told.returncode == 1
    assert [(one["line"], one["column"]) for one in json.loads(told.stdout)["mistakes"]] == [(4, 3), (4, 34)]


def test_a_good_one_is_said_to_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.yaml").write_text(BAD.replace("uper", "upper"))
    run = sfumato("schema", "check", "people.yaml")
    assert run.returncode == 0 and run.stdout == "people.yaml: no mistake; 1 attribute, 0 measures, 10 cells\n"
    missing = sfumato("schema", "check", "none.yaml")
    assert missing.returncode == 1 and "none.yaml: there is no such file" in missing.stderr


def test_the_json_schema_is_printed_or_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert json.loads(sfumato("schema", "json").stdout) == json_schema()
    run = sfumato("schema", "json", "-o", "s.json")
    assert run.returncode == 0 and "$schema=s.json" in run.stdout
    assert json.loads((tmp_path / "s.json").read_text()) == json_schema()
