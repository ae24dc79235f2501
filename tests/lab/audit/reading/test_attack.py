"""The reading audit finds nothing on any source, and would find what was mended."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest
from thinned import of_this_commit

from sfumato.kernel.reading.table import open_table
from sfumato.lab.audit.reading.attack import attack_source, attack_values, reading_finding
from sfumato.lab.audit.reading.sources import SOURCES
from sfumato.lab.audit.reading.tables import Case
from sfumato.schema import Schema


@pytest.mark.parametrize("name", SOURCES)
def test_no_unit_moves_more_than_is_charged(name):
    """A dozen pairs, others with every commit; a reader that errs on one pair in ten passes one run in four."""
    if not SOURCES[name].here:
        pytest.skip(f"needs {SOURCES[name].needs}")
    found = reading_finding(name, 12, seed=of_this_commit() % 997)
    assert found.complaints == ()


@pytest.mark.parametrize("name", SOURCES)
def test_no_unit_moves_more_than_is_charged_by_many_pairs(name, full):
    """Over 1,000 pairs over all sources; any number in full. What is read draws nothing at random: it holds or not."""
    if not SOURCES[name].here:
        pytest.skip(f"needs {SOURCES[name].needs}")
    # Of long files a few stand for many, and of malformed ones few reach a cell.
    wanted = 300 if "malformed" in name else 180 if "long files" in name else 120
    found = reading_finding(name, 3_000 if full else wanted, seed=7)
    assert found.complaints == ()
    assert found.pairs >= 6
    assert found.largest == 1  # rows of one unit do reach what is charged, so the pairs are worth something


def test_a_look_at_values_without_a_cap_is_found():
    """Three people with three values each, of whom one or two values are asked for."""
    import pyarrow as pa

    schema = Schema(
        dataset="t",
        privacy_unit={"column": "who", "contributions": 1},
        attributes={"x": {"type": "category", "values": ["a"]}},
    )
    rows = tuple({"who": who, "x": value} for who in "pqr" for value in "abc")
    case = Case(
        schema, rows[:-1], lambda row: row["who"], lambda parts: open_table(pa.Table.from_pylist([*parts])), list
    )

    def uncapped(parts):
        table = case.open(parts)
        read = table.read_values
        object.__setattr__(table, "read_values", lambda schema, key, most: read(schema, key, 60))
        return table

    assert attack_values(case) == (3, 1.0, [])  # eight rows: three values
    shorter = replace(case, parts=rows[:-2])  # seven rows: two values
    assert attack_values(shorter) == (3, 1.0, [])
    _, moved, complaints = attack_values(replace(shorter, open=uncapped))
    assert moved == 1.5
    assert "more values than were asked for" in complaints[0]


def test_an_attack_stops_at_the_first_complaint_unless_it_is_patient():
    from sfumato.lab.audit.mutants.readers import EngineReadsCsv
    from sfumato.lab.audit.reading.sources import csv_source

    broken = partial(csv_source, files=EngineReadsCsv)
    hasty = attack_source("broken", broken, 10_000, patient=False)
    assert hasty.complaints and hasty.pairs < 1_000
    assert not hasty.sound and hasty.verdict.startswith("VIOLATION")


@pytest.mark.parametrize("library", ["duckdb", "sqlglot"])
def test_what_runs_the_private_statement_is_of_a_version_that_was_audited(library):
    """The pin names one major version, and this suite, in which the reading audit runs, is run with that one.

    Whoever raises the pin must install the new version for the tests; then the audit of every source decides.
    """
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    (pin,) = (line for line in project["dependencies"] if re.match(rf"{library}\b", line))
    bounds = re.fullmatch(rf"{library}>=([0-9]+)(\.[0-9.]+)?,<([0-9]+)", pin)
    assert bounds is not None, f"{pin!r} does not keep to one major version"
    assert int(bounds[3]) == int(bounds[1]) + 1
    assert version(library).split(".")[0] == bounds[1]
