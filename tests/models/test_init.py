"""The registry is read lazily; besides a mechanism's own file it is the only place where its name is more than text.

A name in code is a condition, a choice or a list that the next newcomer would have to find. So no string in the source
may be equal to the name of a mechanism, whatever it is used for, but for words that mean something else.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.errors import MechanismError
from sfumato.models import BY_NAME_ONLY, MECHANISMS, MODULES, considered, find_mechanism, sparse_mechanism

SOURCE = Path(__file__).parents[2] / "src" / "sfumato"
OTHER_MEANINGS = {
    "cli/": {"sfumato", "cells"},  # the program; how many there are
    "schema/columns.py": {"cells"},  # how many values are told apart
    "dbapi/": {"sfumato"},  # the word before :// in an address
    "kernel/ledger/ledger.py": {"sfumato"},  # a folder of the user
    "kernel/reading/engines/": {"sfumato"},  # what a program calls itself to a server and to a keyring
    "releases/": {"sfumato", "cells", "matrix", "laplace", "margins"},  # the format, members, kinds, families of query
    "queries/": {"cells", "matrix"},  # families of query and what they are made of, as a file names them
    "models/linear/strategies/hdmm.py": {"cells"},  # a candidate among strategies
    "lab/audit/subjects/subject.py": {"laplace"},  # the noise
    "lab/audit/report.py": {"margins"},  # what a curator is asked for
    "lab/audit/mutants/ledgers.py": {"cells"},  # what a forged entry says
    "lab/audit/mutants/outputs.py": {"cells"},  # what a forged file says
    "models/cells/cells.py": {"cells"},  # whose page it shares
    "lab/reproduce/": set(MODULES),  # papers, by the mechanisms that they are about
}


def strings_equal_to_names(source: str) -> set[str]:
    """Wherever it stands: compared with, looked up, in a tuple or a set, a key, a case, a default."""
    constants = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str)} & set(MODULES)


def conditions_on_names(source: str) -> set[str]:
    """Those that something about a mechanism is compared with or looked up by: nowhere, whatever else a word means."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        asked = isinstance(node, ast.Compare | ast.Subscript | ast.match_case | ast.Call)
        if asked and "mechanism" in ast.unparse(node).lower().split("(")[0].replace("mechanismrecord", ""):
            found |= strings_equal_to_names(ast.unparse(node))
    return found


@pytest.mark.parametrize(
    "code",
    [
        'if mechanism.name == "dawa": pass',
        'slow = name in ("cells", "pmw")',
        'TRIED = {"sfumato"}',
        'MECHANISMS["cells"].run',
        'WORK.get("mwem", 1)',
        'def choose(name: str = "cells"): ...',
        'match name:\n    case "laplace": pass',
    ],
)
def test_a_name_is_found_however_it_is_used(code):
    assert strings_equal_to_names(code)
    assert not strings_equal_to_names('raise ValueError("too many cells; use sparse-cells")')


def test_no_mechanism_is_named_outside_its_own_file():
    own = {name: module.removeprefix("sfumato.").replace(".", "/") for name, module in MODULES.items()}
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).as_posix()
        if place == "models/__init__.py":
            continue
        # The folder of a model that is named like its mechanism is its own, too.
        allowed = {
            n for n, file in own.items() if place == f"{file}.py" or f"{path.parent}/{n}/".endswith(f"/{n}/{n}/")
        }
        for start, words in OTHER_MEANINGS.items():
            allowed |= words if place.startswith(start) else set()
        found = strings_equal_to_names(path.read_text(encoding="utf-8")) - allowed
        assert not found, f"{place} names {', '.join(sorted(found))}: ask the mechanism's value instead"


def test_no_word_with_another_meaning_is_a_condition_on_a_mechanism():
    assert conditions_on_names('if release.mechanism == "cells": pass')
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).as_posix()
        if not place.startswith(("models/", "lab/papers/")):
            assert not conditions_on_names(path.read_text(encoding="utf-8")), place


def test_every_line_leads_to_a_value_of_that_name_and_page():
    for name, mechanism in MECHANISMS.items():
        assert mechanism.name == name and mechanism.summary and mechanism.paper
        assert (SOURCE.parents[1] / "docs" / mechanism.docs).exists()
    assert next(iter(MECHANISMS.values())).holds.most_cells is None  # the plainest comes first, and fits everything
    assert sparse_mechanism().holds.sparse and len(MECHANISMS) == len(MODULES)


def test_what_auto_never_loads_is_what_it_could_never_take():
    assert set(BY_NAME_ONLY) <= set(MODULES)
    for name, one in MECHANISMS.items():
        known = one.forecast.strategy is not None or one.adaptive or one.forecast.foretold is not None
        assert (name in BY_NAME_ONLY) is not (one.forecast.for_auto and one.answers == "everything" and known), name
    assert [one.name for one in considered()] == [name for name in MODULES if name not in BY_NAME_ONLY]


def test_an_unknown_name_is_refused_with_those_there_are():
    with pytest.raises(MechanismError, match=f"no mechanism 'magic'; there are auto, {', '.join(MODULES)}"):
        find_mechanism("magic")


LOADED = "print([name for name in sys.modules if name in registry.MODULES.values()])"


@pytest.mark.parametrize(
    ("before", "loaded"),
    [
        ("", []),
        ("import sfumato.cli as cli; cli.application()", []),
        ("import sfumato.publishing.publish", []),  # by which a release is opened and queried
        ("list(registry.MECHANISMS)", []),
        ('registry.find_mechanism("kdtree")', ["sfumato.models.partition.search"]),
    ],
)
def test_nothing_is_imported_before_it_is_asked_for(before, loaded):
    code = f"import sys\nimport sfumato.models as registry\n{before}\n{LOADED}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(loaded)
