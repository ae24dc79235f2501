"""A server that is gone in the middle of a reading is waited for once, not for every call."""

from __future__ import annotations

from sfumato.kernel.reading.engines.spark import sessions as patience
from sfumato.kernel.reading.engines.spark.sessions import Allowance


def test_all_calls_together_have_a_minute(monkeypatch):
    now = [1_000.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: now[0])
    allowed = Allowance()
    assert allowed.more()
    now[0] += 40
    assert allowed.more()
    now[0] += 10
    assert not allowed.more() and not allowed.more()  # the goodbyes
    now[0] += patience.RECOVERED
    assert allowed.more()
