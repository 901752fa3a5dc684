"""Changing who belongs to the cluster, one server at a time (thesis §4)."""

from __future__ import annotations

import pytest

from atleastonce.system.raft.core import (
    Appended,
    ChangeMembers,
    ChangeRefused,
    Checkpoint,
    Compact,
    LeadershipChanged,
    MembersChanged,
    MembersKept,
    Read,
    ReadReady,
    Refused,
    Role,
    SnapshotInstalled,
    TransferLeadership,
)
from atleastonce.system.raft.events import AddLearner, Promote, Remove
from atleastonce.system.raft.members import Known, Members, decode_members, encode_members
from atleastonce.system.raft.messages import (
    AppendEntries,
    AppendReply,
    Entry,
    EntryKind,
    RequestVote,
    VoteReply,
)
from atleastonce.verifier.simulation.scripted import (
    THREE,
    ScriptedServer,
    elected_cluster,
    entries_of,
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


# The records


def test_memberships_survive_the_wire_and_equal_ones_have_equal_bytes() -> None:
    members = Members(("b", "c"), (), ()).with_learner(Known("a", "i1", "127.0.0.1:1"))
    assert decode_members(encode_members(members)) == members
    other = Members(("b", "c"), ("a",), (Known("a", "i1", "127.0.0.1:1"),))
    assert encode_members(other) == encode_members(members)
    assert members.promoted("a").voters == ("a", "b", "c")
    assert members.without("a") == Members(("b", "c"))


@pytest.mark.parametrize(
    "data",
    [b"", b"junk", encode_members(Members()), encode_members(Members(("a", "a")))],
)
def test_what_is_no_membership_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="member"):
        decode_members(data)


# In force at append, rolled back with its entry


def test_a_membership_is_in_force_as_soon_as_it_is_appended() -> None:
    follower = ScriptedServer("n2")
    follower.receive("n1", AppendEntries(1, 0, 0, 0, 0, (config(1, 1, FOUR),)))
    assert (follower.core.members, follower.core.members_index) == (FOUR, 1)
    assert not follower.core.is_members_committed
    assert follower.outcomes_of(MembersChanged) == [MembersChanged(FOUR, 1)]
    follower.tick()
    assert {to for to, message in follower.sent if isinstance(message, RequestVote)} == {
        "n1",
        "n3",
        "n4",
    }


def test_a_truncated_membership_gives_way_to_the_one_before() -> None:
    follower = ScriptedServer("n2")
    follower.receive("n1", AppendEntries(1, 0, 0, 0, 0, (config(1, 1, FOUR),)))
    follower.receive("n3", AppendEntries(2, 0, 0, 0, 0, entries_of([2])))
    assert (follower.core.members, follower.core.members_index) == (Members(THREE), 0)
    assert follower.outcomes_of(MembersChanged)[-1] == MembersChanged(Members(THREE), 0)


def test_a_restarted_server_goes_by_its_log_then_its_checkpoint_then_its_configuration() -> None:
    five = Members((*FOUR.voters, "n5"))
    by_checkpoint = ScriptedServer(
        log=[1], start_index=8, previous_term=1, checkpoint=Checkpoint(7, 1, five)
    )
    assert by_checkpoint.core.members == five
    assert by_checkpoint.core.is_members_committed
    seeded = ScriptedServer("n2", checkpoint=Checkpoint(0, 0, Members(("n2",))))
    assert seeded.core.members == Members(("n2",))
    assert ScriptedServer("n2").core.members == Members(THREE)


def test_compaction_keeps_the_membership_that_it_drops_the_entry_of() -> None:
    follower = ScriptedServer("n2")
    entries = (config(1, 1, FOUR), *entries_of([1, 1], 2))
    follower.receive("n1", AppendEntries(1, 0, 0, 3, 0, entries))
    follower.step(Compact(2))
    assert (follower.core.members, follower.core.members_index) == (FOUR, 1)
    follower.receive("n3", AppendEntries(2, 3, 1, 3, 0, (config(2, 4, Members(THREE)),)))
    follower.receive("n1", AppendEntries(3, 3, 1, 3, 0, entries_of([3], 4)))
    assert follower.core.members == FOUR


