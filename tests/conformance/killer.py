"""Kills the leader of a cluster at a steady pace, and starts it again."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Final

from tests.system.node.node_cluster import Cluster

INTERVAL_S: Final = 10.0
DOWN_S: Final = 1.0


class LeaderKiller:
    """A context in which a cluster's leader dies every ten seconds.

    The nodes that it started ask to die with the thread that did, so the cluster ends with it.

    Attributes:
        kills: How often it did.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.kills = 0
        self._cluster = cluster
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leader-killer")

    def __enter__(self) -> LeaderKiller:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            leader = self._cluster.leader()
            leader.kill()
            self.kills += 1
            self._ended.wait(DOWN_S)
            leader.start()
