"""What a newcomer does: one file with a value at its end, one line in the registry, and nothing else.

Everything that knows mechanisms must then know this one. Whoever adds a list of names somewhere breaks this test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from registering import leave_only
from thinned import every_seventh_pair

from sfumato.errors import MechanismError
from sfumato.kernel.budget import Budget
from sfumato.lab.audit.report import Effort, attack
from sfumato.lab.audit.subjects.registry import all_subjects
from sfumato.models import MECHANISMS, MODULES, find_mechanism
from sfumato.planner.choose import choose_mechanism
from sfumato.planner.plan import make_plan
from sfumato.publishing.prepare import Request, prepare
from sfumato.publishing.publish import release
from sfumato.queries import Total, Workload
from sfumato.releases.release import open_release
from sfumato.schema import Schema

LINEAR = '''
"""Halves: noise on the total, and as much on either half and on every cell."""

from sfumato.models.base.measure_and_fit import linear
from sfumato.models.base.mechanism import Forecast, Holds, Mechanism
from sfumato.queries import Identity, Ranges, Stack, Total
from sfumato.queries.strategy import Strategy


def halves_strategy(schema, workload, pure):
    size = schema.domain.size
    return Strategy(Stack(Total(size), Ranges(size, [0, size // 2], [size // 2 - 1, size - 1]), Identity(size)))


MECHANISM = Mechanism(
    name="toy",
    summary="noise on the total, the halves and the cells",
    run=linear(halves_strategy),
    holds=Holds(most_cells=64),
    forecast=Forecast(strategy=halves_strategy),
)
'''
TRIED = '''
"""Smoothed: noisy cells of which the plan knows nothing, as if they were smoothed afterwards."""

from sfumato.models.base.measure_and_fit import every_cell, measure_and_fit
from sfumato.models.base.mechanism import Holds, Mechanism


def toy(curator, schema, budget, workload=None):
    return measure_and_fit(curator, schema, every_cell(schema), budget)


MECHANISM = Mechanism(name="toy", summary="noise on every cell, as far as anyone knows", run=toy, holds=Holds(64))
'''


def line(cells: int, **more: object) -> Schema:
    axis = {"type": "integer", "lower": 0, "upper": cells - 1}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"x": axis}, **more})


@pytest.fixture(params=[LINEAR, TRIED], ids=["linear", "tried"])
def file(request, tmp_path, monkeypatch):
    """The file, and the line."""
    path = tmp_path / "toy_of_a_newcomer.py"
    path.write_text(request.param)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(MODULES, "toy", "toy_of_a_newcomer")
    yield path
    sys.modules.pop("toy_of_a_newcomer", None)


def test_it_is_found_and_listed(file: Path):
    assert find_mechanism("toy") is MECHANISMS["toy"] and list(MECHANISMS)[-1] == "toy"
    with pytest.raises(MechanismError, match="laplace, toy"):
        find_mechanism("magic")
    code = "from sfumato.models import MODULES; MODULES['toy'] = 'nothing'\n"
    code += "import sys; sys.argv = ['sfumato', 'release', '--help']; from sfumato.cli import main; main()"
    wide = os.environ | {"COLUMNS": "200"}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=wide).stdout
    assert "laplace, toy, " in " ".join(said.replace("│", " ").split())


def test_where_it_does_not_fit_it_says_so_and_names_another(file: Path):
    refused = "toy takes at most 64 cells, there are 65; use hierarchical or cells"
    with pytest.raises(MechanismError, match=refused):
        prepare(Request(line(65), 1, mechanism="toy"))
    with pytest.raises(MechanismError, match=refused):
        make_plan(line(65), epsilon=1, mechanism="toy")
    taken = prepare(Request(line(64), 1, mechanism="toy", delta="1e-6"))
    assert taken.cost.pure  # it did not say that it takes Gaussian noise


def test_it_is_planned_beside_the_others_and_by_itself(file: Path):
    how = find_mechanism("toy").error
    (beside,) = (found for found in make_plan(line(8), epsilon=1, every=True).outlooks if found.mechanism == "toy")
    alone = make_plan(line(8), epsilon=1, mechanism="toy")
    assert beside.how == alone.outlooks[0].how == how and beside.overall == alone.outlooks[0].overall > 0
    (least,) = make_plan(line(8), error=100, mechanism="toy").outlooks
    assert least.epsilon is not None and least.about is (how != "exact")


def test_auto_takes_it_where_it_is_best(file: Path, monkeypatch):
    """Beside the plainest alone, and asked for the total: that is what it measures, if the plan can know."""
    leave_only(monkeypatch, ["cells", "sparse-cells", "toy"])
    name = choose_mechanism(line(60), Budget.pure(1), Workload(("everyone",), (Total(60),))).name
    assert name == ("toy" if find_mechanism("toy").error == "exact" else "cells")


@pytest.mark.full
def test_it_is_attacked(file: Path, monkeypatch):
    """Sampled, asked for intervals, and replayed, on every seventh of the small tables."""
    every_seventh_pair(monkeypatch)
    assert sum(subject.name.startswith("toy, ") for subject in all_subjects()) > 0
    report = attack(["toy"], Effort(4_000, 1_000, 200, 10, 2), lambda what, share: None)
    assert not report.violated and [row.name for row in report.rows] == ["toy"]
    assert report.rows[0].coverage > 0.8 and {found.name.split(", ")[0] for found in report.replayed} == {"toy"}


def test_it_is_released_opened_and_asked(file: Path, tmp_path):
    table = pa.table({"x": [1, 1, 1, 5] * 50})
    made = release(table, line(8, budget={"epsilon": 1}), 1, mechanism="toy", ledger=tmp_path / "ledger")
    opened = open_release(made.save(tmp_path / "r.sfumato"))
    ((found,),) = opened.query("SELECT COUNT(*) FROM t WHERE x < 4").rows
    assert opened.mechanism == "toy" and abs(found.value - 150) < 100 and found.low < found.value < found.high
