"""Which share of Spark's tasks is done, for whoever waits; sessions that answer as Spark's do."""

from __future__ import annotations

from types import SimpleNamespace

from sfumato.kernel.reading.engines import watched
from sfumato.kernel.reading.engines.spark.sessions import followed_tasks, share_of_tasks


class Tracker:
    """As Spark's: the stages that are running."""

    def __init__(self, **stages: tuple[int, int]) -> None:
        self.stages = {int(name[1:]): tasks for name, tasks in stages.items()}

    def getActiveStageIds(self):
        return list(self.stages)

    def getStageInfo(self, number):
        done, known = self.stages[number]
        return SimpleNamespace(numCompletedTasks=done, numTasks=known)


def test_stages_that_are_over_count_as_done():
    seen: dict[int, tuple[int, int]] = {}
    assert share_of_tasks(Tracker(), seen) is None
    assert share_of_tasks(Tracker(s1=(1, 4)), seen) == 0.25
    assert share_of_tasks(Tracker(s2=(0, 4)), seen) == 0.5
    assert share_of_tasks(Tracker(), seen) == 1


class Session:
    """As one of Spark Connect."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self) -> None:
        self.handlers = list[object]()

    def registerProgressHandler(self, handler):
        self.handlers.append(handler)

    def removeProgressHandler(self, handler):
        self.handlers.remove(handler)


def test_spark_connect_tells_by_itself_and_only_if_somebody_watches():
    session, told = Session(), list[float]()
    with followed_tasks(session):
        assert session.handlers == []
    with watched(told.append), followed_tasks(session):
        (handler,) = session.handlers
        handler([], 0, "operation", False)
        stages = [
            SimpleNamespace(num_tasks=3, num_completed_tasks=2),
            SimpleNamespace(num_tasks=1, num_completed_tasks=1),
        ]
        handler(stages, 1, "operation", False)
    assert told == [0.75] and session.handlers == []
