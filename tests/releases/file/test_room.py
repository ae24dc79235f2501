"""How much memory a stranger's file can take: bounded by default, measured in a child of its own at the bound."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ReleaseFileError
from sfumato.releases.file.artifact import read_artifact, write_artifact
from sfumato.releases.file.consistency import MOST_CELLS, numbers_laid_out
from sfumato.releases.file.manifest import Manifest, MechanismRecord, Statistic, Total, guarantee_of
from sfumato.releases.file.records import FitRecord, LaplaceRecord, MeasurementRecord
from sfumato.schema import Schema
from sfumato.schema.schema import axis_sizes

NOISE = LaplaceRecord(Fraction(7, 2))
# Of the whole process, 87 MB of which are the interpreter and the libraries. Measured at the bound, with pyarrow 26:
# dense 273, incompressible 259, sparse 286, two long axes 229, one 249, a tree 231, nested regions 216,
# fits without estimates 190 over two axes and 302 over one.
MOST_MEGABYTES = 310
CHILD = """
import re, resource, sys
from pathlib import Path
import sfumato as sf
try:
    opened = sf.open(sys.argv[1], **({"most_cells": int(sys.argv[2])} if len(sys.argv) > 2 else {}))
    print("opened", end=" ")
except sf.SfumatoError as error:
    print("refused", end=" ")
