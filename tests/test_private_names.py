"""Private names stay private: tests use public ones, and only the audit's stated hooks reach into the kernel."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfumato.kernel.charge import Charge
from sfumato.kernel.curator import Curator
from sfumato.kernel.lines import Lines
from sfumato.lab.audit.attacks.recorder import Recorder

ROOT = Path(__file__).parent.parent
# Steps of the kernel that the audit may replace (a mutant) or read (a recorder); nobody else may.
HOOKS: dict[type, dict[str, str]] = {
    Curator: {
        "_aggregate": "the private counts, by cell",
        "_dense": "the private counts of one statistic, laid out",
        "_entropy": "the random bits it draws from",
        "_units": "the most that one row changes a cell, by statistic",
        "_noises": "which noise a measurement carries",
        "_missing_noises": "which noise missing values of a measure carry beside its sums",
        "_sift": "which cells reach a threshold",
        "_above_noises": "which noises a sparse vector carries",
        "_margin_noise": "which noise the misfits of margins carry, and what it is charged",
        "_choice_rate": "how strongly a choice follows its scores",
        "_charge_all": "what a choice is charged, in every cell",
        "_loads": "what a measurement is charged, cell by cell",
        "_running_noises": "which noise running totals carry, and what they are charged",
        "_fresh": "the noise that is drawn for one part of a series with running totals",
        "_carried": "the noise of earlier parts of such a series",
        "_held": "what it holds, before it is gathered by cell",
    },
    Lines: {"_counts": "the private rows, by line and cell"},
    Charge: {"_loads": "what each cell has borne so far", "_denominator": "in which parts that is counted"},
    Recorder: {"_Recorder__inner": "the curator that is written down"},
}
HOOKED = {name for names in HOOKS.values() for name in names}
OTHERS = {"_repr_html_", "_exit", "_PUBLIC"}  # of notebooks, of the system, and of the package's own lazy imports
OTHERS |= {"_replace"}  # of named tuples
OTHERS |= {"_wait", "_answer"}  # where a server waits and DuckDB works: tests hold them there, instead of for a time


def private_names(tree: ast.AST) -> Iterator[str]:
    """Every name with one leading underscore that is asked of another object or imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            if not _is_itself(node.value):
                yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (name.name for name in node.names if _is_private(name.name))
            yield from (part for part in (node.module or "").split(".") if _is_private(part))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_itself(node: ast.expr) -> bool:
    """self, cls or super()."""
    return ast.unparse(node) in ("self", "cls", "super()")


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("*.py")), ids=lambda path: path.stem)
def test_tests_use_no_private_name_but_the_stated_hooks(path):
    found = set(private_names(ast.parse(path.read_text(encoding="utf-8"))))
    assert found <= HOOKED | OTHERS


def test_the_audit_reaches_for_its_hooks_and_for_nothing_else():
    for path in (ROOT / "src" / "sfumato" / "lab" / "audit").rglob("*.py"):
        assert set(private_names(ast.parse(path.read_text(encoding="utf-8")))) <= HOOKED | {"_repr_html_"}, path.name


def test_every_hook_is_there():
    for kind, names in HOOKS.items():
        sources = [ast.parse(inspect.getsource(inspect.getmodule(part))) for part in kind.__mro__[:-1]]
        stored = {node.attr for source in sources for node in ast.walk(source) if isinstance(node, ast.Attribute)}
        assert {name.removeprefix(f"_{kind.__name__}") for name in names} <= stored | set(dir(kind))
