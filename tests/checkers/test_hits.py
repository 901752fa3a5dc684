"""What faults hit is counted by kind, role and state, as their evidence tells it."""

from __future__ import annotations

from atleastonce.checkers.hits import count_hits
from atleastonce.histories.faults import Fault, FaultEvent, FaultStage, group_faults
from atleastonce.histories.ops import Json


def fault(kind: str, target: str, bit: bool = True, **evidence: dict[str, Json]) -> Fault:
    stages: list[FaultStage] = ["opened", "effect", "healed"] if bit else ["opened", "healed"]
    events = [
        FaultEvent(
            fault="f1",
            kind=kind,
            target=target,
            event=stage,
            t_ns=number,
            wall_ns=0,
            evidence=evidence.get(stage, {}),
        )
        for number, stage in enumerate(stages)
    ]
    [made] = group_faults(events)
    return made


def node(role: str, state: str) -> dict[str, Json]:
    return {"role": role, "state": state}


def test_nodes_count_by_the_role_and_state_that_they_told() -> None:
    nodes: dict[str, Json] = {"n1": node("leader", "healthy"), "n2": node("follower", "healthy")}
    faults = [
        fault("kill-nodes", "n1,n2", opened={"nodes": nodes}),
        fault("kill-nodes", "n1", opened={"nodes": {"n1": node("leader", "healthy")}}),
    ]
    assert count_hits(faults) == {
        "kill-nodes": {"leader": {"healthy": 2}, "follower": {"healthy": 1}}
    }


def test_a_later_word_about_a_node_counts_in_place_of_an_earlier_one() -> None:
    faults = [
        fault(
            "kill-electing",
            "n1,n2",
            opened={"nodes": {"n2": node("follower", "healthy")}},
            effect={"nodes": {"n2": node("candidate", "electing")}},
        )
    ]
    assert count_hits(faults) == {"kill-electing": {"candidate": {"electing": 1}}}


def test_a_worker_counts_with_what_was_in_its_hands() -> None:
    faults = [
        fault("kill-worker", "worker 5", opened={"state": "running", "unstarted": 2}),
        fault("kill-worker", "worker 6", opened={"state": "idle", "unstarted": 0, "unacked": 1}),
    ]
    assert count_hits(faults) == {
        "kill-worker": {"worker": {"running with unstarted": 1, "idle with unacked": 1}}
    }


def test_a_supervisor_counts_by_whether_a_job_ran() -> None:
    faults = [
        fault("kill-supervisor", "supervisor", opened={"running": ["job-1"]}),
        fault("kill-supervisor", "supervisor", opened={"running": []}),
    ]
    assert count_hits(faults) == {
        "kill-supervisor": {"supervisor": {"with jobs running": 1, "without jobs": 1}}
    }


def test_a_fault_that_did_not_bite_hit_nothing() -> None:
    assert count_hits([fault("kill-leader", "n1", bit=False, opened={"leader": "n1"})]) == {}


def test_what_tells_only_the_leader_is_leader_or_follower() -> None:
    faults = [fault("kill-leader", "n1", opened={"leader": "n1"})]
    assert count_hits(faults) == {"kill-leader": {"leader": {"unknown": 1}}}
