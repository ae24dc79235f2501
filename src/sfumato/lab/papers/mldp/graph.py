"""A model as it is published: a few steps of plain arithmetic on tables of numbers, and whether they fit together.

Steps are named by their places, tables of numbers too, so that no name in a file can mean anything else. Every step is
one of nine operators of ONNX's own set; each takes what came before it, so that there are no circles, and shapes are
worked out here, before anything runs.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass

INPUTS = {"MatMul": 2, "Add": 2, "Sub": 2, "Mul": 2, "LessOrEqual": 2, "Equal": 2, "Exp": 1, "Tanh": 1, "Cast": 1}
TRUTHS = ("LessOrEqual", "Equal")  # what gives true or false, which only Cast takes
MOST_STEPS = 64
MOST_NUMBERS = 2**19  # of all tables together: 4 MB

Source = tuple[str, int]  # "x": the features; ("t", i): table i; ("n", i): what step i gives
FEATURES: Source = ("x", 0)


class BadGraph(QueryError):
    """A model that is not one of ours."""


@dataclass(frozen=True)
class Step:
    """One operator and what it takes."""

    operator: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, eq=False)
class Graph:
    """Steps from rows of `features` numbers to one number a row, which is what the last step gives."""

    features: int
    steps: tuple[Step, ...]
    tables: tuple[Floats, ...]

    def check(self) -> None:
        """Refuse whatever is not a model of one number a row: odd operators, shapes that do not fit, too much of it."""
        if not 1 <= len(self.steps) <= MOST_STEPS or sum(table.size for table in self.tables) > MOST_NUMBERS:
            raise BadGraph("the model is empty or too large")
        if any(table.ndim != 2 or not table.size or not np.isfinite(table).all() for table in self.tables):
            raise BadGraph("the model has numbers that are not finite, or not laid out in rows and columns")
        shapes: list[tuple[int, int, bool]] = []  # rows (0: one for each question), columns, whether true or false
        for step in self.steps:
            if INPUTS.get(step.operator) != len(step.sources):
                raise BadGraph("the model has a step that Sfumato does not know")
            shapes.append(_shape(step, [self._shape_of(source, shapes) for source in step.sources]))
        if shapes[-1] != (0, 1, False):
            raise BadGraph("the model does not give one number for each question")

    def _shape_of(self, source: Source, before: list[tuple[int, int, bool]]) -> tuple[int, int, bool]:
        kind, place = source
        if source == FEATURES:
            return 0, self.features, False
        if kind == "t" and 0 <= place < len(self.tables):
            rows, columns = self.tables[place].shape
            return rows, columns, False
        if kind == "n" and 0 <= place < len(before):
            return before[place]
        raise BadGraph("the model has a step that takes what is not there")


class Building:
    """Steps put together one by one."""

    def __init__(self, features: int) -> None:
        self._features, self._steps, self._tables = features, list[Step](), list[Floats]()

    def table(self, numbers: object) -> Source:
        self._tables.append(np.atleast_2d(np.asarray(numbers, dtype=np.float64)))
        return "t", len(self._tables) - 1

    def step(self, operator: str, *sources: Source) -> Source:
        self._steps.append(Step(operator, sources))
        return "n", len(self._steps) - 1

    def graph(self) -> Graph:
        made = Graph(self._features, tuple(self._steps), tuple(self._tables))
        made.check()
        return made


def _shape(step: Step, shapes: list[tuple[int, int, bool]]) -> tuple[int, int, bool]:
    if any(truth for _, _, truth in shapes) != (step.operator == "Cast"):
        raise BadGraph("the model mixes numbers with truth values")
    rows, columns, _ = shapes[0]
    if len(shapes) == 1:
        return rows, columns, False
    others, width, _ = shapes[1]
    if step.operator == "MatMul":
        if rows != 0 or columns != others:
            raise BadGraph("the model multiplies tables that do not fit")
        return 0, width, False
    if 0 not in (rows, others) or {rows, others} - {0, 1} or (columns != width and 1 not in (columns, width)):
        raise BadGraph("the model combines tables that do not fit")
    return 0, max(columns, width), step.operator in TRUTHS
