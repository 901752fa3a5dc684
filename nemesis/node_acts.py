"""Faults on nodes: killed, asked to stop, paused."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterable
from contextlib import ExitStack

import trio

from ..histories.ops import Json
from .acts import (
    POLL_S,
    Evidence,
    NoBiteError,
    Stage,
    already_gone,
    check_killed,
    exit_of,
    see_gone,
    terminate,
)
from .fault import Fault
from .process import (
    ProcessGoneError,
    is_alive,
    is_stopped,
    opened,
    send,
    send_to,
    wait_stopped,
)
from .selectors import is_of_many, pick
from .world import Target, World


class NodeAct:
    """What faults on nodes have in common."""

    def __init__(self, fault: Fault, stage: Stage) -> None:
        self.fault = fault
        self.stage = stage
        self.claimed: frozenset[str] = frozenset()
        self.targets: tuple[Target, ...] = ()
        self.leader: str | None = None
        self.leader_after: str | None = None
        self.bitten_s = 0.0
        self.leader_after_s = 0.0
        self.told_to_end = False

    @property
    def hit(self) -> str:
        """See `Act`."""
        return ",".join(target.name for target in self.targets)

    @property
    def pid(self) -> int | None:
        """See `Act`."""
        return self.targets[0].pid if len(self.targets) == 1 else None

    def context(self) -> Evidence:
        """See `Act`."""
        # A fault on links holds no node.
        hit = self.claimed or {target.name for target in self.targets}
        return {"leader": self.leader, "nodes": describe(self.stage.world, hit)}

    async def choose(self) -> tuple[Target, ...]:
        """See `Act`."""
        stage, settings = self.stage, self.stage.settings
        wait_s = settings.leader_wait_s
        # On a slow machine faults pile up behind each other; late is better than never.
        in_all_s = wait_s + 2 * settings.recover_wait_s
        stage.queue.append(self.fault)
        try:
            with trio.move_on_after(in_all_s), trio.CancelScope() as patience:
                while True:
                    # Only a cluster that is left alone has to have a leader soon.
                    if not self._is_free() or patience.deadline == math.inf:
                        patience.deadline = trio.current_time() + wait_s
                    if await self._claim():
                        return self.targets
                    await trio.sleep(POLL_S)
        finally:
            stage.queue.remove(self.fault)
        if self._is_free():
            raise NoBiteError(f"no leader for {wait_s:g} s")
        raise NoBiteError(f"another fault held the {self.fault.target} for {in_all_s:g} s")

    def _is_free(self) -> bool:
        """Whether no other fault holds any node, or comes before with a claim to all."""
        stage = self.stage
        before = stage.queue[: stage.queue.index(self.fault)] if self.fault in stage.queue else ()
        held = stage.claims.intersection(stage.world.nodes())
        return not held and not any(is_of_many(fault.target) for fault in before)

    async def _claim(self) -> bool:
        """Take the target, if it exists, is free, and is nobody's turn before."""
        stage = self.stage
        self.leader = await stage.world.leader()
        nodes = self._pick(self.leader)
        before = stage.queue[: stage.queue.index(self.fault)]
        if not nodes or stage.claims.intersection(nodes):
            return False
        if any(is_of_many(fault.target) for fault in before):
            return False
        self.claimed = frozenset(nodes)
        stage.claims |= self.claimed
        self.targets = tuple(stage.world.node_process(node) for node in nodes)
        return True

    def _pick(self, leader: str | None) -> tuple[str, ...]:
        if leader is None:
            return ()
        fault, stage = self.fault, self.stage
        return pick(fault.target, stage.world.nodes(), leader, stage.claims, fault.choice)

    async def hold(self) -> None:
        """Wait for the planned time, and see meanwhile whether another node takes the lead."""
        with trio.move_on_after(self.fault.duration_s):
            while self.leader_after is None:
                leader = await self.stage.world.leader()
                if leader is not None and leader != self.leader:
                    self.leader_after = leader
                    self.leader_after_s = round(time.monotonic() - self.bitten_s, 3)
                await trio.sleep(POLL_S)
            await trio.sleep_forever()

    def seen_meanwhile(self) -> Evidence:
        """See `Act`."""
        if self.leader_after is None:
            return {}
        return {"leader_after": self.leader_after, "leader_after_s": self.leader_after_s}

    async def start_again(self) -> Evidence:
        """Start every target that is down; one that the fault did not end is left alone."""
        started = []
        for target in self.targets:
            if self.told_to_end:
                await see_gone(self.stage, target)
            if not is_alive(target):
                await self.stage.world.start_node(target.name)
                started.append(target.name)
        return {"started": list(started)}

    async def recover(self) -> Evidence | None:
        """See `Act`."""
        begun_s, wait_s = time.monotonic(), self.stage.settings.recover_wait_s
        for node in sorted(self.claimed):
            left_s = max(0.0, begun_s + wait_s - time.monotonic())
            if not await self.stage.world.wait_node_healthy(node, left_s):
                return None
        return {"healthy_after_s": round(time.monotonic() - begun_s, 3)}


