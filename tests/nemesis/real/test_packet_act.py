"""Faults on packets: which links, what proves them, and what is left when they heal."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
import trio
import trio.testing

from atleastonce.nemesis.acts import NoBiteError, Stage
from atleastonce.nemesis.fault import Fault
from atleastonce.nemesis.links import LinkCounts, LinkError, LinkRule, Links, Pair
from atleastonce.nemesis.packet_act import links_of
from atleastonce.nemesis.registry import ACTS, NEMESES
from atleastonce.nemesis.settings import NemesisSettings
from atleastonce.nemesis.world import Target

NODES = ("n1", "n2", "n3")
KINDS = {
    "packet-loss": ("loss", "dropped"),
    "packet-duplication": ("duplicate", "duplicated"),
    "packet-reorder": ("reorder", "reordered"),
    "packet-corruption": ("corrupt", "corrupted"),
}


class QuietLinks:
    """Links on which nothing happens but what a test says."""

    powers = frozenset({"links", "packets"})

    def __init__(self, seen: LinkCounts, refusal: str = "") -> None:
        self.seen = seen
        self.refusal = refusal
        self.rules: dict[str, Mapping[Pair, LinkRule]] = {}
        self.ended: list[str] = []

    async def begin(self, fault: str, rules: Mapping[Pair, LinkRule]) -> None:
        await trio.lowlevel.checkpoint()
        if self.refusal:
            raise LinkError(self.refusal)
        self.rules[fault] = rules

    async def end(self, fault: str) -> None:
        await trio.lowlevel.checkpoint()
        self.ended.append(fault)

    async def counts(self, fault: str) -> Mapping[Pair, LinkCounts]:
        await trio.lowlevel.checkpoint()
        return dict.fromkeys(self.rules.get(fault, {}), self.seen)


class SmallWorld:
    """Three nodes that are always well."""

    def __init__(self, links: Links | None) -> None:
        self._links = links

    def links(self) -> Links | None:
        return self._links

    def nodes(self) -> tuple[str, ...]:
        return NODES

    async def leader(self) -> str | None:
        await trio.lowlevel.checkpoint()
        return "n2"

    def node_process(self, node: str) -> Target:
        return Target(1, "1", node)

    async def wait_node_healthy(self, node: str, timeout_s: float) -> bool:
        await trio.lowlevel.checkpoint()
        return node in NODES and timeout_s > 0


def fault(kind: str, target: str = "all", **options: float | str) -> Fault:
    return Fault(id="f", kind=kind, target=target, at_s=0, duration_s=1, options=dict(options))


def stage(links: Links | None) -> Stage:
    world = SmallWorld(links)
    return Stage(world, NemesisSettings(), set())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_fault_sets_its_share_on_every_link_proves_it_and_takes_it_back(kind: str) -> None:
    field, count = KINDS[kind]
    links = QuietLinks(LinkCounts(**{count: 2}))

    async def main() -> None:
        act = ACTS[kind](fault(kind, share=0.5), stage(links))
        targets = await act.choose()
        assert [target.name for target in targets] == list(NODES)
        assert act.claimed == frozenset()
        proof = await act.bite()
        assert (proof[count], proof["links"]) == (12, 6)
        healed = await act.heal()
        by_link = healed["by_link"]
        assert isinstance(by_link, dict)
        assert by_link["n1>n2"] == {count: 2}
        assert await act.recover() is not None

    trio.run(main)
    assert set(links.rules["f"]) == links_of(NODES, NODES, "nodes")
    assert all(
        rule == msgspec.convert({field: 0.5}, LinkRule) for rule in links.rules["f"].values()
    )
    assert links.ended == ["f"]


def test_links_of_a_leader_with_everybody_are_only_its_own() -> None:
    assert links_of(("n2",), NODES, "all") == {
        *(("n2", end) for end in ("n1", "n3", "clients", "workers")),
        *((end, "n2") for end in ("n1", "n3", "clients", "workers")),
    }
    assert links_of(("n2",), NODES, "clients") == {("n2", "clients"), ("clients", "n2")}


@pytest.mark.parametrize(
    ("links", "words"),
    [
        (None, "no links"),
        (QuietLinks(LinkCounts(), "loss needs the packet switch"), "needs the packet switch"),
    ],
)
def test_fault_without_links_does_not_bite(links: Links | None, words: str) -> None:
    async def main() -> None:
        act = ACTS["packet-loss"](fault("packet-loss"), stage(links))
        await act.choose()
        with pytest.raises(NoBiteError, match=words):
            await act.bite()

    trio.run(main)


def test_fault_that_met_no_packet_did_not_bite() -> None:
    async def main() -> None:
        act = ACTS["packet-loss"](fault("packet-loss"), stage(QuietLinks(LinkCounts())))
        await act.choose()
        with pytest.raises(NoBiteError, match="no packet was dropped on 6 links"):
            await act.bite()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_every_fault_on_packets_needs_their_power() -> None:
    assert all(NEMESES[kind].needs == {"packets"} for kind in KINDS)
