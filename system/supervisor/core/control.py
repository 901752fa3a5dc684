"""A request to a running supervisor, and whether this supervisor may obey it."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

TTL_S_MIN: Final = 30
TTL_S_MAX: Final = 86_400
TTL_S: Final = 3600


class Action(StrEnum):
    """What may be asked.

    `PAUSE` lets every running job finish and starts no worker until `CONTINUE`; `RESTART` puts
    newly loaded code in the place of the old; `TERMINATE` ends the supervisor gracefully.
    """

    PAUSE = "pause"
    CONTINUE = "continue"
    TERMINATE = "terminate"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Control:
    """One request.

    Attributes:
        action: What is asked.
        instance: The supervisor that is meant: one life of one master.
        nonce: A number used once.
        asked_us: When, microseconds of the host's monotonic clock.
        ttl_s: How long it holds, seconds.
    """

    action: Action
    instance: str
    nonce: str
    asked_us: int
    ttl_s: int


def refuse(
    control: Control, instance: str, now_us: int, used: Container[str], ttl_s_max: float = TTL_S_MAX
) -> str | None:
    """Say why a request must not be obeyed, or None.

    Args:
        control: The request.
        instance: Who would obey.
        now_us: Now, by the same clock as the request's.
        used: Numbers of requests that were taken before.
        ttl_s_max: How long any request may hold here.
    """
    if control.instance != instance:
        return f"it is for instance {control.instance}"
    if control.nonce in used:
        return "it was taken before"
    if not TTL_S_MIN <= control.ttl_s <= ttl_s_max:
        return f"it holds for {control.ttl_s} s; allowed: {TTL_S_MIN} to {ttl_s_max:g}"
    age_us = now_us - control.asked_us
    if age_us < 0:
        return "it comes from the future"
    if age_us >= control.ttl_s * 1_000_000:
        return f"it is {age_us // 1_000_000} s old and held for {control.ttl_s} s"
    return None
