"""A node's time of day, made wrong by a file; and the planted defects that follow it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio

from atleastonce.system.broker.commands import Extend, decode_batch
from atleastonce.system.node.ownclock import OwnClockPlanner
from atleastonce.system.node.timeofday import OFFSET_BYTES, WrongTimeOfDay, wall_us, write_offset

from .conftest import MakeCluster
from .virtual_nodes import VirtualCluster, run_virtual

MINUTES_US = 60_000_000


def test_time_of_day_is_wrong_by_what_the_file_says_now(tmp_path: Path) -> None:
    path = tmp_path / "offset"
    write_offset(path, 0)
    clock = WrongTimeOfDay(path)
    for offset_us in (0, 5 * MINUTES_US, -5 * MINUTES_US, 7):
        write_offset(path, offset_us)
        assert len(path.read_bytes()) == OFFSET_BYTES
        assert abs(clock() - wall_us() - offset_us) < 1_000_000
    assert abs(wall_us() - time.time() * 1e6) < 1_000_000


@pytest.mark.cluster
def test_a_node_shows_its_time_of_day_and_leases_do_not_follow_it(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    path = tmp_path / "offset"
    write_offset(path, 0)
    cluster = make_cluster(1, time_of_day_file=str(path))
    cluster.start()
    client = cluster.nodes["n1"].client()
    client.push("q", "m")
    assert client.pop("q", leaseSeconds=60)[0] == 200
    write_offset(path, 5 * MINUTES_US)

    shown_us = client.call("GET", "/metrics")[1]["timeOfDayUs"]
    again, _ = client.pop("q", leaseSeconds=60)
    client.push("q", "n")
    fresh, _ = client.pop("q", leaseSeconds=60)

    client.hang_up()
    assert abs(shown_us - wall_us() - 5 * MINUTES_US) < 2_000_000
    assert (again, fresh) == (204, 204)


@pytest.mark.cluster
def test_a_missing_file_is_a_configuration_error(make_cluster: MakeCluster, tmp_path: Path) -> None:
    node = make_cluster(1, time_of_day_file=str(tmp_path / "none")).nodes["n1"]
    node.start()
    assert node.wait() == 2
    assert "time_of_day_file: cannot open" in node.log_path.read_text()


@pytest.mark.parametrize(
    ("bug", "stamps"),
    [("lease-by-time-of-day", [100, 400, 401, 402]), ("stamp-goes-back", [100, 400, 90, 95])],
)
def test_the_planted_planners_stamp_by_the_nodes_own_clock(bug: str, stamps: list[int]) -> None:
    walls = iter([100, 400, 90, 95])
    planner = OwnClockPlanner(bytes, 50, lambda: next(walls), frozenset({bug}))

    planned = [decode_batch(planner.plan(7, [Extend("", "lease", 1)])).now_us for _ in range(4)]

    assert planned == stamps


def test_with_the_defect_a_lease_ends_when_the_leaders_time_of_day_is_moved() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await leader.push("q", "m0")
        assert (await leader.pop("q", batch=1, leaseSeconds=60))[0] == 200
        leader.wall_ahead_us += 5 * MINUTES_US
        await leader.push("q", "m1")
        await trio.sleep(0.1)
        status, popped = await leader.pop("q", batch=1)
        assert (status, popped["messages"][0]["data"]) == (200, "m0")

    run_virtual(scenario, bugs=frozenset({"lease-by-time-of-day"}))
