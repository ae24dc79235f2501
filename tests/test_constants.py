"""The page of constants: every number on it is the code's, and no number of the folders it covers is missing."""

from __future__ import annotations

import ast
import importlib
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = "benchmarks/constants.py"  # which halves and doubles
PACKAGE = ROOT / "src" / "sfumato"
SETTINGS = ("Settings", "Learning")  # whose fields are constants too
FORMS = {"content.py", "file.py", "export.py"}  # what a file may hold and how answers are shown
COVERED = ("models", "answers", "lab/papers", "planner")
WRITTEN = {"linspace": np.linspace, "arange": np.arange, "logspace": np.logspace, "exp": np.exp}
WRITTEN |= {"sqrt": math.sqrt, "log": math.log, "pi": math.pi}


def listed() -> Iterator[tuple[str, object]]:
    """Every name on the page with its value; a line may have several, separated by commas."""
    for line in (ROOT / "docs" / "constants.md").read_text().splitlines():
        if line.startswith("| `"):
            first, second = (cell.strip() for cell in line.split("|")[1:3])
            names, value = re.findall(r"`([\w.]+)`", first), eval(second, {"__builtins__": {}}, WRITTEN)
            yield from [(names[0], value)] if len(names) == 1 else zip(names, value, strict=True)


def looked_up(name: str) -> object:
    """A constant of a module, or the default of a field: `module.NAME` or `module.Settings.field`."""
    parts = name.split(".")
    modules = next(
        count for count in range(len(parts), 0, -1) if PACKAGE.joinpath(*parts[:count]).with_suffix(".py").exists()
    )
    found: object = importlib.import_module("sfumato." + ".".join(parts[:modules]))
    for part in parts[modules:]:
        found = getattr(found() if isinstance(found, type) and is_dataclass(found) else found, part)
    return found


def numeric(value: object) -> bool:
    if isinstance(value, dict):
        return numeric(tuple(value)) and numeric(tuple(value.values()))
    if isinstance(value, tuple):
        return bool(value) and all(numeric(one) for one in value)
    return isinstance(value, int | float | Fraction | np.ndarray) and not isinstance(value, bool)


def constants(path: Path) -> Iterator[str]:
    """The numbers that a module gives a name in capitals, and its settings; what it imports is another's."""
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.parse(path.read_text()).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in (one for top in targets for one in ast.walk(top) if isinstance(one, ast.Name)):
            if re.fullmatch("[A-Z][A-Z0-9_]*", target.id) and numeric(looked_up(f"{name}.{target.id}")):
                yield f"{name}.{target.id}"
        if isinstance(node, ast.ClassDef) and node.name in SETTINGS:
            fields = [one.target.id for one in node.body if isinstance(one, ast.AnnAssign)]
            yield from (
                f"{name}.{node.name}.{one}" for one in fields if numeric(looked_up(f"{name}.{node.name}.{one}"))
            )


@pytest.mark.parametrize(("name", "value"), [pytest.param(*pair, id=pair[0]) for pair in listed()])
def test_the_page_has_the_values_of_the_code(name, value):
    found = looked_up(name)
    same = (
        found == value
        if isinstance(found, dict)
        else np.array_equal(np.asarray(found, float), np.asarray(value, float))
    )
    assert same, f"{name} is {found}; set docs/constants.md right"


@pytest.mark.parametrize("folder", COVERED)
def test_every_number_is_on_the_page(folder):
    paths = [path for path in sorted((PACKAGE / folder).rglob("*.py")) if path.name not in FORMS]
    named = [name for path in paths for name in constants(path)]
    page = [name for name, _ in listed()]
    assert len(named) > 5 and sorted(set(page)) == sorted(page)
    missing = sorted(set(named) - set(page))
    assert not missing, f"missing from docs/constants.md: {', '.join(missing)}"


def tried() -> dict[str, object]:
    """The constants that the script knows, with the values that it sets them to and the trials that it runs."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    return importlib.import_module("constants_tried").TRIED


def citing() -> list[str]:
    """Every name in a row of the page that says that the script tried it."""
    lines = (ROOT / "docs" / "constants.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| `") and SCRIPT in line]
    return [name for row in rows for name in re.findall(r"`([\w.]+)`", row.split("|")[1])]


def test_what_is_called_tried_is_known_to_the_script():
    assert len(citing()) > 50
    unknown = sorted(set(citing()) - set(tried()))
    assert not unknown, f"docs/constants.md says that {SCRIPT} tried {', '.join(unknown)}, which it does not know"


@pytest.mark.parametrize("name", list(tried()))
def test_the_script_tries_two_other_values_of_a_constant_that_there_is(name):
    value, known = looked_up(name), {"np": np, "Fraction": Fraction}
    others = [eval(text, known) for text in (tried()[name].lower, tried()[name].higher)]
    for other in others:
        assert isinstance(
            other, type(value) if isinstance(value, dict | tuple | np.ndarray) else int | float | Fraction
        )
        assert not np.array_equal(np.asarray(list_of(other), object), np.asarray(list_of(value), object))


def list_of(value: object) -> list[object]:
    return [repr(value.tolist() if isinstance(value, np.ndarray) else value)]


def test_the_trials_are_known():
    """Without running any, which takes minutes."""
    text = (ROOT / "benchmarks" / "constants_trials.py").read_text()
    named = {trial for one in tried().values() for trial in one.trials}
    models = {"ridge", "gaussian", "bagging", "boosting"}
    assert not [trial for trial in named if f'"{trial}"' not in text] and models <= named


def test_a_constant_is_replaced_wherever_it_was_copied_and_its_reads_are_noted(tmp_path):
    """In a process of its own: a number made of another one follows, and so does a default."""
    code = """
import sys
sys.path.insert(0, "benchmarks")
from constants_patched import Patched
first = Patched(sys.argv[1], sys.argv[2])
first.patch()
"""
    nearly = code + "from sfumato.models.tree import split_prior as p; print(p.UNEVEN[5], first.reads)"
    assert run_alone(nearly, "models.tree.split_prior.NEARLY", "(1/2, 1/4, 1/8, 1/16)") == "0.25 0"
    default = code + (
        "from sfumato.planner.questions import sampled; from sfumato.queries import Identity;"
        "print(len(sampled(Identity(100))), first.reads > 0)"
    )
    assert run_alone(default, "planner.questions.MOST_SAMPLED", "7") == "7 True"
    field = code + ("from sfumato.models.partition.search import Boxes; print(first.reads, Boxes().first, first.reads)")
    assert run_alone(field, "models.partition.search.Boxes.first", "Fraction(1, 3)") == "0 1/3 1"


def run_alone(code: str, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
