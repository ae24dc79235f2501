"""The script that measures the house reads the source as it says."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "benchmarks" / "house.py"


def loaded():
    specification = importlib.util.spec_from_file_location("house", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_what_is_read_off_the_source_is_printed_beside_what_was_asked_for():
    run = subprocess.run([sys.executable, str(SCRIPT), "--quick"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    head, *rows = run.stdout.splitlines()
    assert head.split() == ["now", "asked"] and len(rows) == 6
    modules = next(row for row in rows if row.startswith("modules of src"))
    assert f" {len(list((ROOT / 'src' / 'sfumato').rglob('*.py')))} / " in modules


def test_edges_are_found_wherever_an_import_stands():
    text = "import sfumato.b\nif TYPE_CHECKING:\n    from sfumato.c import name\ndef f():\n    from sfumato import d\n"
    graph = loaded().import_graph({"a.py": text, "b.py": "", "c.py": "import sfumato.a", "d.py": "", "__init__.py": ""})
    assert graph["a.py"] == {"b.py", "c.py", "d.py"}
    assert loaded().circles(graph) == [["a.py", "c.py"]]


def test_functions_count_and_imports_do_not(tmp_path, monkeypatch):
    house = loaded()
    monkeypatch.setattr(house, "PACKAGE", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "called_one.py").write_text("def f(): import imported_one")
    (tmp_path / "imported_one.py").write_text("def g(): pass\ng()\nclass C:\n    x = [n for n in range(3)]\n")
    (tmp_path / "idle_one.py").write_text("def h(): pass")
    import called_one  # made above

    files: set[str] = set()
    with house.watched(files):
        import idle_one  # noqa: F401

        called_one.f()
    assert files == {"called_one.py"}


def test_judgements_are_counted_by_name_and_not_in_the_last_table():
    row = "| `a.B`, `a.C` | 1, 2 | what | judgement | |\n"
    page = f"## One\n{row}| `a.D` | 1 | judgement of noise | tried | |\n| `a.E` | 3 | what | tried | |\n## Last\n{row}"
    assert loaded().judgements(page) == 2
