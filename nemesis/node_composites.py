"""Faults on nodes in steps: while they elect, while they catch up, one by one, in halves."""

from __future__ import annotations

import random
import signal
import time
from typing import Final

import trio

from ..histories.ops import Json
from .acts import (
    Evidence,
    NoBiteError,
    check_killed,
    exit_of,
    see_gone,
    send_or_no_bite,
    terminate,
)
from .node_acts import NodeAct, describe
from .process import ProcessGoneError, is_alive, is_stopped, send_to, wait_stopped
from .world import NodeState, Target

_LOOK_S: Final = 0.005
_TRIES: Final = 3


class _Stepwise(NodeAct):
    """Holds all nodes, and hits some of them one after the other; its effect says which."""

    ending: Target | None = None

    def context(self) -> Evidence:
        """See `Act`: which of the nodes are hit is told by the effect."""
        self.seen = describe(self.stage.world, self.claimed)
        return {"leader": self.leader}

    async def kill(self, target: Target) -> None:
        """SIGKILL, seen in the wait status; `NoBiteError` if it ended by itself."""
        self.ending = target
        send_or_no_bite(target, signal.SIGKILL)
        check_killed(target, await exit_of(self.stage, target))
        self.ending = None

    def process(self, node: str) -> Target:
        """The process that a node runs in now."""
        return self.stage.world.node_process(node)

    async def heal(self) -> Evidence:
        """See `Act`."""
        if self.ending is not None:
            await see_gone(self.stage, self.ending)
        continued: list[Json] = []
        for node in sorted(self.claimed):
            target = self.process(node)
            if is_stopped(target):
                continued.append(node)
                try:
                    send_to(target, signal.SIGCONT)
                except ProcessGoneError:
                    continue
                await wait_stopped(target, False, self.stage.settings.exit_wait_s)
        # A node may have been started again meanwhile, as another process.
        self.targets = tuple(self.process(node) for node in sorted(self.claimed))
        return self.seen_meanwhile() | await self.start_again() | {"continued": continued}


class RollingRestart(_Stepwise):
    """rolling-restart: SIGTERM, down, start, healthy; one node after the other."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        self.bitten_s = time.monotonic()
        rest = [node for node in sorted(self.claimed) if node != self.leader]
        steps: Evidence = {}
        for node in [*rest, *([self.leader] if self.leader else [])]:
            steps[node] = await self._restart(node)
        return {"signal": "SIGTERM", "steps": steps, "nodes": self.seen}

    async def _restart(self, node: str) -> Json:
        settings = self.stage.settings
        begun_s = time.monotonic()
        self.ending = self.process(node)
        ended = await terminate(self.stage, self.ending, settings.node_grace_s)
        self.ending = None
        await self.stage.world.start_node(node)
        if not await self.stage.world.wait_node_healthy(node, settings.recover_wait_s):
            raise NoBiteError(
                f"{node} was not healthy {settings.recover_wait_s:g} s after its restart"
            )
        return {"ended": ended["ended"], "back_s": round(time.monotonic() - begun_s, 3)}

    async def hold(self) -> None:
        """See `Act`: the last node is back when it has bitten."""
        await trio.lowlevel.checkpoint()


class KillElecting(_Stepwise):
    """kill-electing: kill the leader, then whoever is about to take the lead, or has just done."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        world, leader = self.stage.world, self.leader
        assert leader is not None, "bite before choose"
        term = (await world.node_state(leader)).term
        await self.kill(self.process(leader))
        self.bitten_s = time.monotonic()
        rest = [node for node in sorted(self.claimed) if node != leader]
        with trio.move_on_after(self.stage.settings.leader_wait_s):
            while True:
                for node in rest:
                    state = await world.node_state(node)
                    if _is_electing(state, term):
                        await self.kill(self.process(node))
                        after_ms = round((time.monotonic() - self.bitten_s) * 1000, 1)
                        return {
                            "signal": "SIGKILL",
                            "first": leader,
                            "second": node,
                            "role": state.role,
                            "term": state.term,
                            "nodes": {
                                leader: self.seen[leader],
                                node: {"role": state.role, "state": "electing"},
                            },
                            "after_ms": after_ms,
                        }
                await trio.sleep(_LOOK_S)
        raise NoBiteError("no node was seen to take the lead after the leader's death")


def _is_electing(state: NodeState, term: int) -> bool:
    """Whether a node wants the lead, or has taken it in a later term."""
    return "candidate" in state.role or (state.role == "leader" and state.term > term)


class KillCatchingUp(_Stepwise):
    """kill-catching-up: a node that was down is started, and killed again while it is behind."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        world = self.stage.world
        followers = [node for node in sorted(self.claimed) if node != self.leader]
        node = followers[self.fault.choice % len(followers)]
        await self.kill(self.process(node))
        self.bitten_s = time.monotonic()
        for attempt in range(1, _TRIES + 1):
            await trio.sleep(self.fault.duration_s)
            leader = await world.leader()
            reached = (await world.node_state(leader)).applied if leader is not None else 0
            await world.start_node(node)
            state = await self._first_word(node)
            behind = reached - state.applied if state is not None else 0
            await self.kill(self.process(node))
            if behind > 0:
                return {
                    "signal": "SIGKILL",
                    "node": node,
                    "behind": behind,
                    "tries": attempt,
                    "nodes": {node: {"role": "follower", "state": "catching up"}},
                }
        raise NoBiteError(f"{node} was never seen behind in {_TRIES} starts")

    async def _first_word(self, node: str) -> NodeState | None:
        """What a node that was just started says first; None if it says nothing in time."""
        with trio.move_on_after(self.stage.settings.recover_wait_s):
            while is_alive(self.process(node)):
                state = await self.stage.world.node_state(node)
                if state.role:
                    return state
                await trio.sleep(_LOOK_S)
        return None


class PauseKill(_Stepwise):
    """pause-kill: what a power failure leaves must form a quorum with nodes that fell behind.

    Some nodes are paused for half of the time; then one of the others is killed, the rest paused,
    those that are behind continued, and the killed one started: they are the majority now.
    """

    async def bite(self) -> Evidence:
        """See `Act`."""
        nodes = sorted(self.claimed)
        random.Random(self.fault.choice).shuffle(nodes)
        few = (len(nodes) - 1) // 2
        behind, crasher, rest = nodes[:few], nodes[few], nodes[few + 1 :]
        self.bitten_s = time.monotonic()
        await self._stop(behind)
        await trio.sleep(self.fault.duration_s / 2)
        await self.kill(self.process(crasher))
        await self._stop(rest)
        for node in behind:
            send_to(self.process(node), signal.SIGCONT)
        await self.stage.world.start_node(crasher)
        return {
            "signal": "SIGKILL",
            "behind": list(behind),
            "killed": crasher,
            "paused": list(rest),
            "behind_s": round(time.monotonic() - self.bitten_s, 3),
            "nodes": self.seen,
        }

    async def _stop(self, nodes: list[str]) -> None:
        for node in nodes:
            target = self.process(node)
            send_or_no_bite(target, signal.SIGSTOP)
            if not await wait_stopped(target, True, self.stage.settings.exit_wait_s):
                raise NoBiteError(f"{node} was not seen stopped")

    async def hold(self) -> None:
        """See `Act`: the second half, in which the new majority serves."""
        leader = None
        with trio.move_on_after(self.fault.duration_s / 2):
            while leader is None:
                leader = await self.stage.world.leader()
                await trio.sleep(_LOOK_S)
            self.leader_after = leader
            self.leader_after_s = round(time.monotonic() - self.bitten_s, 3)
            await trio.sleep_forever()