class KillNodes(NodeAct):
    """kill-leader, kill-follower, kill-all, kill-nodes: SIGKILL, stay down, start again."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        with ExitStack() as stack:
            descriptors = _open_all(stack, self.targets)
            begun_ns = time.monotonic_ns()
            self.told_to_end = True
            for descriptor in descriptors:
                send(descriptor, signal.SIGKILL)
            spread_ns = time.monotonic_ns() - begun_ns
        self.bitten_s = time.monotonic()
        statuses: Evidence = {}
        for target in self.targets:
            status = await exit_of(self.stage, target)
            check_killed(target, status)
            statuses[target.name] = status
        return {"signal": "SIGKILL", "statuses": statuses, "spread_us": spread_ns // 1000}

    async def heal(self) -> Evidence:
        """See `Act`."""
        return self.seen_meanwhile() | await self.start_again()


class TermNode(NodeAct):
    """term-leader: SIGTERM, wait for the graceful exit, stay down, start again."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        self.bitten_s = time.monotonic()
        self.told_to_end = True
        return await terminate(self.stage, self.targets[0], self.stage.settings.node_grace_s)

    async def heal(self) -> Evidence:
        """See `Act`."""
        return self.seen_meanwhile() | await self.start_again()


class TermNodes(NodeAct):
    """term-nodes: SIGTERM of all targets at once, their graceful exits, start again."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        self.bitten_s = time.monotonic()
        self.told_to_end = True
        ended: Evidence = {}
        refusals: list[NoBiteError] = []

        async def end(target: Target) -> None:
            try:
                grace_s = self.stage.settings.node_grace_s
                ended[target.name] = await terminate(self.stage, target, grace_s)
            except NoBiteError as error:
                refusals.append(error)

        async with trio.open_nursery() as nursery:
            for target in self.targets:
                nursery.start_soon(end, target)
        if refusals:
            raise refusals[0]
        return ended

    async def heal(self) -> Evidence:
        """See `Act`."""
        return self.seen_meanwhile() | await self.start_again()


class PauseNode(NodeAct):
    """pause-leader, pause-nodes: SIGSTOP, seen stopped, SIGCONT, seen running."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        begun_s = time.monotonic()
        with ExitStack() as stack:
            for descriptor in _open_all(stack, self.targets):
                send(descriptor, signal.SIGSTOP)
        for target in self.targets:
            if not await wait_stopped(target, True, self.stage.settings.exit_wait_s):
                raise NoBiteError(f"{target.name} was not seen stopped")
        self.bitten_s = time.monotonic()
        return {"state": "T", "confirmed_ms": round((self.bitten_s - begun_s) * 1000, 3)}

    async def heal(self) -> Evidence:
        """See `Act`."""
        was_stopped = all(is_stopped(target) for target in self.targets)
        gone = []
        for target in self.targets:
            try:
                send_to(target, signal.SIGCONT)
            except ProcessGoneError:
                gone.append(target)
        living = [target for target in self.targets if target not in gone]
        if not living:
            return {"gone": True}
        wait_s = self.stage.settings.exit_wait_s
        runs = all([await wait_stopped(target, False, wait_s) for target in living])
        stopped_s = round(time.monotonic() - self.bitten_s, 3) if was_stopped else 0.0
        return self.seen_meanwhile() | {
            "stopped_to_the_end": was_stopped,
            "stopped_s": stopped_s,
            "runs": runs,
        }


def describe(world: World, nodes: Iterable[str]) -> dict[str, Json]:
    """Role and state of nodes, as each said last: for the evidence of what a fault hit."""
    states = world.last_states()
    return {
        node: {"role": states[node].role or "silent", "state": states[node].word}
        for node in sorted(nodes)
    }


def _open_all(stack: ExitStack, targets: tuple[Target, ...]) -> list[int]:
    """Pidfds of all targets, before the first is signalled."""
    descriptors = []
    for target in targets:
        try:
            descriptors.append(stack.enter_context(opened(target)))
        except ProcessGoneError:
            raise already_gone(target) from None
    return descriptors
