"""A partition and a power loss at once: one node is killed, the others live through it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import trio

from atleastonce.nemesis.links import LinkCounts, LinkRule, Pair

from .applying import apply, fault
from .dummy_world import DummyWorld


class BusyLinks:
    """Links on which every rule drops something."""

    powers = frozenset({"links"})

    def __init__(self) -> None:
        self.rules: dict[str, Mapping[Pair, LinkRule]] = {}

    async def begin(self, fault: str, rules: Mapping[Pair, LinkRule]) -> None:
        await trio.lowlevel.checkpoint()
        self.rules[fault] = rules

    async def end(self, fault: str) -> None:
        await trio.lowlevel.checkpoint()
        self.rules.pop(fault, None)

    async def counts(self, fault: str) -> Mapping[Pair, LinkCounts]:
        await trio.lowlevel.checkpoint()
        return dict.fromkeys(self.rules.get(fault, {}), LinkCounts(dropped=1))


def test_one_node_is_killed_and_started_again_and_the_others_stay_what_they_are(
    world: DummyWorld, tmp_path: Path
) -> None:
    world.own_links = links = BusyLinks()
    before = {node: world.node_process(node) for node in world.nodes()}
    (result,) = apply(world, tmp_path, fault("part-kill"))
    assert result.bit, result.reason
    killed = result.evidence["effect"]["killed"]
    after = {node: world.node_process(node) for node in world.nodes()}
    assert [node for node in world.nodes() if after[node] != before[node]] == [killed]
    assert world.started == [killed]
    assert result.evidence["healed"]["started"] == []
    assert links.rules == {}