def test_an_installed_snapshot_brings_its_membership() -> None:
    server = ScriptedServer("n4", voters=())
    server.step(SnapshotInstalled(9, 2, FOUR))
    assert (server.core.members, server.core.is_voter) == (FOUR, True)
    assert server.outcomes_of(MembersChanged) == [MembersChanged(FOUR, 9)]


# Learners


def test_a_learner_receives_the_log_and_counts_for_nothing() -> None:
    leader = scripted_leader()
    leader.change(AddLearner("n4", "i4", "127.0.0.1:4"))
    assert leader.outcomes_of(Appended) == [Appended(1, 1, 2)]
    assert leader.core.members.learners == ("n4",)
    assert leader.core.members.known == (Known("n4", "i4", "127.0.0.1:4"),)
    leader.receive("n4", accepted(1, 2))
    assert leader.core.commit_index == 1
    leader.receive("n3", accepted(1, 2))
    assert leader.core.commit_index == 2


def test_a_learner_never_campaigns_and_a_waiting_server_neither() -> None:
    learner = ScriptedServer("n4", voters=())
    for _ in range(3):
        learner.tick()
    members = Members(THREE, ("n4",))
    learner.receive("n1", AppendEntries(1, 0, 0, 1, 0, (config(1, 1, members),)))
    assert learner.core.leader == "n1"
    for _ in range(3):
        learner.tick()
    assert role_of(learner) is Role.FOLLOWER
    assert learner.outcomes_of(LeadershipChanged)[-1].leader is None
    assert not [sent for _, sent in learner.sent if isinstance(sent, RequestVote)]


def test_a_learner_votes_when_asked_because_it_may_be_a_voter_by_now() -> None:
    learner = ScriptedServer("n4", voters=())
    [vote] = learner.receive("n2", RequestVote(3, 5, 2, False, False))
    assert vote == VoteReply(3, True, False)


def test_an_added_server_is_brought_up_and_promoted_while_writes_go_on() -> None:
    cluster = elected_cluster("n1", "n2", "n3", "n4")
    leader = cluster.servers["n1"]
    for number in range(20):
        leader.propose(b"%d" % number)
    leader.change(AddLearner("n4"))
    cluster.pass_time(200_000)
    assert cluster.servers["n4"].core.last_index == leader.core.last_index
    leader.change(Promote("n4"))
    cluster.pass_time(200_000)
    assert leader.core.is_members_committed
    assert all(server.core.members == FOUR for server in cluster.servers.values())
    assert cluster.servers["n4"].applied == leader.applied


def test_a_promoted_learner_counts_for_commits_reads_and_the_check_of_the_quorum() -> None:
    cluster = elected_cluster("n1", "n2", "n3", "n4")
    leader = cluster.servers["n1"]
    leader.change(AddLearner("n4"))
    cluster.pass_time(200_000)
    leader.change(Promote("n4"))
    cluster.pass_time(200_000)
    # Two of four are no majority.
    cluster.cut |= {"n3", "n4"}
    commit_index = leader.core.commit_index
    leader.propose(b"x")
    leader.step(Read(7))
    cluster.pass_time(300_000)
    assert leader.core.commit_index == commit_index
    assert leader.outcomes_of(ReadReady) == []
    cluster.pass_time(700_000)
    assert role_of(leader) is not Role.LEADER


def test_a_learner_that_is_far_behind_is_not_promoted() -> None:
    leader = ScriptedServer(learner_lag_max=5)
    leader.win()
    leader.receive("n2", accepted(1, 1))
    leader.change(AddLearner("n4"))
    for _ in range(6):
        leader.propose(b"x")
    leader.receive("n2", accepted(1, leader.core.last_index))
    leader.receive("n4", accepted(1, 2))
    leader.change(Promote("n4"))
    assert refusals(leader) == ["learner_behind"]
    leader.receive("n4", accepted(1, 3))
    leader.change(Promote("n4"))
    assert leader.core.members == FOUR


