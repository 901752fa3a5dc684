"""A node that takes part again as a new server: wiped, added, caught up, promoted."""

from __future__ import annotations

import signal
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import trio

from ..histories.ops import Json
from .acts import Evidence, Stage, see_gone
from .administration import ChangeAction, Member
from .process import ProcessGoneError, is_alive, send_to

LAG_MAX: Final = 100
"""A learner that lacks more entries is not promoted yet."""

_CHANGE_S: Final = 4.0
_PAUSE_S: Final = 0.1
_DONE: Final = "done"


@dataclass(slots=True)
class Rejoining:
    """How nodes are made members again, and what was said to it.

    Attributes:
        stage: Of the act.
        changes: What was asked, and how it ended, in order; repeats are left out.
    """

    stage: Stage
    changes: list[Json] = field(default_factory=list)

    async def change(self, action: ChangeAction, node: str) -> str:
        """Ask for a change; returns how it ended, `done` if it was made."""
        desk = self.stage.world.administration()
        word = (await desk.change(action, node, _CHANGE_S)).word
        told: Json = f"{action} {node}: {word}"
        if self.changes[-1:] != [told]:
            self.changes.append(told)
        return word

    async def wipe(self, node: str) -> int:
        """Kill a node if it runs, and delete its data; returns how many bytes that were."""
        target = self.stage.world.node_process(node)
        with suppress(ProcessGoneError):
            send_to(target, signal.SIGKILL)
        await see_gone(self.stage, target)
        return await self.stage.world.administration().wipe(node)

    async def rejoin(self, node: str) -> Evidence:
        """Start a node and make it a voter; goes on until it is one, or is cancelled."""
        world = self.stage.world
        begun = trio.current_time()
        lag: int | None = None
        while True:
            if not is_alive(world.node_process(node)):
                await world.start_node(node)
            members = await world.administration().members()
            if members is not None:
                member = members.get(node)
                if member is not None and member.role == "voter" and not member.replaced:
                    break
                lag = await self._advance(node, member)
            await trio.sleep(_PAUSE_S)
        return {"rejoined_s": round(trio.current_time() - begun, 3), "lag": lag}

    async def _advance(self, node: str, member: Member | None) -> int | None:
        """The next change on the way; returns what the node lacks when it is promoted."""
        if member is None:
            word = await self.change("add", node)
            if word.endswith("incarnation_known"):
                await self.change("replace", node)
        elif member.replaced:
            await self.change("replace", node)
        elif member.lag is not None and member.lag <= LAG_MAX:
            await self.change("promote", node)
            return member.lag
        return None

    @property
    def told(self) -> Evidence:
        """For the evidence."""
        return {"changes": [*self.changes]}


def is_done(word: str) -> bool:
    """Whether a change was made."""
    return word == _DONE
