"""Faults on links: which links they take, what proves them, and when they count as healed."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest
import trio
import trio.testing

from atleastonce.histories.ops import Json
from atleastonce.nemesis.acts import Act, NoBiteError, Stage
from atleastonce.nemesis.fault import Fault
from atleastonce.nemesis.links import LinkCounts, LinkError, LinkRule, Links, Pair
from atleastonce.nemesis.registry import ACTS, NEMESES
from atleastonce.nemesis.settings import NemesisSettings
from atleastonce.nemesis.world import NodeState, Target

NODES = ("n1", "n2", "n3")
OF_LINKS = {
    name: spec for name, spec in NEMESES.items() if spec.needs & {"links", "shapes", "messages"}
}
SIMPLE = [name for name in OF_LINKS if name != "part-kill"]
SEEN = LinkCounts(dropped=1, delayed=1, resets=1, refused=1)
TO_LEADER = {("n1", "n2"), ("n3", "n2")}


class ScriptedLinks:
    """Links on which the same happens to all rules."""

    powers = frozenset({"links", "shapes"})

    def __init__(self, seen: LinkCounts, refusal: str = "") -> None:
        self.seen = seen
        self.refusal = refusal
        self.rules: dict[str, Mapping[Pair, LinkRule]] = {}
        self.in_force: list[str] = []

    async def begin(self, fault: str, rules: Mapping[Pair, LinkRule]) -> None:
        await trio.lowlevel.checkpoint()
        if self.refusal:
            raise LinkError(self.refusal)
        assert fault not in self.rules
        self.rules[fault] = rules
        self.in_force.append(fault)

    async def end(self, fault: str) -> None:
        await trio.lowlevel.checkpoint()
        if fault in self.in_force:
            self.in_force.remove(fault)

    async def counts(self, fault: str) -> Mapping[Pair, LinkCounts]:
        await trio.lowlevel.checkpoint()
        return dict.fromkeys(self.rules.get(fault, {}), self.seen)


class QuietWorld:
    """Three nodes that are always well, of which n2 leads; all live in this process."""

    def __init__(self, links: Links | None, unreachable: str = "") -> None:
        self._links = links
        self._unreachable = unreachable
        self.reached: set[Pair] = set()

    def links(self) -> Links | None:
        return self._links

    def nodes(self) -> tuple[str, ...]:
        return NODES

    def last_states(self) -> Mapping[str, NodeState]:
        return dict.fromkeys(NODES, NodeState("follower"))

    async def leader(self) -> str | None:
        await trio.lowlevel.checkpoint()
        return "n2"

    def node_process(self, node: str) -> Target:
        return Target.of(os.getpid(), node)

    async def wait_node_healthy(self, node: str, timeout_s: float) -> bool:
        await trio.lowlevel.checkpoint()
        return node in NODES and timeout_s > 0

    async def reach_s(self, source: str, target: str, timeout_s: float) -> float | None:
        await trio.lowlevel.checkpoint()
        assert target in NODES, "only nodes are dialled"
        self.reached.add((source, target))
        return None if target == self._unreachable else timeout_s / 1000


def make(kind: str, world: QuietWorld, target: str = "", **options: Json) -> tuple[Act, Stage]:
    fault = Fault(
        id="f",
        kind=kind,
        target=target or OF_LINKS[kind].target,
        at_s=0,
        duration_s=1,
        options=dict(options),
    )
    stage = Stage(world, NemesisSettings(), set())  # type: ignore[arg-type]
    return ACTS[kind](fault, stage), stage


def run_act(kind: str, links: ScriptedLinks, target: str = "", **options: Json) -> QuietWorld:
    """Bite, heal and recover."""
    world = QuietWorld(links)

    async def main() -> None:
        act, _ = make(kind, world, target, **options)
        await act.choose()
        await act.bite()
        await act.hold()
        await act.heal()
        assert await act.recover() is not None

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return world


@pytest.mark.parametrize("kind", SIMPLE)
def test_every_fault_on_links_takes_back_what_it_put_into_force(kind: str) -> None:
    links = ScriptedLinks(SEEN)
    world = run_act(kind, links)
    assert links.rules
    assert not links.in_force
    assert world.reached


@pytest.mark.parametrize("kind", SIMPLE)
def test_a_fault_on_links_at_which_nothing_happens_does_not_bite(kind: str) -> None:
    async def main() -> None:
        act, _ = make(kind, QuietWorld(ScriptedLinks(LinkCounts(passed=9))))
        await act.choose()
        with pytest.raises(NoBiteError, match="nothing was"):
            await act.bite()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_without_links_or_with_links_that_refuse_no_fault_bites() -> None:
    async def main(links: ScriptedLinks | None, match: str) -> None:
        act, _ = make("partition-leader", QuietWorld(links))
        await act.choose()
        with pytest.raises(NoBiteError, match=match):
            await act.bite()
        assert await act.heal() is not None

    trio.run(main, None, "no links")
    trio.run(main, ScriptedLinks(SEEN, "not here"), "not here")


def test_a_link_over_which_no_byte_comes_has_not_recovered() -> None:
    async def main() -> None:
        act, _ = make("partition-leader", QuietWorld(ScriptedLinks(SEEN), unreachable="n2"))
        await act.choose()
        await act.bite()
        await act.heal()
        assert await act.recover() is None

    trio.run(main)


def test_a_partition_holds_its_nodes_and_a_slow_link_holds_none() -> None:
    async def main() -> None:
        for kind, held in (("partition-leader", {"n2"}), ("slow-links", set())):
            act, stage = make(kind, QuietWorld(ScriptedLinks(SEEN)), "leader")
            await act.choose()
            assert stage.claims == held
            assert act.pid is None

    trio.run(main)


def test_a_deaf_leader_loses_answers_alone_or_all_that_it_should_hear() -> None:
    for kind, only in (("leader-deaf-answers", "append-answers"), ("leader-deaf", "")):
        links = ScriptedLinks(SEEN)
        run_act(kind, links)
        assert set(links.rules["f"]) == TO_LEADER
        assert {rule.only for rule in links.rules["f"].values()} == {only}
        assert all(rule.drop for rule in links.rules["f"].values())
        # Else nobody would hear the leader for long, whose appends nobody acknowledges.
        assert {rule.spares_acks for rule in links.rules["f"].values()} == {not only}


def test_one_way_cuts_what_leads_in_or_what_leads_out() -> None:
    for cut, pairs in (("in", TO_LEADER), ("out", {(b, a) for a, b in TO_LEADER})):
        links = ScriptedLinks(SEEN)
        run_act("partition-one-way", links, "leader", cut=cut)
        assert set(links.rules["f"]) == pairs


def test_flapping_cuts_over_and_over_and_ends_every_cut() -> None:
    links = ScriptedLinks(SEEN)
    run_act("partition-flapping", links, "leader", period_s=0.2)
    assert 4 <= len(links.rules) <= 6
    assert not links.in_force


def test_users_are_cut_off_both_ways_and_dial_again_when_it_heals() -> None:
    links = ScriptedLinks(SEEN)
    world = run_act("cut-workers", links, "n1", reset_after_s=1.0)
    assert set(links.rules["f"]) == {("workers", "n1"), ("n1", "workers")}
    assert {rule.reset_after_s for rule in links.rules["f"].values()} == {1.0}
    assert world.reached == {("workers", "n1")}


def test_refusal_half_open_and_resets_lead_to_the_targets_only() -> None:
    rules = {
        "refuse-connections": LinkRule(reset="both", refuse=True),
        "half-open": LinkRule(half_open=True),
        "reset-connections": LinkRule(reset="both"),
    }
    for kind, rule in rules.items():
        links = ScriptedLinks(SEEN)
        run_act(kind, links, "leader")
        assert links.rules["f"] == dict.fromkeys(TO_LEADER, rule)


def test_shapes_are_as_the_options_say() -> None:
    links = ScriptedLinks(SEEN)
    run_act("slow-links", links, "leader", delay_ms=9, jitter_ms=3, between="clients")
    rule = LinkRule(delay_ms=9, jitter_ms=3)
    assert links.rules["f"] == {("clients", "n2"): rule, ("n2", "clients"): rule}
    links = ScriptedLinks(SEEN)
    run_act("narrow-links", links, "leader", rate_bytes_s=1000)
    assert {rule.rate_bytes_s for rule in links.rules["f"].values()} == {1000}
