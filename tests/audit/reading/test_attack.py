"""The reading audit finds nothing on any source, and would find what was mended."""

from __future__ import annotations

import pytest

from sfumato.audit.reading.attack import attack_source, reading_finding
from sfumato.audit.reading.sources import SOURCES


@pytest.mark.parametrize("name", SOURCES)
def test_no_unit_moves_more_than_is_charged(name, full):
    """Over 1,000 pairs over all sources; any number in full. What is read draws nothing at random: it holds or not."""
    if not SOURCES[name].here:
        pytest.skip(f"needs {SOURCES[name].needs}")
    wanted = 180 if "long files" in name else 120  # of long files a few stand for many
    found = reading_finding(name, 3_000 if full else wanted, seed=7)
    assert found.complaints == ()
    assert found.pairs >= 6
    assert found.largest == 1  # rows of one unit do reach what is charged, so the pairs are worth something


def test_an_attack_stops_at_the_first_complaint_unless_it_is_patient():
    from sfumato.audit.mutants.readers import EngineReadsCsv
    from sfumato.audit.reading.sources import csv_source

    broken = csv_source(",", ".csv", files=EngineReadsCsv)
    hasty = attack_source("broken", broken, 10_000, patient=False)
    assert hasty.complaints and hasty.pairs < 1_000
    assert not hasty.sound and hasty.verdict.startswith("VIOLATION")
