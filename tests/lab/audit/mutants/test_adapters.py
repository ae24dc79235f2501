"""The reading audit would find what the adapters of PostgreSQL and Spark prevent, in the few pairs that it affords."""

from __future__ import annotations

import broken_adapters
import pytest
from broken_adapters import ENGINES, broken, first_complaint

from sfumato.lab.audit.reading.sources import SOURCES


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("engine", ENGINES)
def test_every_broken_adapter_is_caught(engine):
    """Nothing is random about it. That the real ones are not complained about is tested with all sources."""
    if not SOURCES[engine].here:
        pytest.skip(f"needs {SOURCES[engine].needs}")
    if engine == "Spark" and _is_3():
        pytest.skip("Spark 3.5 has no collations to break it with")
    kinds = broken(engine)
    assert len(kinds) >= 9 and all(kind.__doc__.startswith("NOT PRIVATE") for kind in kinds.values())
    assert [name for name, kind in kinds.items() if first_complaint(engine, kind) is None] == []


def _is_3() -> bool:
    from pyspark import __version__

    return __version__.startswith("3.")


def test_they_are_marked():
    assert broken_adapters.__doc__.startswith("NOT PRIVATE")
