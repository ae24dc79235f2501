"""The layers of tests: every test is in one, and every line that takes one out of `make test` names some."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from layers import ENGINES, FULL, NAMES, layer_of, mark_layers

ROOT = Path(__file__).parent.parent
LINES = {**ENGINES, **FULL}


def names_of_tests() -> list[str]:
    """Every test function, as pytest calls it but for its parameters."""
    found = []
    for path in (ROOT / "tests").rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = (node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
        found += [f"{path.relative_to(ROOT).as_posix()}::{name}" for name in names]
    return found


TESTS = names_of_tests()


@pytest.mark.parametrize("line", LINES)
def test_every_line_names_a_test_and_has_a_reason(line):
    plain = re.sub(r"\\\[.*", "", line)  # parameters are known to pytest alone
    assert LINES[line] and any(re.match(plain, name) for name in TESTS)


def item(nodeid: str, *marks: str) -> SimpleNamespace:
    kept = [SimpleNamespace(name=name) for name in marks]
    made = SimpleNamespace(nodeid=nodeid, own_markers=kept)
    made.get_closest_marker = lambda name: next((mark for mark in made.own_markers if mark.name == name), None)
    made.add_marker = lambda name: made.own_markers.append(SimpleNamespace(name=name))
    return made


def test_a_test_has_one_layer_whatever_it_is_marked_with():
    both = item("tests/test_wheel.py::test_x", "full", "engines", "parametrize")
    plain, long = item("tests/a/test_b.py::test_c"), item("tests/a/test_b.py::test_d", "full")
    assert mark_layers([both, plain, long]) == {"engines": 1, "test": 1, "full": 1}
    marks = [{mark.name for mark in one.own_markers} & {*NAMES} for one in (both, plain, long)]
    assert marks == [{"engines"}, set(), {"full"}]


@pytest.mark.parametrize("name", [name for name in TESTS if "/attacks/test_exact" in name])
def test_exact_audits_stay_in_the_first_layer(name):
    assert layer_of(item(name)) == "test"


def test_mutants_that_a_check_finds_stay_in_the_first_layer():
    name = "tests/lab/audit/mutants/test_registry.py::test_is_caught[whoever]"
    assert layer_of(item(name)) == "test" and layer_of(item(name, "full")) == "full"


def test_continuous_integration_runs_every_layer():
    script, recipes = (ROOT / ".ci" / "run").read_text(), (ROOT / "Makefile").read_text()
    for target in ("test", "layers", "test-full", "test-engines"):
        assert re.search(rf"^(exec )?make {target}\b", script, re.M) and f"\n{target}: " in recipes
    assert (
        recipes.count("-m 'not full and not engines'") == recipes.count("-m full") == recipes.count("-m engines") == 1
    )
