"""Servers that leave the cluster, and leadership that follows who belongs to it (thesis §4.2)."""

from __future__ import annotations

import pytest

from atleastonce.system.raft.core import (
    ChangeRefused,
    Checkpoint,
    MembersKept,
    Read,
    ReadReady,
    Role,
    TransferDone,
    TransferLeadership,
)
from atleastonce.system.raft.events import AddLearner, Promote, Receive, Record, Remove, Vouched
from atleastonce.system.raft.members import Known, Members, encode_members
from atleastonce.system.raft.messages import (
    AppendEntries,
    AppendReply,
    Entry,
    EntryKind,
    RequestVote,
    TimeoutNow,
    VoteReply,
)
from atleastonce.verifier.simulation.scripted import (
    THREE,
    ScriptedCluster,
    ScriptedServer,
    elected_cluster,
    scripted_leader,
)

FOUR = Members((*THREE, "n4"))


def config(term: int, index: int, members: Members) -> Entry:
    return Entry(term, index, EntryKind.CONFIG, encode_members(members))


def accepted(term: int, match_index: int) -> AppendReply:
    return AppendReply(term, True, match_index, 0)


def role_of(server: ScriptedServer) -> Role:
    return server.core.role


def refusals(server: ScriptedServer) -> list[str]:
    return [refused.code for refused in server.outcomes_of(ChangeRefused)]


# Removal


def test_a_removed_follower_learns_of_it_and_is_sent_nothing_more() -> None:
    cluster = elected_cluster(*THREE)
    leader, removed = cluster.servers["n1"], cluster.servers["n3"]
    leader.change(Remove("n3"))
    cluster.deliver()
    assert leader.core.is_members_committed
    assert removed.core.members == Members(("n1", "n2"))
    assert removed.core.is_members_committed
    cluster.delivered.clear()
    leader.propose(b"x")
    cluster.pass_time(300_000)
    assert not [message for _, to, message in cluster.delivered if to == "n3"]


def test_a_removed_server_does_not_disturb() -> None:
    cluster = elected_cluster(*THREE)
    leader = cluster.servers["n1"]
    cluster.cut.add("n3")
    leader.change(Remove("n3"))
    cluster.pass_time(100_000)
    cluster.cut.clear()
    term = leader.core.term
    cluster.pass_time(5_000_000)
    assert (leader.core.role, leader.core.term) == (Role.LEADER, term)
    assert cluster.servers["n2"].core.leader == "n1"


def test_a_leader_that_removes_itself_leads_until_that_is_committed() -> None:
    cluster = elected_cluster(*THREE)
    leader = cluster.servers["n1"]
    cluster.cut.add("n2")
    leader.change(Remove("n1"))
    cluster.deliver()
    # n1 itself does not count any more: n3 alone is no majority of n2 and n3.
    assert role_of(leader) is Role.LEADER
    assert not leader.core.is_members_committed
    cluster.cut.clear()
    cluster.pass_time(150_000)
    assert role_of(leader) is Role.FOLLOWER
    cluster.pass_time(200_000)
    assert cluster.leaders() in (["n2"], ["n3"])
    assert leader.core.members == Members(("n2", "n3"))
    cluster.pass_time(3_000_000)
    assert len(cluster.leaders()) == 1


def test_a_leader_that_removed_itself_asks_the_best_voter_to_take_over_at_once() -> None:
    leader = scripted_leader()
    leader.change(Remove("n1"))
    leader.receive("n2", accepted(1, 2))
    leader.sent.clear()
    leader.receive("n3", accepted(1, 2))
    assert role_of(leader) is Role.FOLLOWER
    assert [to for to, message in leader.sent if isinstance(message, TimeoutNow)] in (
        ["n2"],
        ["n3"],
    )


def test_a_server_whose_removal_only_it_holds_can_still_be_elected() -> None:
    # n1 leads n1 and n2, appends its own removal, and restarts: n2 cannot win against n1's log.
    log = RaftServers.with_removal()
    n1, n2 = log.servers["n1"], log.servers["n2"]
    assert not n1.core.is_voter
    log.pass_time(3_000_000)
    assert n2.core.members == Members(("n2",))
    assert (n1.core.role, n2.core.role) == (Role.FOLLOWER, Role.LEADER)


