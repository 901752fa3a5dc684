"""Who belongs to the cluster, changed over HTTP while clients write; on virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from atleastonce.system.raft.events import Role

from .virtual_nodes import VirtualCluster, VirtualNode, read, run_virtual, stored, until_agreed

MEMBERS = "/api/v1/cluster/members"


async def ask(
    node: VirtualNode, method: str, path: str = "", body: object = None
) -> tuple[int, Any]:
    return read(await node.call(method, MEMBERS + path, body))


def voters(answer: Any) -> list[str]:
    return [member["node"] for member in answer["members"] if member["role"] == "voter"]


def test_any_node_tells_who_belongs_and_how_far_each_is() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        follower = (await cluster.followers())[0]
        assert (await follower.push("q", "m"))[0] == 201
        await trio.sleep(0.5)
        status, answer = await ask(follower, "GET")
        assert status == 200
        assert (answer["leader"], answer["committed"], answer["index"]) == (leader.name, True, 0)
        assert voters(answer) == ["n1", "n2", "n3"]
        for member in answer["members"]:
            assert member["leads"] is (member["node"] == leader.name)
            assert member["lag"] == 0
            assert not member["replaced"]

    run_virtual(scenario)


def test_a_removed_follower_counts_no_longer_and_can_be_taken_in_again() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.leader()
        gone, asked = await cluster.followers()
        status, answer = await ask(asked, "DELETE", f"/{gone.name}")
        assert status == 200
        assert gone.name not in voters(answer)
        # Two voters are left: both are needed, and the third does not help.
        assert (await asked.push("q", "m1"))[0] == 201
        _, health = read(await gone.call("GET", "/health"))
        assert (health["raft"]["membership"], health["status"]) == ("removed", "settling")
        status, answer = await ask(asked, "POST", "", {"node": gone.name})
        assert status == 200, answer
        assert answer["members"][-1]["role"] == "learner"
        await trio.sleep(1)
        status, answer = await ask(asked, "POST", f"/{gone.name}/promote")
        assert (status, voters(answer)) == (200, ["n1", "n2", "n3"])
        await until_agreed(cluster)
        assert stored(gone, "q") == ["m1"]

    run_virtual(scenario)


def test_a_leader_that_is_removed_hands_over_and_nothing_is_lost() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        others = await cluster.followers()
        assert (await others[0].push("q", "before"))[0] == 201
        began = trio.current_time()
        status, _ = await ask(others[0], "DELETE", f"/{leader.name}")
        assert status == 200
        assert (await others[0].push("q", "after"))[0] == 201
        assert trio.current_time() - began < 2.0
        new = await cluster.leader()
        assert new in others
        assert leader.node.leadership.role is Role.FOLLOWER
        await trio.sleep(5)
        assert await cluster.leader() is new
        assert stored(new, "q") == ["before", "after"]

    run_virtual(scenario)


def test_the_voters_are_chosen_one_change_after_the_other() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        follower = (await cluster.followers())[0]
        status, answer = await ask(follower, "PUT", "", {"voters": [leader.name]})
        assert (status, voters(answer)) == (200, [leader.name])
        status, answer = await ask(leader, "PUT", "", {"voters": ["n1", "n2", "n3"]})
        assert (status, voters(answer)) == (200, ["n1", "n2", "n3"])
        assert (await follower.push("q", "m"))[0] == 201

    run_virtual(scenario)


def test_changes_that_cannot_be_are_refused_with_409_and_repeats_are_answered_alike() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        first, second = await cluster.followers()
        status, answer = await ask(leader, "POST", "/n9/promote")
        assert (status, answer["code"]) == (409, "unknown_member")
        assert (await ask(leader, "DELETE", "/n9"))[0] == 200
        assert (await ask(leader, "POST", f"/{first.name}/promote"))[0] == 200
        first.stop()
        status, answer = await ask(leader, "POST", "", {"node": first.name})
        assert (status, answer["code"]) == (409, "unreachable")
        await trio.sleep(1)
        status, answer = await ask(leader, "DELETE", f"/{second.name}")
        assert (status, answer["code"]) == (409, "no_quorum")
        assert (await ask(leader, "DELETE", f"/{first.name}"))[0] == 200
        assert (await ask(leader, "DELETE", f"/{first.name}"))[0] == 200
        assert (await ask(leader, "DELETE", f"/{second.name}"))[0] == 200
        status, answer = await ask(leader, "DELETE", f"/{leader.name}")
        assert (status, answer["code"]) == (409, "last_voter")
        assert (await leader.push("q", "m"))[0] == 201

    run_virtual(scenario)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "", {}),
        ("POST", "", {"node": "a b"}),
        ("POST", "", {"node": "n4", "address": "somewhere"}),
        ("POST", "", {"node": "n4", "address": "127.0.0.1:99999"}),
        ("POST", "", {"node": "n4"}),
        ("PUT", "", {"voters": []}),
        ("PUT", "", {"voters": ["n1", "n1"]}),
        ("DELETE", "/a%20b", None),
    ],
)
def test_malformed_wishes_are_refused(method: str, path: str, body: object) -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        status, answer = await ask(leader, method, path, body)
        assert (status, answer["code"]) == (400, "bad_request")

    run_virtual(scenario)


def test_without_a_majority_a_change_is_not_made() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        for node in await cluster.followers():
            node.stop()
        status, answer = await ask(leader, "DELETE", "/n1")
        assert (status, answer["code"]) in (
            (409, "no_quorum"),
            (503, "no_leader"),
            (503, "outcome_unknown"),
            (504, "outcome_unknown"),
        )

    run_virtual(scenario)
