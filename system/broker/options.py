"""Options of a queue: names on the wire, defaults, and what they do.

Enforced here: `leaseTime`, `retryLimit`, `deadLetterQueue`, `dlqAfterMaxRetries`,
`delayedProcessing`, `windowBuffer`, `dedupWindowSeconds`, and the four of retention by time (see
`aging`). All others are stored and echoed only.
"""

from __future__ import annotations

from typing import Final

IMPLICIT_LEASE_S: Final = 60
"""Lease time of a queue that a push or a pop created; configuring makes it 300."""

_DEFAULTS: Final[dict[str, int | bool]] = {
    "leaseTime": 300,
    "retryLimit": 3,
    "deadLetterQueue": True,
    "dlqAfterMaxRetries": True,
    "delayedProcessing": 0,
    "windowBuffer": 0,
    "dedupWindowSeconds": 3600,
    "retentionEnabled": False,
    "retentionSeconds": 0,
    "completedRetentionSeconds": 0,
    "maxWaitTimeSeconds": 0,
    "encryptionEnabled": False,
    "priority": 0,
    "retryDelay": 1000,
    "ttl": 3600,
    "maxSize": 0,
    "minPopWaitTime": 0,
}
OPTION_NAMES: Final = tuple(_DEFAULTS)
FLAG_NAMES: Final = tuple(
    name for name, value in _DEFAULTS.items() if value is True or value is False
)

RESOLUTION_US: Final = 900 * 1_000_000
"""An ack finds its message by transaction id at least this long after the push."""


class QueueOptions:
    """The effective options of one queue; immutable after construction.

    The attributes are what the hot paths read, in the units that they calculate with; an age of 0
    means that there is no such rule.
    """

    __slots__ = (
        "completed_us",
        "dead_letters",
        "dedup_us",
        "delay_us",
        "evict_us",
        "lease_s",
        "memory_us",
        "retain_us",
        "retry_limit",
        "values",
        "window_us",
    )

    def __init__(self, values: dict[str, int | bool]) -> None:
        self.values = values
        self.lease_s = max(1, values["leaseTime"])
        self.retry_limit = int(values["retryLimit"])
        self.dead_letters = bool(values["deadLetterQueue"] or values["dlqAfterMaxRetries"])
        self.delay_us = values["delayedProcessing"] * 1_000_000
        self.window_us = values["windowBuffer"] * 1_000_000
        self.dedup_us = values["dedupWindowSeconds"] * 1_000_000
        completed_us = values["completedRetentionSeconds"] * 1_000_000
        self.memory_us = max(self.dedup_us, completed_us, RESOLUTION_US)
        is_retaining = values["retentionEnabled"]
        self.retain_us = values["retentionSeconds"] * 1_000_000 if is_retaining else 0
        self.completed_us = completed_us if is_retaining else 0
        self.evict_us = values["maxWaitTimeSeconds"] * 1_000_000

    @property
    def ages(self) -> bool:
        """Whether messages leave the log because of their age."""
        return bool(self.retain_us or self.completed_us or self.evict_us)

    @property
    def age_min_us(self) -> int | None:
        """No message is let go before it is so old; None when age never matters."""
        ages = [age for age in (self.retain_us, self.completed_us, self.evict_us) if age]
        return min(ages, default=None)


def implicit_options() -> QueueOptions:
    """The options of a queue that nobody configured."""
    return QueueOptions({**_DEFAULTS, "leaseTime": IMPLICIT_LEASE_S})


def configured_options(
    current: QueueOptions | None, changes: dict[str, int | bool | None], replace: bool
) -> QueueOptions:
    """Merge (absent keeps, None restores the default) or replace (absent restores the default).

    Unknown names are dropped; `current` is None for a queue that does not exist yet.
    """
    values = dict(_DEFAULTS) if replace or current is None else dict(current.values)
    for name, value in changes.items():
        if name in _DEFAULTS:
            values[name] = _DEFAULTS[name] if value is None else value
    return QueueOptions(values)