def test_a_learner_that_has_fallen_silent_is_not_promoted() -> None:
    cluster = elected_cluster("n1", "n2", "n3", "n4")
    leader = cluster.servers["n1"]
    leader.change(AddLearner("n4"))
    cluster.pass_time(200_000)
    cluster.cut.add("n4")
    cluster.pass_time(1_000_000)
    leader.change(Promote("n4"))
    assert refusals(leader) == ["learner_behind"]


# One change at a time


def test_no_change_before_the_leader_has_committed_in_its_term() -> None:
    leader = ScriptedServer(log=[1])
    leader.win()
    leader.change(AddLearner("n4"))
    assert refusals(leader) == ["not_ready"]
    leader.receive("n2", accepted(2, 2))
    leader.change(AddLearner("n4"))
    assert leader.core.members.learners == ("n4",)


def test_no_change_while_the_one_before_is_not_committed() -> None:
    leader = scripted_leader()
    leader.change(AddLearner("n4"))
    leader.change(AddLearner("n5"))
    assert refusals(leader) == ["change_in_progress"]
    leader.receive("n2", accepted(1, 2))
    leader.change(AddLearner("n5"))
    assert leader.core.members.learners == ("n4", "n5")


def test_the_planted_defect_takes_both() -> None:
    leader = ScriptedServer(log=[1], bugs=frozenset(["config-change-before-commit"]))
    leader.win()
    leader.receive("n2", AppendReply(2, False, 1, 0, 0, 1))
    leader.change(AddLearner("n4"))
    leader.change(AddLearner("n5"))
    assert leader.core.members.learners == ("n4", "n5")


def test_a_repeated_change_is_answered_by_the_first_one() -> None:
    leader = scripted_leader()
    leader.change(AddLearner("n4"))
    leader.change(AddLearner("n4"))
    assert leader.outcomes_of(Appended) == [Appended(1, 1, 2)] * 2
    leader.receive("n2", accepted(1, 2))
    leader.change(AddLearner("n4"))
    leader.change(Promote("n2"))
    leader.change(Remove("n9"))
    assert leader.outcomes_of(MembersKept) == [MembersKept(1)] * 3
    assert leader.core.last_index == 2


def test_a_change_elsewhere_than_at_the_leader_is_refused_with_the_leaders_name() -> None:
    follower = ScriptedServer("n2")
    follower.receive("n1", AppendEntries(1, 0, 0, 0, 0, ()))
    follower.step(ChangeMembers(5, Remove("n3")))
    assert follower.outcomes_of(Refused) == [Refused(5, "n1")]


def test_a_leader_that_hands_over_takes_no_change() -> None:
    leader = scripted_leader()
    leader.propose(b"x")
    leader.step(TransferLeadership("n2"))
    leader.step(ChangeMembers(5, Remove("n3")))
    assert leader.outcomes_of(Refused) == [Refused(5, "n1")]


def test_a_server_that_is_no_member_is_not_promoted() -> None:
    leader = scripted_leader()
    leader.change(Promote("n9"))
    assert refusals(leader) == ["unknown_member"]


def test_a_member_is_not_added_again_with_another_data_directory() -> None:
    leader = scripted_leader()
    leader.change(AddLearner("n4", "first"))
    leader.receive("n2", accepted(1, 2))
    leader.change(AddLearner("n4", "second"))
    assert refusals(leader) == ["incarnation_known"]


def test_a_learner_that_has_never_answered_is_not_promoted() -> None:
    leader = scripted_leader()
    leader.change(AddLearner("n4"))
    leader.receive("n2", accepted(1, 2))
    leader.change(Promote("n4"))
    assert refusals(leader) == ["learner_behind"]


def test_a_new_leader_that_has_heard_no_majority_changes_nothing() -> None:
    leader = ScriptedServer(log=[1], bugs=frozenset(["config-change-before-commit"]))
    leader.win()
    leader.change(AddLearner("n4"))
    assert refusals(leader) == ["no_quorum"]
