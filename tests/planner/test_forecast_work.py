"""A plan is the same on every machine: trials are rationed by counted work, never by a clock."""

import ast
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato
from sfumato.kernel.budget import Budget
from sfumato.models import MECHANISMS
from sfumato.planner import forecast as expect
from sfumato.planner.plan import make_plan
from sfumato.planner.report import as_text
from sfumato.planner.simulate import try_out
from sfumato.queries import default_workload
from sfumato.schema import Schema

SOURCE = Path(sfumato.__file__).parent
CLOCKS = ("time", "process_time", "perf_counter", "monotonic", "thread_time")


def line_of(cells: int, rows: int) -> Schema:
    attributes = {"x": {"type": "integer", "lower": 0, "upper": cells - 1}}
    return Schema.from_dict({"dataset": "w", "privacy_unit": "row", "attributes": attributes, "expected_rows": rows})


@pytest.mark.parametrize("folder", ["planner", "models", "queries"])
def test_nothing_that_a_plan_rests_on_imports_a_clock(folder):
    files = sorted((SOURCE / folder).rglob("*.py"))
    assert len(files) > 5
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & {"time", "timeit", "datetime"}, file.name


@pytest.mark.full
def test_a_plan_is_the_same_whether_the_clock_runs_fast_or_slow(monkeypatch):
    """By a clock that gains an hour at every look half of these trials would end after the first shape."""
    schema = line_of(100, 2000)
    genuine = {id(getattr(time, clock)) for clock in CLOCKS}
    ours = [module for name, module in sys.modules.items() if name.startswith("sfumato.")]
    # Names that a module imported for itself are replaced too.
    bound = [
        (module, name)
        for module in ours
        for name, value in vars(module).items()
        if any(value is one for one in genuine)
    ]
    clocks = [(time, clock) for clock in CLOCKS] + bound
    texts = []
    for step in (0.0, 3600.0):
        now = [0.0]

        def look(step=step, now=now) -> float:
            now[0] += step
            return now[0]

        for holder, name in clocks:
            monkeypatch.setattr(holder, name, look)
        texts.append(as_text(make_plan(schema, epsilon=Fraction(1, 2), every=True)))
    monkeypatch.undo()
    assert texts[0] == texts[1] == as_text(make_plan(schema, epsilon=Fraction(1, 2), every=True))
    assert "mwem" in texts[0] and "some shapes only" not in texts[0]


def test_shapes_are_tried_until_the_work_is_spent():
    """Work is the same for every shape: of a bound of twice the work of one, three are begun; without one, all five."""
    schema, budget = line_of(50, 500), Budget.pure(1)
    workload, dawa = default_workload(schema.domain), MECHANISMS["dawa"]
    work = dawa.forecast.work(schema, workload, budget, 500)
    for most, shapes in ((0, 1), (work - 1, 1), (work, 2), (2 * work, 3), (None, 5)):
        assert len(try_out(dawa, schema, budget, workload, 1, most).by_shape) == shapes


def test_work_is_counted_as_trials_cost():
    """Half a second, at 64 changes a microsecond: what took 0.1 s a shape is tried on all, what took 1 s on one.

    Measured on one core: mwem over 100 cells 0.02 s at 100 rows and 0.12 s at 10,000; over 1,024 cells at 102,400 rows
    1.1 s; over 64 x 64 cells 10 s, nearly all of it for the many boxes. kdtree and dawa over 4,096 cells 0.1 s.
    """

    def seconds(name, schema):
        asked = default_workload(schema.domain)
        return MECHANISMS[name].forecast.work(schema, asked, Budget.pure(1), schema.expected_rows) / 2**26

    square = {name: {"type": "integer", "lower": 0, "upper": 63} for name in ("x", "y")}
    boxes = Schema.from_dict({"dataset": "w", "privacy_unit": "row", "attributes": square, "expected_rows": 4096})
    assert expect.MOST_WORK / 2**26 == 0.5
    assert seconds("mwem", line_of(100, 100)) < 0.05
    assert 0.06 < seconds("mwem", line_of(100, 10_000)) < 0.25
    assert 0.5 < seconds("mwem", line_of(1024, 102_400)) < 2
    assert seconds("mwem", boxes) > 2
    assert all(seconds(name, line_of(4096, 4096)) < 0.25 for name in ("sparse-cells", "kdtree", "ispe", "dawa"))
