"""The broker's time: nobody's time of day moves it, and no change of leader makes it jump."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from atleastonce.system.node.clock import NodeClock
from atleastonce.system.node.clockfile import CLOCK_FILE, ClockFile, ClockMark
from atleastonce.system.node.logbook import Logbook

from .virtual_nodes import WALL_US, VirtualCluster, VirtualNode, read, run_virtual

MINUTES = 60_000_000
SILENT = Logbook(lambda _: None, "n1")


def broker_us(node: VirtualNode) -> int:
    return node.node.desk.stamp_us()


def expected_us() -> int:
    """The broker's time, had it followed the first leader's monotonic clock alone."""
    return WALL_US + int(trio.current_time() * 1_000_000)


@pytest.mark.parametrize("size", [1, 3])
def test_a_new_clusters_time_is_the_first_leaders_time_of_day(size: int) -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        assert abs(broker_us(leader) - leader.wall_us()) < 10_000
        await trio.sleep(3)
        _, items = await leader.push("q", "m0")
        assert items[0]["status"] == "queued"
        for node in cluster.nodes.values():
            assert abs(broker_us(node) - leader.wall_us()) < 100_000

    run_virtual(scenario, size=size, walls_ahead_s=(-600, 0, 600))


async def change_leader(cluster: VirtualCluster, old: VirtualNode) -> VirtualNode:
    """Kill the leader, wait for the next one, and start the old one again."""
    old.note_clock()
    old.stop()
    await old.ended.wait()
    new = await cluster.leader()
    await cluster.start(old.name)
    return new


def test_leaders_with_other_times_of_day_continue_the_brokers_time() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        ahead_us = broker_us(leader) - expected_us()
        seen = [leader.name]
        for _ in range(4):
            await trio.sleep(3)
            assert (await leader.push("q", f"m{len(seen)}"))[0] == 201
            before_us = broker_us(leader)
            began = trio.current_time()
            leader = await change_leader(cluster, leader)
            passed_us = int((trio.current_time() - began) * 1_000_000)
            seen.append(leader.name)
            jump_us = broker_us(leader) - before_us - passed_us
            assert abs(jump_us) < 50_000
        assert len(set(seen)) > 1
        drift_us = broker_us(leader) - expected_us() - ahead_us
        assert abs(drift_us) < 500_000

    run_virtual(scenario, walls_ahead_s=(0, 600, -600))


@pytest.mark.parametrize("step_s", [600, -600, 86_400])
def test_a_stepped_time_of_day_moves_no_lease_and_no_timer(step_s: int) -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await leader.push("q", "m0")
        status, _ = await leader.pop("q", batch=1, leaseSeconds=10)
        assert status == 200
        payload = base64.b64encode(b"1").decode()
        timer = {"op": "schedule", "queue": "t", "timerKey": "k", "txn": "t", "delayMs": 10_000}
        timer["payload"] = payload
        answer = await leader.call("POST", "/api/v1/timers", {"operations": [timer]})
        assert answer.answer.status == 200, answer.answer.body
        began = trio.current_time()
        for node in cluster.nodes.values():
            node.wall_ahead_us += step_s * 1_000_000
        took: dict[str, float] = {}

        async def wait(queue: str) -> None:
            status, _ = await leader.pop(
                queue, wait="true", timeout=20_000, batch=1, subscriptionMode="all"
            )
            assert status == 200
            took[queue] = trio.current_time() - began

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, "q")
            nursery.start_soon(wait, "t")
        assert 9.9 < took["q"] < 10.2
        assert 9.9 < took["t"] < 10.2

    run_virtual(scenario)


def test_a_lease_outlives_a_change_to_a_leader_with_another_time_of_day() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await trio.sleep(1.5)
        await leader.push("q", "m0")
        began = trio.current_time()
        assert (await leader.pop("q", batch=1, leaseSeconds=8))[0] == 200
        leader.stop()
        leader = await cluster.leader()
        status, _ = await leader.pop("q", wait="true", timeout=20_000, batch=1)
        assert status == 200
        assert 7.9 < trio.current_time() - began < 8.3

    run_virtual(scenario, walls_ahead_s=(0, 600, 1200))


def test_the_dedup_window_is_as_long_as_it_is_under_any_leader() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        options = {"queue": "q", "options": {"dedupWindowSeconds": 5}}
        await leader.call("POST", "/api/v1/configure", options)
        await trio.sleep(1.5)
        await leader.push("q", "same")
        leader.stop()
        leader = await cluster.leader()
        _, items = await leader.push("q", "same")
        assert items[0]["status"] == "duplicate"

    run_virtual(scenario, walls_ahead_s=(0, 600, 1200))


def test_the_brokers_time_comes_closer_to_the_leaders_time_of_day_slowly() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        before_us = broker_us(leader) - expected_us()
        leader.wall_ahead_us += 10 * MINUTES
        await trio.sleep(100)
        moved_us = broker_us(leader) - expected_us() - before_us
        assert 400_000 < moved_us <= 510_000
        leader.wall_ahead_us = before_us
        await trio.sleep(300)
        assert abs(broker_us(leader) - expected_us() - before_us) < 10_000

    run_virtual(scenario, size=1)


def test_downtime_counts_after_a_restart_whatever_the_time_of_day_says() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        assert (await leader.push("q", "m0"))[0] == 201
        before_us = broker_us(leader)
        leader.note_clock()
        leader.stop()
        await leader.ended.wait()
        leader.wall_ahead_us = -10 * MINUTES
        await trio.sleep(30)
        await cluster.start(leader.name)
        await cluster.leader()
        assert 30_000_000 <= broker_us(leader) - before_us < 32_000_000

    run_virtual(scenario, size=1)


def in_virtual_time(check: Any) -> None:
    async def main() -> None:
        check()
        await trio.lowlevel.checkpoint()

    trio.run(main, clock=trio.testing.MockClock())


def test_a_guess_gives_way_to_a_live_stamp_and_to_nothing_older() -> None:
    def check() -> None:
        clock = NodeClock(1_000_000, is_guess=True)
        clock.observe(500_000, is_live=False)
        assert clock.broker_us() == 1_000_000
        clock.observe(500_000, is_live=True)
        assert clock.broker_us() == 500_000
        clock.observe(400_000, is_live=True)
        assert clock.broker_us() == 500_000
        clock.observe(700_000, is_live=True)
        assert clock.broker_us() == 700_000

    in_virtual_time(check)


def test_a_note_measures_each_kind_of_restart_by_the_right_clock() -> None:
    mark = ClockMark(boot="a", boottime_us=100, wall_us=10_000, broker_us=5_000)
    assert mark.resumed_us("a", 160, 999_999) == 5_060
    assert mark.resumed_us("b", 3, 10_070) == 5_070
    assert mark.resumed_us("b", 3, 9_000) == 5_000


def test_notes_are_kept_and_garbage_is_no_note(tmp_path: Path) -> None:
    def check() -> None:
        file = ClockFile(tmp_path / CLOCK_FILE)
        fresh = file.start(SILENT)
        assert fresh.is_guess
        file.save(fresh)
        assert not (tmp_path / CLOCK_FILE).exists()
        fresh.follow(1_000_000)
        file.save(fresh)
        again = file.start(SILENT)
        assert not again.is_guess
        assert 1_000_000 <= again.broker_us() < 3_000_000
        for garbage in (b"", b"{}", b'{"boot": 1}', b"\xff\x00"):
            (tmp_path / CLOCK_FILE).write_bytes(garbage)
            assert file.start(SILENT).is_guess

    in_virtual_time(check)


def test_health_answers_whatever_the_clocks_say() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        status, health = read(await leader.call("GET", "/health"))
        assert (status, health["status"]) == (200, "healthy")
        assert health["raft"]["storageReady"] is True

    run_virtual(scenario, walls_ahead_s=(-3600, 0, 3600))
