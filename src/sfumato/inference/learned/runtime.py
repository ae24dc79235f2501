"""Running a published model: onnxruntime, on bytes that were checked, in this process and with nothing beside them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.version import install_command


def missing() -> str:
    """What to do where models cannot be run."""
    return f"a learned model is opened with onnxruntime, which is not installed: {install_command('models')}"


def can_run() -> bool:
    """Whether models can be run here."""
    return find_spec("onnxruntime") is not None


class Running:
    """A model that can be asked. data: its ONNX file, which `onnx_file.read` has accepted."""

    def __init__(self, data: bytes) -> None:
        if not can_run():
            raise QueryError(missing())
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # the same sums in the same order every time
        options.log_severity_level = 4
        self._session: Any = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def predict(self, rows: Floats) -> Floats:
        """One number for each row of features."""
        (answers,) = self._session.run(None, {"x": np.ascontiguousarray(rows, dtype=np.float64)})
        return np.asarray(answers[:, 0], dtype=np.float64)
