"""Answers are worked out once, kept within bounds, and refused where too many wait or one takes too long."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from sfumato.explorer import answering
from sfumato.explorer.answering import Desk, Kept
from sfumato.explorer.refusals import Refusal


def test_what_is_kept_is_bounded_and_the_longest_unused_goes_first():
    kept = Kept(most_bytes=30)
    for name in "abc":
        kept.put(name, b"0123456789")
    assert kept.get("a") is not None  # used again, so that b is the oldest
    kept.put("d", b"0123456789")
    assert [name for name in "abcd" if kept.get(name)] == ["a", "c", "d"]
    kept.put("large", b"x" * (answering.MOST_KEPT_ANSWER + 1))
    assert kept.get("large") is None


def test_the_same_question_at_the_same_time_is_worked_out_once():
    worked, desk = [], Desk()

    def work() -> bytes:
        worked.append(threading.get_ident())
        time.sleep(0.05)
        return b"done"

    async def many() -> list[bytes]:
        return await asyncio.gather(*(desk.answer("same", work) for _ in range(50)))

    assert asyncio.run(many()) == [b"done"] * 50 and len(worked) == 1
    desk.close()


def test_too_many_questions_and_too_long_ones_are_refused(monkeypatch):
    monkeypatch.setattr(answering, "MOST_WAITING", 2)
    monkeypatch.setattr(answering, "ANSWER_SECONDS", 0.05)
    ended, desk = threading.Event(), Desk(workers=1)

    async def several() -> list[object]:
        asked = [desk.answer(place, lambda: bytes(ended.wait(5))) for place in range(3)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        ended.set()
        return list(found)

    kinds = [error.kind for error in asyncio.run(several()) if isinstance(error, Refusal)]
    assert sorted(kinds) == ["busy", "too_slow", "too_slow"]
    desk.close()


def test_a_question_that_fails_is_not_kept():
    desk, times = Desk(), []

    def fails() -> bytes:
        times.append(1)
        raise Refusal("invalid", "no")

    async def ask() -> None:
        for _ in range(2):
            with pytest.raises(Refusal):
                await desk.answer("x", fails)

    asyncio.run(ask())
    assert len(times) == 2
    desk.close()
