"""Mechanisms in tests: one more for the length of a test, and those that take long."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType

import pytest

import sfumato.models as registry
from sfumato.kernel.budget import Budget
from sfumato.models import MECHANISMS
from sfumato.models.base.mechanism import Mechanism
from sfumato.queries import default_workload
from sfumato.schema import Schema

CELLS = 4
AXIS = {"type": "integer", "lower": 0, "upper": CELLS - 1}
TINY = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"x": AXIS}})
WORKLOAD = default_workload(TINY.domain)


def register(monkeypatch: pytest.MonkeyPatch, mechanism: Mechanism) -> Mechanism:
    """Put it into the registry, as one more module with one more line."""
    module = ModuleType(f"registered_{mechanism.name}")
    vars(module)["MECHANISM"] = mechanism
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(registry.MODULES, mechanism.name, module.__name__)
    return mechanism


def leave_only(monkeypatch: pytest.MonkeyPatch, names: Iterable[str]) -> None:
    """Take all others out of the registry; in place, they would come back in another order."""
    monkeypatch.setattr(registry, "MODULES", {name: registry.MODULES[name] for name in names})
    monkeypatch.setattr(registry, "SPECIAL", {})


def slow_mechanisms(least: int = 1024 * CELLS) -> list[str]:
    """Those whose releases take several milliseconds, on however small a table: by the work that they state.

    And ispe, whose work is stated for large tables: on small ones most of it is measuring its errors.
    """
    stated = [one.name for one in MECHANISMS.values() if one.forecast.work(TINY, WORKLOAD, Budget.pure(1), 10) >= least]
    return [*stated, "ispe"]
