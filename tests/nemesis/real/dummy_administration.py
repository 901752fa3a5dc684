"""The operator's side of a dummy world: members in memory, folders that are really deleted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import trio

from atleastonce.nemesis.administration import Change, ChangeAction, Member


class DummyAdministration:
    """All nodes are voters at first. What `refuses` names is refused as often as it says."""

    def __init__(self, nodes: list[str], folder: Callable[[str], Path]) -> None:
        self.roles = dict.fromkeys(nodes, "voter")
        self._folder = folder
        self.refuses: dict[str, int] = {}
        self.asked: list[str] = []
        self.within: dict[str, tuple[str, ...]] = {}
        self.wiped: list[str] = []
        self.probes: list[int] = []
        self.answer: Callable[[str], int | None] = lambda _: 400

    async def probe(self, node: str, body_bytes: int, timeout_s: float) -> int | None:
        await trio.sleep(0.01)
        self.probes.append(body_bytes)
        return self.answer(node)

    async def members(self) -> Mapping[str, Member] | None:
        await trio.sleep(0)
        return {node: Member(role, 0) for node, role in self.roles.items()}

    async def change(self, action: ChangeAction, node: str, timeout_s: float) -> Change:
        await trio.sleep(0)
        self.asked.append(f"{action} {node}")
        if self.refuses.get(action, 0):
            self.refuses[action] -= 1
            return Change(409, "no_quorum")
        if action == "remove":
            del self.roles[node]
        else:
            self.roles[node] = "learner" if action == "add" else "voter"
        return Change(200)

    async def wipe(self, node: str) -> int:
        await trio.sleep(0)
        self.wiped.append(node)
        shutil.rmtree(self._folder(node), ignore_errors=True)
        return 4711

    def start_within(self, node: str, command: Sequence[str]) -> None:
        self.within[node] = tuple(command)
