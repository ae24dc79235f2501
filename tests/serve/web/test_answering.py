"""Answers are worked out once and kept within bounds; who left stops the work, and what was stopped is refused."""

from __future__ import annotations

import asyncio
import random

import pytest
from exploring import InProcess

from sfumato.serve.web import answering
from sfumato.serve.web.answering import ENTRY_BYTES, Desk, Kept, Question, Stopped
from sfumato.serve.web.requests import Limits, Refusal


class Solver(InProcess):
    """Waits for `free`, and then says or raises what it is told to."""

    def __init__(self, said: bytes | Exception = b"done") -> None:
        self.said, self.begun, self.stopped = said, [], []
        self.free = asyncio.Event()

    async def work(self, question: Question) -> bytes:
        self.begun.append(question.body)
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.stopped.append(question.body)
            raise
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


def question(body: bytes = b"") -> Question:
    return Question("query", "survey", body)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_what_is_kept_is_bounded_and_the_longest_unused_goes_first():
    kept = Kept(most_bytes=3 * (10 + ENTRY_BYTES))
    for name in (b"a", b"b", b"c"):
        kept.put(name, b"0123456789")
    assert kept.get(b"a") is not None  # used again, so that b is the oldest
    kept.put(b"d", b"0123456789")
    assert [name for name in (b"a", b"b", b"c", b"d") if kept.get(name)] == [b"a", b"c", b"d"]
    kept.put(b"large", b"x" * (answering.MOST_KEPT_ANSWER + 1))
    assert kept.get(b"large") is None


def test_texts_are_not_kept_beside_their_answers():
    """3,000 questions of 19 KB, 57 MB of text, with answers of 20 bytes: what stays is counted in bytes of objects."""
    import tracemalloc

    desk, some = Desk(Solver()), random.Random(1)
    desk.solver.free.set()

    async def ask() -> None:
        for _ in range(3_000):
            await desk.answer(question(some.randbytes(19_000)))
            desk.solver.begun.clear()

    tracemalloc.start()
    try:
        asyncio.run(ask())
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(desk.kept.by_key) == 3_000 and held < 3_000 * 2 * ENTRY_BYTES
    assert desk.kept.size >= sum(len(key) + len(one) for key, one in desk.kept.by_key.items())


def test_questions_are_told_apart_by_kind_release_and_text():
    keys = {Question(kind, name, body).key for kind in ("a", "b") for name in ("c", "d") for body in (b"e", b"f\ne")}
    assert len(keys) == 8 and {len(key) for key in keys} == {20}
    assert Question.unpacked(question(b"x\ny").packed()) == question(b"x\ny")


def test_the_same_question_at_the_same_time_is_worked_out_once():
    async def many() -> tuple[list[bytes], list[bytes]]:
        desk = Desk(Solver())
        asked = asyncio.gather(*(desk.answer(question()) for _ in range(50)))
        await turns()
        desk.solver.free.set()
        return await asked, desk.solver.begun

    assert asyncio.run(many()) == ([b"done"] * 50, [b""])


def test_too_many_questions_are_refused(monkeypatch):
    monkeypatch.setattr(answering, "MOST_WAITING", 2)

    async def several() -> list[object]:
        desk = Desk(Solver())
        asked = asyncio.gather(*(desk.answer(question(b"%d" % place)) for place in range(3)), return_exceptions=True)
        await turns()
        desk.solver.free.set()
        return list(await asked)

    first, second, third = asyncio.run(several())
    assert (first, second) == (b"done", b"done") and isinstance(third, Refusal) and third.kind == "busy"


@pytest.mark.parametrize(("error", "times"), [(Refusal("invalid", "no"), 3), (Stopped("too_slow", "no"), 1)])
def test_a_question_that_fails_is_not_kept_and_one_that_was_stopped_is_not_tried_again(error, times):
    async def ask() -> int:
        desk = Desk(Solver(error))
        desk.solver.free.set()
        for _ in range(3):
            with pytest.raises(Refusal, match="no"):
                await desk.answer(question())
        return len(desk.solver.begun)

    assert asyncio.run(ask()) == times


def test_what_was_stopped_is_forgotten_after_a_while_or_when_there_are_too_many():
    async def ask(limits: Limits, others: int) -> int:
        desk = Desk(Solver(Stopped("too_slow", "no")), limits)
        desk.solver.free.set()
        for body in (b"", *(b"%d" % place for place in range(others)), b""):
            with pytest.raises(Refusal):
                await desk.answer(question(body))
        assert len(desk.stopped) <= limits.most_remembered
        return desk.solver.begun.count(b"")

    assert asyncio.run(ask(Limits(), 5)) == 1
    assert asyncio.run(ask(Limits(remembered_seconds=0), 5)) == 2
    assert asyncio.run(ask(Limits(most_remembered=3), 5)) == 2


def test_work_that_nobody_waits_for_any_more_is_stopped():
    async def soon() -> None:
        await turns(3)

    async def ask() -> tuple[list[object], Solver]:
        desk = Desk(Solver())
        left = desk.answer(question(b"left"), soon())
        both = [desk.answer(question(b"both")), desk.answer(question(b"both"), soon())]
        asked = asyncio.gather(left, *both, return_exceptions=True)
        await turns(20)
        stopped_by_then = list(desk.solver.stopped)
        desk.solver.free.set()
        assert stopped_by_then == [b"left"]  # another one still waits for "both"
        return list(await asked), desk.solver

    (left, stays, gone), solver = asyncio.run(ask())
    assert stays == b"done" and isinstance(left, Refusal) and isinstance(gone, Refusal)
    assert solver.stopped == [b"left"]


def test_all_who_wait_are_refused_when_the_server_ends():
    async def ask() -> list[object]:
        desk = Desk(Solver())
        asked = asyncio.gather(*(desk.answer(question()) for _ in range(3)), return_exceptions=True)
        await turns()
        desk.close()
        with pytest.raises(Refusal, match="ending"):
            await desk.answer(question(b"later"))
        return list(await asked)

    assert [error.kind for error in asyncio.run(ask()) if isinstance(error, Refusal)] == ["busy"] * 3
