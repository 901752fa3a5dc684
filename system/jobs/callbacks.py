"""Functions in place of closures: registered ones, called by name, never by what a message says.

A callback is a job: a name that `Application.job` knows, or a function that `Application.function`
registered as `module:function`. A message can call only what the application registered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from .application import Application
from .links import Link
from .payload import Envelope, JobBody, encode_payload, partition_of

CallbackRef = str | Callable[..., Any]
"""A registered job's name, a registered function's `module:function`, or the function itself."""


class _Named(msgspec.Struct, frozen=True):
    job: str


_NAMED: msgspec.json.Decoder[_Named] = msgspec.json.Decoder(_Named)


def reference(callback: CallbackRef) -> str:
    """The name under which a callback is registered."""
    if isinstance(callback, str):
        return callback
    return f"{callback.__module__}:{callback.__qualname__}"


def callback_link(
    app: Application, callback: CallbackRef, callback_id: str, connection: str | None
) -> Link:
    """A callback that is to be pushed later, once its data is known.

    Raises:
        ValueError: Nothing is registered under its name.
    """
    name = reference(callback)
    app.require(name)
    settings = app.route(connection)
    partition = partition_of(callback_id, settings.partitions)
    raw = msgspec.Raw(msgspec.json.encode(_Named(name)))
    return Link(queue=settings.queue, partition=partition, id=callback_id, body=raw)


def callback_payload(app: Application, link: Link, data: object) -> bytes:
    """The payload of a callback, now that its data is known; sealed, if its job is."""
    name = _NAMED.decode(link.body).job
    sealed, encrypted = app.encode_data(name, link.id, data)
    body = JobBody(job=name, id=link.id, data=sealed, partition=link.partition, encrypted=encrypted)
    return encode_payload(Envelope(body))
