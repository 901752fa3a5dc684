"""One queue: its options, partitions, groups and dead letters."""

from __future__ import annotations

from .cursors import Group
from .options import QueueOptions
from .partition import Partition
from .replies import DeadLetter


class Queue:
    """A named set of partitions.

    Attributes:
        number: Minted by the machine, never reused; orders queues.
        name: Its name.
        queue_id: Minted at creation.
        created_us: Stamp of its creation.
        namespace: Label.
        task: Label.
        options: Replaced as a whole by configure.
        partitions: Name to partition, in order of creation.
        groups: Name to group, in order of creation.
        dead: Dead letter id to dead letter, oldest first.
    """

    __slots__ = (
        "created_us",
        "dead",
        "groups",
        "name",
        "namespace",
        "number",
        "options",
        "partitions",
        "queue_id",
        "task",
    )

    def __init__(
        self, number: int, name: str, queue_id: str, created_us: int, options: QueueOptions
    ) -> None:
        self.number = number
        self.name = name
        self.queue_id = queue_id
        self.created_us = created_us
        self.namespace, self.task = labels_of(name)
        self.options = options
        self.partitions: dict[str, Partition] = {}
        self.groups: dict[str, Group] = {}
        self.dead: dict[str, DeadLetter] = {}


def labels_of(name: str) -> tuple[str, str]:
    """Namespace and task of a queue named `namespace.task`, else two empty texts."""
    namespace, dot, task = name.partition(".")
    return (namespace, task) if dot and namespace and task else ("", "")