status = Path("/proc/self/status")
if status.exists():  # Linux: getrusage starts from what the parent had, this does not
    print(int(re.search("VmHWM: *([0-9]+) kB", status.read_text().replace("\\t", " "))[1]) // 2**10)
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (2**20 if sys.platform == "darwin" else 2**10))
"""


def schema(*sizes: int) -> Schema:
    attributes = {f"x{place}": {"type": "integer", "lower": 0, "upper": size - 1} for place, size in enumerate(sizes)}
    return Schema.from_dict({"dataset": "census", "privacy_unit": "row", "attributes": attributes})


def manifest(*sizes: int) -> Manifest:
    return Manifest(
        kind="cube",
        schema=schema(*sizes).to_dict(),
        mechanism=MechanismRecord("cells"),
        guarantee=guarantee_of(Fraction(1, 2), "any one row"),
        private=True,
        statistics=[Statistic("count", "cells", "count", NOISE)],
    )


def write_dense(path, values, *sizes):
    write_artifact(path, manifest(*sizes), {"cells": {"count": np.asarray(values, dtype=np.int64)}})


def write_sparse(path, cells, *sizes):
    about = replace(manifest(*sizes), kind="sparse-cube", threshold=5, totals=[Total("count", 90, NOISE)])
    write_artifact(path, about, {"cells": {"cell": np.arange(cells), "count": np.full(cells, 7)}})


def opened_in_a_child(path, *more) -> tuple[str, int]:
    command = [sys.executable, "-c", CHILD, str(path), *map(str, more)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    outcome, megabytes = run.stdout.split()
    return outcome, int(megabytes)


def at_the_bound(path) -> None:
    """The file is nearly as large as may be, or the test would show nothing."""
    about = read_artifact(path).manifest
    assert 0.9 * MOST_CELLS < numbers_laid_out(about, axis_sizes(about.schema)) <= MOST_CELLS


@pytest.fixture
def path(tmp_path):
    return tmp_path / "r.sfumato"


def test_a_small_file_that_claims_half_a_gigabyte_is_refused_and_takes_next_to_nothing(path):
    """60 million equal counts in 1.3 MB: opening them takes 590 MB (140 million in 3 MB: 1,250 MB)."""
    write_dense(path, np.zeros(60_000_000, dtype=np.int8), 60_000, 1000)
    assert path.stat().st_size < 1_400_000
    outcome, megabytes = opened_in_a_child(path)
    assert outcome == "refused" and megabytes < 150
    with pytest.raises(ReleaseFileError, match=r"lays out 60,\d+,\d+ numbers .* --most-cells 60\d+ .*most_cells=60"):
        sf.open(path)


def test_what_is_refused_by_default_opens_with_the_option(path):
    write_dense(path, np.zeros(30_000_000, dtype=np.int8), 30_000, 1000)
    assert opened_in_a_child(path)[0] == "refused"
    outcome, megabytes = opened_in_a_child(path, 31_000_000)
    assert outcome == "opened" and megabytes > 30_000_000 * 8 / 2**20  # it did lay them out
    with pytest.raises(ReleaseFileError, match="most_cells"):
        sf.open(path, most_cells=29_000_000)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["dense", "incompressible", "sparse", "two long axes", "one long axis"])
def test_at_the_bound_opening_stays_in_bounds(path, kind):
    if kind == "dense":
        write_dense(path, np.zeros(23_800_000, dtype=np.int8), 23_800, 1000)
    elif kind == "incompressible":
        write_dense(path, np.random.default_rng(1).integers(-(2**62), 2**62, 11_000_000), 11_000, 1000)
    elif kind == "sparse":
        write_sparse(path, 10_900_000, 10**6, 10**6)
    elif kind == "two long axes":
        write_sparse(path, 9, 7_900_000, 7_900_000)
    else:
        write_dense(path, np.zeros(10_000_000, dtype=np.int8), 10_000_000)
    if kind != "one long axis":
        at_the_bound(path)
    outcome, megabytes = opened_in_a_child(path)
    assert outcome == "opened" and megabytes <= MOST_MEGABYTES, megabytes


@pytest.mark.full
@pytest.mark.parametrize(
    ("mechanism", "sides"),
    [("sfumato", (1024, 1024)), ("kdtree", (800, 900)), ("hierarchical", (2400, 2000)), ("hierarchical", (4_200_000,))],
)
def test_fits_at_the_bound_stay_in_bounds(path, mechanism, sides):
    draw = np.random.default_rng(1)
    table = pa.table({f"x{place}": draw.integers(0, side, 100_000) for place, side in enumerate(sides)})
    about = Schema.from_dict({**schema(*sides).to_dict(), "budget": {"epsilon": 1}})
    sf.release(table, about, 1, mechanism=mechanism).save(path)
    at_the_bound(path)
    outcome, megabytes = opened_in_a_child(path)
    assert outcome == "opened" and megabytes <= MOST_MEGABYTES, megabytes


def test_a_release_of_ten_million_cells_opens_by_default(path):
    """As benchmarks/speed.py makes one: noisy counts of 10,000 by 1,000 cells, about 5 MB."""
    write_dense(path, np.rint(np.random.default_rng(2).laplace(0, 1, 10_000_000)), 10_000, 1000)
    assert 4_000_000 < path.stat().st_size < 8_000_000
    outcome, megabytes = opened_in_a_child(path)
    assert outcome == "opened" and megabytes <= 250, megabytes


def test_axes_count_before_they_are_laid_out(path):
    """A few cells in a domain of two attributes of ten million values each: 160 MB of edges, twice while made."""
    write_sparse(path, 9, 10_000_000, 10_000_000)
    outcome, megabytes = opened_in_a_child(path)
    assert outcome == "refused" and megabytes < 150
    assert path.stat().st_size < 5_000


def test_sizes_are_known_without_laying_anything_out():
    attributes = {
        "a": {"type": "integer", "lower": 0, "upper": 9_999_999},
        "b": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
        "c": {"type": "category", "values": ["x", "y"], "other": True},
        "d": {"type": "nothing"},
        "e": 7,
    }
    assert axis_sizes({"attributes": attributes}) == [10_000_000, 366, 3]
    assert axis_sizes({}) == [] == axis_sizes({"attributes": [1]})


def test_what_is_counted():
    """Fits make several numbers of one, and queries may span more columns than there are cells."""
    about = manifest(10, 10)
    assert numbers_laid_out(about, [10, 10]) == 30  # no members yet: the axes, one of them twice while it is made

    def fitted(family, columns):
        measured = MeasurementRecord("count", columns, 0, 0, [NOISE])
        return replace(about, kind="fitted-cube", fits=[FitRecord("count", family, [measured])])

    assert numbers_laid_out(fitted("linear", 0), [10, 10]) == 30
    assert numbers_laid_out(fitted("shaped", 2**40), [10, 10]) == 20 + 3 * 2**25


def test_the_command_line_has_the_option(path, tmp_path, monkeypatch, capsys):
    from sfumato.cli import main

    write_dense(path, np.ones(1000, dtype=np.int8), 10, 100)
    monkeypatch.setattr("sfumato.releases.file.artifact.usual_bound", lambda size: 500)
    rows = ("--rows", "5", "-o", str(tmp_path / "x.csv"))
    for command in (("query", str(path), "SELECT COUNT(*) FROM census"), ("sample", str(path), *rows)):
        for more, code in (((), 1), (("--most-cells", "900"), 1), (("--most-cells", "5000"), 0)):
            monkeypatch.setattr(sys, "argv", ["sfumato", *command, *more])
            try:
                main()
                left = 0
            except SystemExit as stop:
                left = stop.code or 0
            said = capsys.readouterr()
            assert left == code, said
            assert code == 0 or "--most-cells 1" in said.err
