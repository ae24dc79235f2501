"""Write, check and run a published model as an ONNX file: nine operators, canonical bytes.

A model is a few steps of plain arithmetic on tables of numbers, each on results of earlier steps and named by position.
Libraries read more of ONNX than is safe (files beside the file, operators of other makers, cycles), so the few fields
that are needed are spelled here. Bytes are accepted if the model in them, spelled again, gives exactly these bytes:
nothing can hide in what is left out. onnxruntime runs the checked bytes, in this process and with nothing beside them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.version import install_command

INPUTS = {"MatMul": 2, "Add": 2, "Sub": 2, "Mul": 2, "LessOrEqual": 2, "Equal": 2, "Exp": 1, "Tanh": 1, "Cast": 1}
TRUTHS = ("LessOrEqual", "Equal")  # what gives true or false, which only Cast takes
MOST_STEPS = 64
MOST_NUMBERS = 2**19  # of all tables together: 4 MB

Source = tuple[str, int]  # "x": the features; ("t", i): table i; ("n", i): what step i gives
FEATURES: Source = ("x", 0)


class BadGraph(QueryError):
    """Refusal of an ONNX file that Sfumato would not have written."""


@dataclass(frozen=True)
class Step:
    """Step of a graph: one operator and its inputs."""

    operator: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, eq=False)
class Graph:
    """Computation graph from rows of `features` numbers to one number per row, the result of the last step."""

    features: int
    steps: tuple[Step, ...]
    tables: tuple[Floats, ...]

    def check(self) -> None:
        """Refuse graphs with unknown operators, inconsistent shapes, another output or too many numbers."""
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
    """Builder of a graph, step by step."""

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


IR_VERSION, OPSET = 8, 17  # of 2022: any runtime since reads them
DOUBLE, INT = 11, 2  # as ONNX numbers the types of tensors and of attributes
MOST_BYTES = 2**22 + 2**16
X, ANSWER, TO = "x", "answer", "to"


def written(graph: Graph) -> bytes:
    """ONNX file of a graph."""
    last = len(graph.steps) - 1
    parts = [_field(1, _node(step, place, last)) for place, step in enumerate(graph.steps)]
    parts.append(_field(2, b"sfumato"))
    for place, table in enumerate(graph.tables):
        dims = b"".join(_number(1, size) for size in table.shape)
        raw = np.ascontiguousarray(table, dtype="<f8").tobytes()
        parts.append(_field(5, dims + _number(2, DOUBLE) + _field(8, f"t{place}".encode()) + _field(9, raw)))
    parts.append(_field(11, _value(X, graph.features)))
    parts.append(_field(12, _value(ANSWER, 1)))
    opset = _field(1, b"") + _number(2, OPSET)
    return _number(1, IR_VERSION) + _field(2, b"sfumato") + _field(7, b"".join(parts)) + _field(8, opset)


def read(data: bytes) -> Graph:
    """Parse an untrusted ONNX file; a QueryError for all that `written` would not have written."""
    try:
        graph = _read(data)
    except (ValueError, IndexError, KeyError, UnicodeDecodeError, struct.error, OverflowError):
        raise BadGraph("the model is not an ONNX file as Sfumato writes it") from None
    graph.check()
    if written(graph) != data:
        raise BadGraph("the model holds more than Sfumato writes: other operators, outside files or further fields")
    return graph


def _read(data: bytes) -> Graph:
    if len(data) > MOST_BYTES:
        raise BadGraph("the model is too large")
    (body,) = [value for field, value in _fields(data) if field == 7]
    steps, tables, features = [], [], 0
    for field, value in _fields(_bytes(body)):
        if field == 1:
            steps.append(_step(_bytes(value)))
        elif field == 5:
            tables.append(_table(_bytes(value)))
        elif field == 11:
            features = _width(_bytes(value))
    return Graph(features, tuple(steps), tuple(tables))


def _step(data: bytes) -> Step:
    parts = [(field, _bytes(value).decode()) for field, value in _fields(data) if field in (1, 4)]
    (operator,) = [text for field, text in parts if field == 4]
    if operator not in INPUTS:
        raise BadGraph("the model has an operator that Sfumato does not know; it is not opened")
    return Step(operator, tuple(_source(text) for field, text in parts if field == 1))


def _source(name: str) -> Source:
    return FEATURES if name == X else (name[:1], int(name[1:]))


def _table(data: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    fields = list(_fields(data))
    shape = [value for field, value in fields if field == 1]
    (raw,) = [_bytes(value) for field, value in fields if field == 9]
    return np.frombuffer(raw, dtype="<f8").reshape([int(size) for size in shape])


def _width(data: bytes) -> int:
    """Number of input features, from the protobuf of the input's type."""
    for wanted in (2, 1, 2):
        (data,) = [_bytes(value) for field, value in _fields(data) if field == wanted]
    dims = [_bytes(value) for field, value in _fields(data) if field == 1]
    ((_, width),) = _fields(dims[1])
    return int(width)


def _node(step: Step, place: int, last: int) -> bytes:
    taken = b"".join(_field(1, _name(source, last).encode()) for source in step.sources)
    node = taken + _field(2, _name(("n", place), last).encode()) + _field(4, step.operator.encode())
    if step.operator == "Cast":
        node += _field(5, _field(1, TO.encode()) + _number(3, DOUBLE) + _number(20, INT))
    return node


def _name(source: Source, last: int) -> str:
    kind, place = source
    if source == FEATURES:
        return X
    return ANSWER if (kind, place) == ("n", last) else f"{kind}{place}"


def _value(name: str, width: int) -> bytes:
    dims = _field(1, _field(2, b"questions")) + _field(1, _number(1, width))
    tensor = _number(1, DOUBLE) + _field(2, dims)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


# -- Protocol Buffers: numbers of 7 bits a byte, and fields with their numbers in front


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    place = 0
    while place < len(data):
        tag, place = _read_varint(data, place)
        value, place = _read_varint(data, place)
        if tag & 7 == 2:
            if place + value > len(data):
                raise ValueError("a field is longer than the message")
            yield tag >> 3, data[place : place + value]
            place += value
        elif tag & 7 == 0:
            yield tag >> 3, value
        else:
            raise ValueError("a kind of field that is not used")


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 64:
        byte = data[place]
        number, shift, place = number | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            return number, place
    raise ValueError("a number is too long")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a message should be")
    return value


def missing() -> str:
    """Message that onnxruntime is not installed."""
    return f"a learned model is opened with onnxruntime, which is not installed: {install_command('models')}"


def can_run() -> bool:
    """Whether onnxruntime is installed."""
    return find_spec("onnxruntime") is not None


class Running:
    """ONNX session of a checked model. data: the file's bytes, accepted by `read`."""

    def __init__(self, data: bytes) -> None:
        if not can_run():
            raise QueryError(missing())
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # the same sums in the same order every time
        options.log_severity_level = 4
        self._session: Any = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def predict(self, rows: Floats) -> Floats:
        """Run the model on rows of features: one number each, (rows,)."""
        (answers,) = self._session.run(None, {"x": np.ascontiguousarray(rows, dtype=np.float64)})
        return np.asarray(answers[:, 0], dtype=np.float64)
