"""The OpenAPI document is true: schemathesis asks what it allows, and what it does not, and finds what it promises."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

schemathesis = pytest.importorskip("schemathesis")

EACH = 8  # requests for each address and kind


def test_the_document_is_served_and_names_every_address(client):
    document = client.get("/api/openapi.json").json()
    assert document["openapi"] == "3.1.0" and len(document["paths"]) == 8
    assert "confidence" in document["components"]["schemas"]["Query"]["properties"]


@pytest.mark.parametrize("wanted", ["POSITIVE", "NEGATIVE"])
def test_schemathesis_finds_nothing_that_the_document_does_not_say(address, wanted):
    """Made-up requests, right ones and wrong ones: statuses, types and bodies are as promised, and none is a failure.

    A body with the right fields may still hold SQL that nobody can answer, so that right ones may be refused.
    """
    schema = schemathesis.openapi.from_url(f"{address}api/openapi.json")
    spared = [schemathesis.checks.positive_data_acceptance]
    for found in schema.get_all_operations():
        operation, asked = found.ok(), 0
        if wanted == "NEGATIVE" and operation.method.upper() == "GET":
            continue

        @settings(
            max_examples=EACH, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
        )
        @given(operation.as_strategy(generation_mode=schemathesis.GenerationMode[wanted]))
        def ask(case) -> None:
            nonlocal asked
            asked += 1
            if "{name}" in operation.path:  # noqa: B023
                named = {"name": ("survey", "harm", "nothing")[asked % 3]}
                case.path_parameters = (case.path_parameters or {}) | named
            answer = case.call()
            too_long = [schemathesis.checks.negative_data_rejection] if answer.status_code == 413 else []  # it is one
            case.validate_response(answer, excluded_checks=spared + too_long)

        ask()
        assert asked > 1 or operation.method.upper() == "GET"
