"""Queued listeners: functions that run as jobs, with tries of their own, when an event is emitted.

Not to be confused with `Application.listen`, whose listeners hear of attempts in the worker itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from .application import Application
from .callbacks import reference
from .dispatch import Dispatch, prepare_dispatch

Listener = Callable[..., Any]


def queued_listener(
    app: Application,
    event: str,
    *,
    tries: int | None = None,
    backoff_s: tuple[float, ...] | None = None,
    timeout_s: float | None = None,
    connection: str | None = None,
) -> Callable[[Listener], Listener]:
    """Register the function `f(context, payload)` that it decorates as a listener of an event.

    Raises:
        ValueError: It listens to this event already, or a number is negative.
    """

    def register(listener: Listener) -> Listener:
        app.job(
            f"{_prefix(event)}{reference(listener)}",
            tries=tries,
            backoff_s=backoff_s,
            timeout_s=timeout_s,
            connection=connection,
        )(listener)
        return listener

    return register


def prepare_event(
    app: Application, event: str, payload: object, *, event_id: str | None = None
) -> tuple[Dispatch, ...]:
    """One job for each listener of an event, in order of registration.

    Args:
        app: Where they are registered.
        event: Its name.
        payload: What each is called with.
        event_id: Its id: emitted again under it, each listener still runs once. None mints one.
    """
    chosen = event_id or str(uuid.uuid4())
    names = [name for name in app.job_names if name.startswith(_prefix(event))]
    return tuple(
        prepare_dispatch(app, name, payload, job_id=f"{chosen}.{name.removeprefix(_prefix(event))}")
        for name in names
    )


def _prefix(event: str) -> str:
    return f"listener/{event}/"
