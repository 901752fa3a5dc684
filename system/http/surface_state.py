"""The operations on keys, locks and streaming queries, and of the node itself."""

from __future__ import annotations

from typing import Final

from . import kv_bodies, parse_streams, surface_answers, surface_forms
from .surface import HTML, PLAIN_TEXT, Operation, number

STATE_OPERATIONS: Final = (
    Operation(
        "POST",
        "/api/v1/kv",
        "Operations on keys that apply together.",
        {200: surface_answers.KvAnswer},
        body=surface_forms.KvBatchForm,
        grows=True,
        coded=True,
    ),
    Operation(
        "GET",
        "/api/v1/kv/{ns}/{key}",
        "Read a key, which may hold slashes.",
        {200: surface_answers.KvResult},
        coded=True,
    ),
    Operation(
        "PUT",
        "/api/v1/kv/{ns}/{key}",
        "Write a key, which may hold slashes.",
        {200: surface_answers.KvResult},
        body=surface_forms.KvPathForm,
        grows=True,
        coded=True,
    ),
    Operation(
        "DELETE",
        "/api/v1/kv/{ns}/{key}",
        "Delete a key, which may hold slashes.",
        {200: surface_answers.KvResult},
        query=(number("expect", "Only if it has this version."),),
        coded=True,
    ),
    Operation(
        "POST",
        "/api/v1/locks",
        "Acquire, renew, release or look at locks.",
        {200: kv_bodies.LocksBody},
        body=surface_forms.LocksForm,
        coded=True,
    ),
    Operation(
        "POST",
        "/streams/v1/queries",
        "Register a streaming query.",
        {200: surface_answers.QueryAnswer, 409: surface_answers.RefusedAnswer},
        body=parse_streams._QueryBody,
    ),
    Operation(
        "POST",
        "/streams/v1/state/get",
        "Read a streaming query's state.",
        {200: surface_answers.StateAnswer},
        body=parse_streams._StateBody,
    ),
    Operation(
        "POST",
        "/streams/v1/cycle",
        "State, pushes and an ack of a streaming query that apply together.",
        {200: surface_answers.CycleAnswer},
        body=parse_streams._CycleBody,
        grows=True,
    ),
    Operation(
        "GET",
        "/health",
        "How this node is; 503 when it cannot serve.",
        {200: surface_answers.NodeStateAnswer, 503: surface_answers.NodeStateAnswer},
        reach="node",
        is_open=True,
    ),
    Operation(
        "GET",
        "/metrics",
        "The same, and what waits.",
        {200: surface_answers.NodeStateAnswer},
        reach="node",
    ),
    Operation(
        "GET",
        "/metrics/prometheus",
        "The same in Prometheus' text format.",
        {200: PLAIN_TEXT},
        reach="node",
    ),
    Operation("GET", "/", "The same for people.", {200: HTML}, reach="node"),
    Operation(
        "GET",
        "/openapi.json",
        "This document.",
        {200: surface_answers.DocumentAnswer},
        reach="node",
    ),
)
