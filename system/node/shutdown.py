"""A planned stop, in stages, so that clients of the other nodes do not notice it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from ..raft.events import Role, TransferLeadership
from .logbook import Logbook
from .node import Node

DRAIN_S: Final = 0.5
TRANSFER_S: Final = 3.0
FINISH_S: Final = 6.0

ALONE_S: Final = 0.5
"""Without a quorum in reach for so long, nobody can take over. A link needs less to return."""

_LOOK_S: Final = 0.002


async def stop_gracefully(
    node: Node, has_peers: bool, close_listener: Callable[[], None], logbook: Logbook
) -> None:
    """Take a running node out of service; the caller then ends it.

    Parked pops are answered empty, what is in the log is waited for, leadership goes to another
    node, what has gathered meanwhile is forwarded there, and each connection ends behind the
    answer that it is owed.

    Args:
        node: The node, still running.
        has_peers: Whether anyone could take over.
        close_listener: Accept no more clients.
        logbook: Hears of each stage.
    """
    logbook.info("stopping", stage="waiting pops", parked=len(node.desk.lot))
    node.service.stop()
    if node.leadership.role is Role.LEADER and has_peers:
        node.desk.close()
        await _drain(node, logbook)
        await _hand_over(node, logbook)
        node.proposals.is_held = False
        node.proposals.flush()
    close_listener()
    node.server.close_idle()
    logbook.info("stopping", stage="own connections")
    with trio.move_on_after(FINISH_S) as scope:
        await node.server.wait_empty()
    if scope.cancelled_caught:
        logbook.warning("stopping", stage="connections cut off")


async def _drain(node: Node, logbook: Logbook) -> None:
    """Propose nothing new and wait for what is in the log."""
    node.proposals.is_held = True
    with trio.move_on_after(DRAIN_S):
        while node.proposals.in_flight:
            await trio.sleep(_LOOK_S)
    logbook.info("stopping", stage="drained", left=node.proposals.in_flight)


async def _hand_over(node: Node, logbook: Logbook) -> None:
    """Give leadership to the most caught-up voter, trying again while there is time."""
    began = trio.current_time()
    with trio.move_on_after(TRANSFER_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_when_alone, node, nursery.cancel_scope)
            await _transfer(node)
            nursery.cancel_scope.cancel()
    took_ms = round((trio.current_time() - began) * 1000)
    logbook.info("stopping", stage="leadership", leader=node.leadership.leader, took_ms=took_ms)


async def _transfer(node: Node) -> None:
    """Ask for transfers until another node leads."""
    while node.leadership.role is Role.LEADER:
        tries = len(node.transfers)
        node.driver.step(TransferLeadership(None))
        while len(node.transfers) == tries and node.leadership.role is Role.LEADER:
            await node.leadership.wait_change(trio.current_time() + TRANSFER_S)
        # A refusal comes at once: somebody may be heard again a little later.
        await trio.sleep(_LOOK_S)
    while node.leadership.leader is None:
        await node.leadership.wait_change(trio.current_time() + TRANSFER_S)


async def _stop_when_alone(node: Node, handing_over: trio.CancelScope) -> None:
    """Give up once too few nodes have been in reach for `ALONE_S` to elect anybody."""
    alone_since = trio.current_time()
    while trio.current_time() - alone_since < ALONE_S:
        await trio.sleep(_LOOK_S)
        if node.reaches_quorum:
            alone_since = trio.current_time()
    handing_over.cancel()
