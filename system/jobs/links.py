"""What travels with a job for after it: the rest of its chain, and whom to call when it fails."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..client import calls as broker


class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job that is pushed once something else has ended.

    Attributes:
        queue: Queue it goes to.
        partition: Partition it goes to.
        id: Its job id, which is also its transaction id: a repeat of its push is a duplicate.
        body: The job, JSON; of a callback, whose data comes later, its name only.
        delay_s: Pause before it is pushed.
    """

    queue: str
    partition: str
    id: str
    body: msgspec.Raw
    delay_s: float = 0.0


class Chain(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to come after a job of a chain.

    Attributes:
        id: The chain.
        links: The jobs that follow, in order.
        catch: Called once when a job of the chain is given up.
    """

    id: str
    links: tuple[Link, ...] = ()
    catch: Link | None = None


class Followers:
    """What a transaction pushes beside an ack: messages, and timers for those that wait."""

    def __init__(self) -> None:
        self.items: list[dict[str, object]] = []
        self.timers: list[dict[str, object]] = []

    def add(self, link: Link, payload: bytes) -> None:
        """Push a link, or have a timer push it."""
        if link.delay_s > 0:
            self.timers.append(
                broker.schedule_operation(
                    link.queue,
                    f"delay:{link.id}",
                    delay_s=link.delay_s,
                    txn=link.id,
                    partition=link.partition,
                    payload=payload,
                )
            )
            return
        self.items.append(
            {
                "queue": link.queue,
                "partition": link.partition,
                "transactionId": link.id,
                "payload": msgspec.Raw(payload),
            }
        )

    def drop(self, known: set[str]) -> None:
        """Drop the messages of these transaction ids: they are there already."""
        self.items = [item for item in self.items if item["transactionId"] not in known]

    def named_by(self, refusal: str) -> str | None:
        """Transaction id of the message that a refusal calls a duplicate; None if of none."""
        for item in self.items:
            if refusal.endswith(f" {item['transactionId']}"):
                return str(item["transactionId"])
        return None

    def body(
        self, ack: dict[str, object], tail: Sequence[dict[str, object]] = ()
    ) -> dict[str, object]:
        """The transaction of an ack and all of them; `tail` goes with a dead letter."""
        operations = [ack, *tail]
        if self.items:
            operations.append({"type": "push", "items": self.items})
        body: dict[str, object] = {"operations": operations}
        if self.timers:
            body["timers"] = self.timers
        return body