class RaftServers:
    """A cluster whose n1 holds, uncommitted, the entry that removes it."""

    @staticmethod
    def with_removal() -> ScriptedCluster:
        n1 = ScriptedServer("n1", ("n1", "n2"))
        n1.receive("n2", AppendEntries(1, 0, 0, 0, 0, (config(1, 1, Members(("n2",))),)))
        return ScriptedCluster(n1, ScriptedServer("n2", ("n1", "n2"), term=1))


def test_the_last_voter_is_kept() -> None:
    leader = scripted_leader(("n1",))
    leader.change(Remove("n1"))
    assert refusals(leader) == ["last_voter"]
    leader.change(AddLearner("n2"))
    leader.change(Remove("n1"))
    assert refusals(leader) == ["last_voter", "last_voter"]


def test_a_change_needs_a_live_majority_before_and_after() -> None:
    cluster = elected_cluster(*THREE)
    leader = cluster.servers["n1"]
    cluster.cut.add("n3")
    cluster.pass_time(900_000)
    # Two of three live. Without n2, one of the remaining two would be alive.
    leader.change(Remove("n2"))
    assert refusals(leader) == ["no_quorum"]
    leader.change(Remove("n3"))
    cluster.pass_time(100_000)
    assert leader.core.members == Members(("n1", "n2"))
    assert leader.core.is_members_committed


def test_the_last_two_voters_shrink_to_one_which_commits_alone() -> None:
    cluster = elected_cluster("n1", "n2", voters=("n1", "n2"))
    leader = cluster.servers["n1"]
    leader.change(Remove("n2"))
    cluster.pass_time(50_000)
    leader.propose(b"alone")
    assert leader.core.commit_index == leader.core.last_index
    leader.step(Read(7))
    assert [ready.read for ready in leader.outcomes_of(ReadReady)] == [7]
    cluster.pass_time(2_000_000)
    assert role_of(leader) is Role.LEADER


# Leadership follows the membership


def test_leadership_is_not_handed_to_a_learner() -> None:
    cluster = elected_cluster("n1", "n2", "n3", "n4")
    leader = cluster.servers["n1"]
    leader.change(AddLearner("n4"))
    cluster.pass_time(200_000)
    leader.step(TransferLeadership("n4"))
    assert leader.outcomes_of(TransferDone) == [TransferDone(False)]
    cluster.cut |= {"n2", "n3"}
    cluster.pass_time(900_000)
    leader.step(TransferLeadership(None))
    assert leader.outcomes_of(TransferDone)[-1] == TransferDone(False)


def test_a_pre_vote_of_a_learner_is_not_counted() -> None:
    server = ScriptedServer(checkpoint=Checkpoint(0, 0, Members(THREE, ("n4",))))
    server.tick()
    server.receive("n4", VoteReply(1, True, True))
    assert role_of(server) is Role.PRE_CANDIDATE
    server.receive("n3", VoteReply(1, True, True))
    assert role_of(server) is Role.CANDIDATE


def test_a_leader_that_only_learners_answer_steps_down() -> None:
    cluster = elected_cluster("n1", "n2", "n3", "n4")
    leader = cluster.servers["n1"]
    leader.change(AddLearner("n4"))
    cluster.pass_time(200_000)
    cluster.cut |= {"n2", "n3"}
    cluster.pass_time(1_000_000)
    assert role_of(leader) is not Role.LEADER


# Incarnations


def test_votes_and_copies_of_another_data_directory_do_not_count() -> None:
    members = Members(THREE, (), (Known("n3", "old"),))
    server = ScriptedServer("n1", checkpoint=Checkpoint(0, 0, members))
    server.tick()
    server.step(Receive("n3", VoteReply(1, True, True), "new"))
    assert role_of(server) is Role.PRE_CANDIDATE
    server.step(Receive("n3", VoteReply(1, True, True), "old"))
    server.step(Receive("n3", VoteReply(1, True, False), "new"))
    assert role_of(server) is Role.CANDIDATE
    server.step(Receive("n3", VoteReply(1, True, False), "old"))
    assert role_of(server) is Role.LEADER
    server.step(Receive("n3", accepted(1, 1), "new"))
    assert server.core.commit_index == 0
    server.step(Receive("n3", accepted(1, 1), "old"))
    assert server.core.commit_index == 1


