"""Confidences at which tails are reached: by the noise itself, and never certainty."""

from __future__ import annotations

import numpy as np
import pytest
from curators import curator_of

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.mechanisms import find_mechanism
from sfumato.releases.answers.intervals.tails import NEARLY_SURE, far_enough
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {"dataset": "t", "privacy_unit": "row", "attributes": {name: {"type": "boolean"} for name in "ab"}}
)


@pytest.mark.parametrize(("mechanism", "further"), [("cells", False), ("residual", True), ("margins", False)])
def test_only_who_takes_laplace_noise_for_normal_is_asked_for_more(mechanism, further):
    curator = curator_of(SCHEMA, np.full((2, 2), 30), entropy=SystemEntropy())
    content = find_mechanism(mechanism).run(curator, SCHEMA, Budget.pure(1), None)
    for confidence in (0.999, 1 - 1e-9, 1 - 1e-13):
        found = far_enough(content, confidence)
        assert (found > confidence) == further and found <= NEARLY_SURE < 1
