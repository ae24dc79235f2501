"""What several tests share: a small schema, a way to make curators, and a ledger of one's own."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: tests run side by side and share the cores

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from sfumato.kernel.aggregate import Aggregate
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import Entropy, TestingEntropy
from sfumato.schema import Schema

# A busy machine is no reason to fail. On a build server the same examples are tried every time, so that a change is
# judged by what it changes; on a developer's machine new ones are.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("server", parent=settings.get_profile("patient"), derandomize=True)
settings.load_profile("server" if os.environ.get("CI") else "patient")

CENSUS = {
    "dataset": "census",
    "privacy_unit": {"column": "person_id", "contributions": 1},
    "budget": {"epsilon": 3},
    "attributes": {
        "age": {"type": "integer", "lower": 0, "upper": 99},
        "sex": {"type": "category", "values": ["F", "M"]},
    },
    "measures": {"income": {"lower": 0, "upper": 1000}},
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the trials of tests/fire in full; takes many minutes")


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> bool:
    """Whether the long form of a trial was asked for."""
    return bool(pytestconfig.getoption("--full"))


@pytest.fixture(autouse=True)
def own_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test may touch the ledger of whoever runs it."""
    path = tmp_path / "ledger.sqlite"
    monkeypatch.setenv("SFUMATO_LEDGER", str(path))
    return path


@pytest.fixture
def census() -> Schema:
    return Schema.from_dict(CENSUS)


def curator_of(
    schema: Schema,
    counts: object,
    *,
    epsilon: Fraction | int = 1,
    sums: dict[str, object] | None = None,
    entropy: Entropy | None = None,
    rho: Fraction | None = None,
) -> Curator:
    """A curator over counts that are given, not read."""
    vector = np.asarray(counts, dtype=np.int64).reshape(-1)
    cells = np.flatnonzero(vector)
    steps = {name: np.asarray(values, dtype=np.int64).reshape(-1)[cells] for name, values in (sums or {}).items()}
    for name in schema.measures:
        steps.setdefault(name, np.zeros(len(cells), dtype=np.int64))
    budget = Budget.pure(epsilon) if rho is None else Budget.zcdp(rho)
    units = {"count": 1} | {name: measure.half_units for name, measure in schema.measures.items()}
    charge = Charge(budget, schema.privacy_unit.contributions, schema.domain.size)
    return Curator(schema.domain, Aggregate(cells, vector[cells], steps), units, charge, entropy or TestingEntropy(1))
