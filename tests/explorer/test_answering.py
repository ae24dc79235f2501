"""Answers are worked out once, kept within bounds, and refused where too many wait or one takes too long."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial

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


def test_what_nobody_waits_for_any_more_is_not_begun():
    begun, free, desk = [], threading.Event(), Desk(workers=1)

    def work(name: str) -> bytes:
        begun.append(name)
        free.wait(5)
        return name.encode()

    async def soon() -> None:
        await asyncio.sleep(0.01)

    async def ask() -> list[object]:
        asked = [desk.answer("one", partial(work, "one")), desk.answer("leaves", partial(work, "leaves"), soon())]
        stays = desk.answer("both", partial(work, "both"))
        both = desk.answer("both", partial(work, "both"), soon())
        running = asyncio.gather(*asked, stays, both, return_exceptions=True)
        await asyncio.sleep(0.05)
        free.set()
        return list(await running)

    one, left, stays, gone = asyncio.run(ask())
    assert (one, stays, begun) == (b"one", b"both", ["one", "both"])  # another one still waited for "both"
    assert isinstance(left, Refusal) and isinstance(gone, Refusal)
    desk.close()


def test_work_for_nobody_may_fail():
    desk, done = Desk(workers=1), threading.Event()
    desk.warm(lambda: bytes(1 // 0))
    desk.warm(lambda: bytes(done.set() or 0))
    assert done.wait(5)
    desk.close()