def test_a_server_with_an_older_membership_follows_a_leader_whose_disk_was_replaced() -> None:
    members = Members(THREE, (), (Known("n3", "old"),))
    server = ScriptedServer("n2", checkpoint=Checkpoint(0, 0, members))
    server.step(Receive("n3", AppendEntries(5, 0, 0, 0, 0, ()), "new"))
    assert server.core.leader == "n3"


def test_a_server_with_another_data_directory_than_the_members_is_no_voter() -> None:
    members = Members(THREE, (), (Known("n3", "old"),))
    wiped = ScriptedServer("n3", voters=(), incarnation="new")
    wiped.receive("n1", AppendEntries(1, 0, 0, 1, 0, (config(1, 1, members),)))
    assert not wiped.core.is_voter
    for _ in range(3):
        wiped.tick()
    assert role_of(wiped) is Role.FOLLOWER


def test_a_wiped_voter_is_replaced_by_removing_adding_and_promoting_it() -> None:
    cluster = elected_cluster(*THREE)
    leader = cluster.servers["n1"]
    leader.propose(b"x")
    cluster.pass_time(200_000)
    cluster.servers["n3"] = ScriptedServer("n3", voters=(), incarnation="new")
    leader.change(Remove("n3"))
    cluster.pass_time(200_000)
    leader.change(AddLearner("n3", "new"))
    cluster.pass_time(200_000)
    leader.change(Promote("n3"))
    cluster.pass_time(200_000)
    assert leader.core.members == Members(THREE, (), (Known("n3", "new"),))
    assert cluster.servers["n3"].core.is_voter
    assert cluster.servers["n3"].applied == leader.applied


def test_a_server_on_probation_neither_votes_nor_campaigns() -> None:
    server = ScriptedServer("n3", incarnation="new", on_probation=True)
    assert server.receive("n1", RequestVote(5, 9, 4, False, True)) == []
    for _ in range(3):
        server.tick()
    assert (server.core.term, server.sent) == (0, [])
    server.step(Vouched())
    assert server.receive("n1", RequestVote(5, 9, 4, False, True)) == [VoteReply(5, True, False)]


@pytest.mark.parametrize(("node", "wait_us"), [("n1", 50_000), ("n2", 100_000), ("n3", 150_000)])
def test_in_a_new_cluster_one_after_the_other_stands_soon_after_its_probation(
    node: str, wait_us: int
) -> None:
    server = ScriptedServer(node, incarnation="new", on_probation=True)
    server.step(Vouched())
    assert server.core.deadline_us == server.now_us + wait_us
    server.tick()
    assert {type(message) for _, message in server.sent} == {RequestVote}


def test_a_probation_that_ends_in_a_cluster_with_a_past_waits_for_a_sign_of_life() -> None:
    server = ScriptedServer("n1", incarnation="new", on_probation=True)
    server.receive("n2", AppendEntries(1, 0, 0, 0, 0, ()))
    before_us = server.core.deadline_us
    server.step(Vouched())
    assert server.core.deadline_us == before_us


def test_a_probation_ends_when_the_membership_names_the_data_directory() -> None:
    server = ScriptedServer("n3", incarnation="new", on_probation=True)
    members = Members(THREE, (), (Known("n3", "old"),))
    server.receive("n1", AppendEntries(1, 0, 0, 0, 0, (config(1, 1, members),)))
    assert server.receive("n2", RequestVote(5, 9, 4, False, True)) == []
    members = Members(THREE, (), (Known("n3", "new"),))
    server.receive("n1", AppendEntries(1, 1, 1, 0, 0, (config(1, 2, members),)))
    assert server.receive("n2", RequestVote(5, 9, 4, False, True)) == [VoteReply(5, True, False)]


def test_data_directories_are_recorded_once_and_never_overwritten() -> None:
    leader = scripted_leader()
    leader.change(Record((Known("n1", "i1"), Known("n2", "i2"), Known("n9", "i9"))))
    assert leader.core.members == Members(THREE, (), (Known("n1", "i1"), Known("n2", "i2")))
    leader.receive("n2", accepted(1, 2))
    leader.change(Record((Known("n2", "other"),)))
    assert leader.outcomes_of(MembersKept) == [MembersKept(1)]
