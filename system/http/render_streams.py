"""Replies about streaming queries to HTTP answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from ..broker.stream_replies import CycleReply, QueryRegistered, StreamStateReply
from .answer import Answer, json_answer
from .timestamps import rfc3339


class _RowBody(msgspec.Struct):
    key: str
    value: Raw
    updated_at: str


def _registered(reply: QueryRegistered, _: str) -> Answer:
    if reply.conflicts:
        text = f"config_hash mismatch for query {reply.name}"
        return json_answer({"success": False, "error": text, "code": "config_hash_mismatch"}, 409)
    return json_answer(
        {
            "success": True,
            "query_id": reply.query_id,
            "name": reply.name,
            "config_hash": reply.config_hash,
            "fresh": reply.fresh,
            "reset": reply.reset,
        }
    )


def _state(reply: StreamStateReply, _: str) -> Answer:
    rows = [_RowBody(row.key, Raw(row.value), rfc3339(row.updated_us)) for row in reply.rows]
    return json_answer({"success": True, "rows": rows})


def _cycle(reply: CycleReply, _: str) -> Answer:
    if reply.error:
        return json_answer({"success": False, "error": reply.error})
    return json_answer({"success": True, "pushed": reply.pushed, "lease_released": reply.released})


STREAM_RENDERERS: Final[dict[type, Callable[..., Answer]]] = {
    QueryRegistered: _registered,
    StreamStateReply: _state,
    CycleReply: _cycle,
}
