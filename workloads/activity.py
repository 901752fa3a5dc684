"""What a workload does in a run, phase by phase; the runner knows workloads by this alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Activity(Protocol):
    """One workload at work."""

    async def prepare(self) -> None:
        """Set up what the load needs; the system is up and no fault is open.

        Raises:
            BrokerError: The system does not take it.
        """

    async def load(self) -> None:
        """Keep clients busy until the time limit, and return when their last answers are in."""

    async def finish(self) -> None:
        """Drain and read back; all faults are healed and all nodes are up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Size of a workload that speaks to the nodes alone.

    Attributes:
        seed: Of what the clients do.
        rate: Operations a second, over all clients.
        time_limit_s: How long the clients are busy.
        clients_per_node: Clients of each node.
        partitions: Partitions of the queue (`queue`).
        lease_s: Lease of a pop (`queue`).
        reack: Share of acks that are asked for a second time (`queue`).
        hold: Share of deliveries that are acked only after much of their lease (`queue`).
        hang_up: Share of pops whose client hangs up before their end (`queue`).
        resend: Share of messages and records that are sent a second time (`queue`, `log`).
        resend_after_s_max: Latest moment of that.
        txn: Whether each send is one transaction of several pushes (`log`).
        try_timeout_s: How long a client waits for an answer.
        settle_s: Pause between the healing and the final phase.
        final_s: Longest final phase.
    """

    seed: int
    rate: float
    time_limit_s: float
    clients_per_node: int = 2
    partitions: int = 16
    lease_s: int = 3
    reack: float = 0.0
    hold: float = 0.0
    hang_up: float = 0.0
    resend: float = 0.0
    resend_after_s_max: float = 5.0
    txn: bool = False
    try_timeout_s: float = 6.0
    settle_s: float = 3.0
    final_s: float = 60.0
