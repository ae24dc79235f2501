"""The page of constants: every number on it is the code's, and no number of the folders it covers is missing."""

from __future__ import annotations

import ast
import importlib
import math
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
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
