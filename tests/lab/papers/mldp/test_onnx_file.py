"""Models as ONNX: any runtime reads what is written, and only what is written is read."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from sfumato.errors import QueryError
from sfumato.lab.papers.mldp import onnx_file
from sfumato.lab.papers.mldp.onnx_file import FEATURES, Building, Graph, Running, Step
from sfumato.lab.papers.mldp.training import Bumps, Model, Network, Trees

RNG = np.random.default_rng(5)
ROWS = RNG.random((40, 3))
TREES = Trees(
    np.array([0, 2]), np.array([0.4, 0.6]), np.array([[1.0, -1.0, -1.0], [0, 1.0, -1.0]]), np.array([1.0, 7.0, -3.0]), 3
)
CURVES = {
    "line": None,
    "bumps": Bumps(RNG.random((5, 3)), 2.0, RNG.normal(size=5), 4.0),
    "network": Network(((RNG.normal(size=(3, 4)), RNG.normal(size=4)), (RNG.normal(size=(4, 1)), np.array([2.0])))),
    "trees": TREES,
}


def model(kind: str = "line") -> Model:
    return Model(np.array([100.0, -3.0, 0.5]), CURVES[kind])


@pytest.mark.parametrize("kind", CURVES)
def test_the_file_says_what_the_model_says_and_reads_back_to_the_byte(kind):
    data = onnx_file.written(model(kind).graph())
    onnx.checker.check_model(onnx.load_from_string(data), full_check=True)  # by ONNX's own rules
    assert np.allclose(Running(data).predict(ROWS), model(kind).predict(ROWS), rtol=1e-12, atol=1e-9)
    assert onnx_file.written(onnx_file.read(data)) == data


def changed(change) -> bytes:
    loaded = onnx.load_from_string(onnx_file.written(model("trees").graph()))
    change(loaded)
    return loaded.SerializeToString()


def outside(loaded):
    tensor = loaded.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../../etc/passwd")
    tensor.ClearField("raw_data")


def odd_operator(loaded):
    loaded.graph.node[0].op_type = "Loop"


def other_maker(loaded):
    loaded.graph.node[0].domain = "com.example"
    loaded.opset_import.add(domain="com.example", version=1)


def circle(loaded):
    loaded.graph.node[0].input[0] = "n1"


def hidden(loaded):
    loaded.metadata_props.add(key="note", value="something")


def own_function(loaded):
    loaded.functions.append(
        helper.make_function("x", "Add", ["a"], ["b"], [], opset_imports=[helper.make_opsetid("", 17)])
    )


def not_a_number(loaded):
    loaded.graph.initializer[0].raw_data = np.full(6, np.nan).tobytes()


def wrong_shape(loaded):
    loaded.graph.initializer[0].dims[0] = 2
    loaded.graph.initializer[0].dims[1] = 3


def huge_shape(loaded):
    loaded.graph.initializer[0].dims[0] = 2**60


@pytest.mark.parametrize(
    "change",
    [outside, odd_operator, other_maker, circle, hidden, own_function, not_a_number, wrong_shape, huge_shape],
    ids=lambda change: change.__name__,
)
def test_whatever_else_a_file_may_hold_is_refused(change):
    with pytest.raises(QueryError, match="the model"):
        onnx_file.read(changed(change))


def test_no_byte_can_be_changed_into_something_that_fails_otherwise():
    """Cut short anywhere, or one byte turned over: accepted as another model of the same form, or refused in words."""
    data = onnx_file.written(model("network").graph())
    for place in range(0, len(data), 3):
        for broken in (data[:place], data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :]):
            try:
                onnx_file.read(broken).check()
            except QueryError:
                continue
    with pytest.raises(QueryError):
        onnx_file.read(b"")


def test_a_model_is_checked_before_it_is_written():
    made = Building(3)
    made.step("MatMul", FEATURES, made.table(np.ones((4, 1))))
    with pytest.raises(QueryError, match="do not fit"):
        made.graph()
    with pytest.raises(QueryError, match="too large"):
        Graph(1, (), ()).check()
    with pytest.raises(QueryError, match="one number for each question"):
        Graph(2, (Step("Exp", (FEATURES,)),), ()).check()
