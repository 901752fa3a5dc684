"""The document of the surface says what is served, all of it and nothing else."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from atleastonce.system.http.openapi import OPERATIONS, document
from atleastonce.system.http.routes import Answer, route
from atleastonce.system.http.surface import Operation

from .routed import Served, served_routes

DOCUMENT: dict[str, Any] = json.loads(document("1.2.3"))


def parts(operation: Operation) -> list[str]:
    return operation.path.split("/")[1:]


def name(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


@pytest.mark.parametrize("served", served_routes(), ids=str)
def test_every_route_has_an_entry(served: Served) -> None:
    assert [
        operation
        for operation in OPERATIONS
        if operation.method == served.method and served.takes(parts(operation))
    ], f"{served} is served; describe it in one of system/http/surface_*.py"


@pytest.mark.parametrize("operation", OPERATIONS, ids=name)
def test_every_entry_has_a_route(operation: Operation) -> None:
    assert [
        served
        for served in served_routes()
        if operation.method == served.method and served.takes(parts(operation))
    ], f"{name(operation)} is described and not served"
    found = route(operation.method, operation.path.replace("{", "").replace("}", ""), {}, b"", "r")
    assert not isinstance(found, Answer) or b"no_such_route" not in found.body


def test_routes_are_read_from_the_table_and_from_the_patterns() -> None:
    found = {str(served) for served in served_routes()}
    assert {
        "POST /api/v1/push",
        "GET /api/v1/pop/queue/{}/partition/{}",
        "GET /api/v1/timers/{}/{...}",
        "PUT /api/v1/kv/{}/{}/{...}",
        "GET /",
    } <= found


def test_no_operation_is_described_twice() -> None:
    names = [name(operation) for operation in OPERATIONS]
    assert len(set(names)) == len(names)
    identities = [
        item["operationId"] for path in DOCUMENT["paths"].values() for item in path.values()
    ]
    assert len(set(identities)) == len(identities) == len(OPERATIONS)


def test_every_reference_leads_somewhere() -> None:
    text = json.dumps(DOCUMENT)
    named = {piece.split('"')[0] for piece in text.split('"$ref": "#/components/schemas/')[1:]}
    assert named <= set(DOCUMENT["components"]["schemas"])


def test_every_schema_is_one() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema_rs.meta.validate(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
        )


def test_it_states_the_version_and_that_a_token_may_be_asked_for() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    assert DOCUMENT["info"]["version"] == "1.2.3"
    assert DOCUMENT["paths"]["/health"]["get"]["security"] == [{}]
    assert DOCUMENT["paths"]["/api/v1/push"]["post"]["security"] == [{}, {"token": []}]


def test_only_what_may_store_payloads_is_said_to_meet_a_full_disk() -> None:
    full = {
        f"{method} {path}"
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if "507" in operation["responses"]
    }
    assert "post /api/v1/push" in full
    assert "post /api/v1/ack" not in full
    assert "delete /api/v1/resources/queues/{queue}" not in full
    assert not [operation for operation in full if operation.startswith("get ")]
