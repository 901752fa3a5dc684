"""The OpenAPI 3.1 document of the surface, made of the types that its bodies are coded by.

Source: https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import msgspec

from .answer import JSON
from .surface import GROUP_EXAMPLE, QUEUE_EXAMPLE, Media, Operation, Parameter, Schema
from .surface_administration import ADMINISTRATION_OPERATIONS
from .surface_ephemeral import EPHEMERAL_OPERATIONS
from .surface_members import MEMBER_OPERATIONS
from .surface_messages import MESSAGE_OPERATIONS
from .surface_reports import REPORT_OPERATIONS
from .surface_state import STATE_OPERATIONS

OPERATIONS: Final[tuple[Operation, ...]] = (
    *MESSAGE_OPERATIONS,
    *ADMINISTRATION_OPERATIONS,
    *STATE_OPERATIONS,
    *EPHEMERAL_OPERATIONS,
    *REPORT_OPERATIONS,
    *MEMBER_OPERATIONS,
)

_REF: Final = "#/components/schemas/{name}"
_TOKEN: Final = "token"
_EXAMPLES: Final = {"queue": QUEUE_EXAMPLE, "group": GROUP_EXAMPLE, "ns": "settings", "node": "n4"}
_PHRASES: Final = {
    200: "Done.",
    201: "Stored.",
    204: "Nothing there.",
    400: "The request is malformed.",
    401: "A valid bearer token is required.",
    403: "The token's role may not do this, or what is asked for is out of bounds.",
    404: "There is none.",
    408: "The request took too long to arrive.",
    409: "It contradicts what is there.",
    413: "The body, a name or a value is too large.",
    429: "Nothing was applied: the node is overloaded. `Retry-After` says for how long to wait.",
    431: "The headers are too large.",
    503: "No leader, or none that answered in time; `outcome_unknown` may have been applied.",
    504: "Not done in time; what was begun may still be done. Ask again.",
    507: "Nothing was applied: a disk is full. What makes room is still served.",
}


@cache
def document(version: str) -> bytes:
    """The document as JSON. Cost: about 10 ms, once."""
    schemas, components = _schemas()
    paths: dict[str, Schema] = {}
    for operation in OPERATIONS:
        item = _operation(operation, schemas)
        paths.setdefault(operation.path, {})[operation.method.lower()] = item
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "atleastonce broker",
                "version": version,
                "description": "Queen MQ's HTTP API, as this broker serves it.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {
                    _TOKEN: {
                        "type": "http",
                        "scheme": "bearer",
                        "bearerFormat": "JWT",
                        "description": "Only where the broker was given a secret.",
                    }
                },
            },
        }
    )


def _schemas() -> tuple[dict[Any, Schema], Schema]:
    """The schema of each type that is used, and the components that they refer to."""
    types: list[Any] = []
    for operation in OPERATIONS:
        bodies = [body for found in operation.statuses().values() for body in found]
        types += [*bodies, operation.body]
    used = [each for each in dict.fromkeys(types) if each is not None and not _is_media(each)]
    schemas, components = msgspec.json.schema_components(
        used, schema_hook=_anything, ref_template=_REF
    )
    return dict(zip(used, schemas, strict=True)), dict(components)


def _anything(_: type) -> Schema:
    """The schema of what is taken as it comes, and checked by hand."""
    return {"description": "Any value."}


def _is_media(body: Any) -> bool:
    return isinstance(body, Media)


def _operation(operation: Operation, schemas: dict[Any, Schema]) -> Schema:
    item: Schema = {
        "operationId": _identity(operation),
        "summary": operation.text,
        "parameters": [
            *[_named(name) for name in operation.names],
            *[_queried(parameter) for parameter in operation.query],
        ],
        "responses": {
            str(status): _response(status, bodies, schemas)
            for status, bodies in operation.statuses().items()
        },
        # Either is enough: most brokers are run without a secret.
        "security": [{}] if operation.is_open else [{}, {_TOKEN: []}],
    }
    if operation.body is not None:
        item["requestBody"] = {
            "required": not operation.body_optional,
            "content": {JSON: {"schema": schemas[operation.body]}},
        }
    return item


def _identity(operation: Operation) -> str:
    parts = [part for part in operation.path.split("/") if part not in ("", "api", "v1")]
    words = [part.strip("{}").replace(".", "-") for part in parts]
    if not operation.path.startswith(("/api/", "/streams/")):
        words.insert(0, "node")
    return "-".join([operation.method.lower(), *words])


def _named(name: str) -> Schema:
    schema: Schema = {"type": "string", "minLength": 1}
    if name in _EXAMPLES:
        schema["examples"] = [_EXAMPLES[name]]
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _queried(parameter: Parameter) -> Schema:
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.text,
        "schema": parameter.schema,
    }


def _response(status: int, bodies: Iterable[Any], schemas: dict[Any, Schema]) -> Schema:
    content: dict[str, list[Schema]] = {}
    for body in dict.fromkeys(bodies):
        if body is None:
            continue
        if _is_media(body):
            content.setdefault(body.content_type, []).append({"type": "string"})
        else:
            content.setdefault(JSON, []).append(schemas[body])
    response: Schema = {"description": _PHRASES[status]}
    if content:
        response["content"] = {
            kind: {"schema": found[0] if len(found) == 1 else {"anyOf": found}}
            for kind, found in content.items()
        }
    return response
