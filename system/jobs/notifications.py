"""Queued notifications: one job for each one who is told, so that each is told once."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from .application import Application
from .context import JobContext
from .dispatch import Dispatch, prepare_dispatch
from .payload import encode_data

Notification = Callable[[JobContext, Any, Any], None]


def notification(
    app: Application,
    name: str,
    *,
    tries: int | None = None,
    backoff_s: tuple[float, ...] | None = None,
    timeout_s: float | None = None,
    connection: str | None = None,
    encrypted: bool = False,
) -> Callable[[Notification], Notification]:
    """Register the function `f(context, notifiable, payload)` that it decorates.

    Raises:
        ValueError: The name is taken, or a number is negative.
    """

    def register(send: Notification) -> Notification:
        def run(context: JobContext, data: dict[str, Any]) -> None:
            send(context, data["notifiable"], data["payload"])

        app.job(
            _job_name(name),
            tries=tries,
            backoff_s=backoff_s,
            timeout_s=timeout_s,
            connection=connection,
            encrypted=encrypted,
        )(run)
        return send

    return register


def prepare_notification(
    app: Application,
    name: str,
    notifiables: Sequence[object],
    payload: object = None,
    *,
    notification_id: str | None = None,
) -> tuple[Dispatch, ...]:
    """One job for each notifiable.

    Args:
        app: Where the notification is registered.
        name: Its name.
        notifiables: Who is told; each anything that JSON can hold. The same one twice is told once.
        payload: What all are told.
        notification_id: Its id: sent again under it, each is still told once. None mints one.

    Raises:
        ValueError: There is no such notification.
    """
    chosen = notification_id or str(uuid.uuid4())
    prepared: dict[str, Dispatch] = {}
    for notifiable in notifiables:
        mark = hashlib.sha256(bytes(encode_data(notifiable))).hexdigest()[:16]
        data = {"notifiable": notifiable, "payload": payload}
        prepared[mark] = prepare_dispatch(app, _job_name(name), data, job_id=f"{chosen}.{mark}")
    return tuple(prepared.values())


def _job_name(name: str) -> str:
    return f"notification/{name}"
