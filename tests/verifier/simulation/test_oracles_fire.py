"""Each oracle, shown a history that breaks it: it names itself."""

from __future__ import annotations

import pytest

from atleastonce.system.raft.log import LogStart, RaftLog
from atleastonce.system.raft.members import Checkpoint, Known, Members
from atleastonce.system.raft.messages import Entry, EntryKind, HardState
from atleastonce.verifier.simulation.oracles import (
    Oracles,
    OracleViolationError,
    violation_of,
)
from atleastonce.verifier.simulation.scripted import entries_of
from atleastonce.verifier.simulation.stored import StoredLog


def oracles() -> Oracles:
    """Three nodes; n1 leads term 1, and entries 1 and 2 are committed on n1 and n2."""
    watch = Oracles(3)
    watch.on_vote(0, 1, 0)
    watch.on_vote(1, 1, 0)
    watch.on_leader(0, 1, RaftLog())
    entries = entries_of([1, 1])
    watch.durable[0].extend(entries)
    watch.durable[1].extend(entries)
    watch.on_commit(0, 1, RaftLog(entries), 1, 2)
    watch.on_apply(0, 0, entries)
    return watch


def test_a_second_leader_of_a_term_is_named() -> None:
    with pytest.raises(OracleViolationError, match="one-leader: term 1 has leaders n1 and n2"):
        oracles().on_leader(1, 1, RaftLog(entries_of([1, 1])))


def test_a_second_vote_in_a_term_is_named_and_a_repeated_one_is_not() -> None:
    watch = oracles()
    watch.on_vote(1, 1, 0)
    with pytest.raises(OracleViolationError, match="one-vote: n2 voted for n1 in term 1"):
        watch.on_vote(1, 1, 2)


def test_a_winner_without_a_majority_of_sent_votes_is_named() -> None:
    watch = oracles()
    watch.on_vote(1, 2, 1)
    with pytest.raises(OracleViolationError, match="vote-quorum: n2 leads term 2 with 1 votes"):
        watch.on_leader(1, 2, RaftLog(entries_of([1, 1])))


def test_a_winner_that_lacks_a_committed_entry_is_named() -> None:
    watch = oracles()
    watch.on_vote(1, 2, 2)
    watch.on_vote(2, 2, 2)
    with pytest.raises(OracleViolationError, match="leader-completeness: n3 leads term 2"):
        watch.on_leader(2, 2, RaftLog(entries_of([1])))


def test_a_late_winner_of_an_old_term_owes_nothing_to_later_terms() -> None:
    watch = Oracles(3)
    entries = entries_of([5])
    watch.durable[0].extend(entries)
    watch.durable[1].extend(entries)
    watch.on_commit(0, 5, RaftLog(entries), 1, 1)
    watch.on_vote(2, 4, 2)
    watch.on_vote(1, 4, 2)
    watch.on_leader(2, 4, RaftLog())


def test_a_commit_without_durable_copies_on_a_majority_is_named() -> None:
    watch = oracles()
    log = RaftLog(entries_of([1, 1, 1]))
    watch.durable[2].extend((log.entry_at(1),))
    with pytest.raises(OracleViolationError, match="durable-quorum: n1 commits entry 3"):
        watch.on_commit(0, 1, log, 3, 3)


def test_two_commits_at_one_index_are_named() -> None:
    with pytest.raises(OracleViolationError, match="applied-agreement: n3 commits"):
        oracles().on_commit(2, 2, RaftLog(entries_of([1, 2])), 1, 2)


def test_different_data_under_one_index_and_term_is_named() -> None:
    watch = oracles()
    watch.on_write(0, 3, StoredLog(), None, entries_of([1, 1]))
    with pytest.raises(OracleViolationError, match="log-matching"):
        watch.on_write(1, 3, StoredLog(), None, (Entry(1, 1, EntryKind.COMMAND, b"other"),))


def test_different_predecessors_under_one_index_and_term_are_named() -> None:
    watch = oracles()
    watch.on_write(0, 3, StoredLog(), None, entries_of([1, 3]))
    with pytest.raises(OracleViolationError, match="log-matching"):
        watch.on_write(1, 3, StoredLog(), None, entries_of([2, 3]))


def test_a_dropped_committed_entry_is_named_and_a_dropped_rival_is_not() -> None:
    watch = oracles()
    rival = StoredLog(entries_of([1, 2]))
    watch.on_write(2, 2, rival, 2, entries_of([1], 2))
    with pytest.raises(OracleViolationError, match="committed-truncated: n1 in term 1 drops"):
        watch.on_write(0, 1, StoredLog(entries_of([1, 1])), 2, ())


def test_a_leader_of_an_old_term_may_cut_what_a_later_term_committed() -> None:
    watch = Oracles(3)
    entries = entries_of([2])
    watch.durable[0].extend(entries)
    watch.durable[1].extend(entries)
    watch.on_commit(0, 4, RaftLog(entries), 1, 1)
    watch.on_write(2, 3, StoredLog(entries), 1, entries_of([3]))
    with pytest.raises(OracleViolationError, match="committed-truncated: n2 in term 4 drops"):
        watch.on_write(1, 4, StoredLog(entries), 1, ())


def test_a_falling_durable_term_is_named() -> None:
    with pytest.raises(OracleViolationError, match="durable-term: n1 had term 4, then 3"):
        oracles().on_durable_term(0, HardState(4, None), HardState(3, None))


def test_applying_what_is_not_durable_is_named() -> None:
    with pytest.raises(OracleViolationError, match="durable-apply: n3 applies"):
        oracles().on_apply(2, 0, entries_of([1]))


def test_applying_another_entry_or_leaving_a_gap_is_named() -> None:
    watch = oracles()
    watch.durable[2].extend(entries_of([2, 2]))
    with pytest.raises(OracleViolationError, match="applied-agreement: n3 applies"):
        watch.on_apply(2, 0, entries_of([2]))
    watch = oracles()
    with pytest.raises(OracleViolationError, match="applied-agreement: n2 applies"):
        watch.on_apply(1, 0, entries_of([1, 1])[1:])


def test_an_acknowledgement_of_another_entry_or_of_none_is_named() -> None:
    watch = oracles()
    watch.on_acked(2, b"2@1")
    with pytest.raises(OracleViolationError, match="acked-entry"):
        watch.on_acked(2, b"mine")
    with pytest.raises(OracleViolationError, match="acked-entry"):
        watch.on_acked(3, b"mine")


def test_a_read_that_misses_an_acknowledged_write_or_an_earlier_read_is_named() -> None:
    watch = oracles()
    watch.on_acked(1, b"1@1")
    watch.on_read(watch.acked_index, 2)
    assert watch.acked_index == 2
    with pytest.raises(OracleViolationError, match="stale-read: read saw index 1, 2 was"):
        watch.on_read(watch.acked_index, 1)


def test_an_assertion_of_the_core_counts_for_the_oracle_that_it_names() -> None:
    assert violation_of(AssertionError("one-leader: two")).oracle == "one-leader"
    other = violation_of(AssertionError("log-gap: entry 3"))
    assert (other.oracle, other.detail) == ("core-invariant", "log-gap: entry 3")


def test_a_committed_entry_that_a_snapshot_overwrites_is_named() -> None:
    watch = oracles()
    with pytest.raises(OracleViolationError, match="committed-truncated: n1 in term 1 drops"):
        watch.on_write(0, 1, StoredLog(entries_of([1, 1])), None, (), LogStart(1, 1))


def test_another_state_at_one_index_is_named_and_a_snapshot_of_it_too() -> None:
    watch = oracles()
    watch.on_state(0, 1, 17)
    watch.on_state(1, 1, 17)
    with pytest.raises(OracleViolationError, match="state-equality: n3 has another state"):
        watch.on_state(2, 1, 18)
    with pytest.raises(OracleViolationError, match="state-equality: n3 has another state"):
        watch.on_snapshot(2, Checkpoint(1, 1), 18)
    with pytest.raises(OracleViolationError, match="state-equality: n3 takes a snapshot"):
        watch.on_snapshot(2, Checkpoint(1, 7), 17)


def test_a_commit_counts_by_the_membership_and_on_lost_disks_too() -> None:
    watch = oracles()
    log = RaftLog(entries_of([1, 1, 1]))
    watch.durable[0].extend(log.between(3, 3))
    watch.durable[1].extend(log.between(3, 3))
    members = Members(("n1", "n2", "n3"), (), (Known("n2", "n2.0"),))
    watch.on_wipe(1, "n2.0")
    watch.durable[1].wipe()
    watch.on_commit(0, 1, log, 3, 3, members)
    watch = oracles()
    watch.durable[0].extend(log.between(3, 3))
    with pytest.raises(OracleViolationError, match="durable-quorum: n1 commits entry 3"):
        watch.on_commit(0, 1, log, 3, 3, Members(("n1", "n2")))


def test_votes_of_servers_outside_the_membership_do_not_count() -> None:
    watch = oracles()
    log = RaftLog(entries_of([1, 1]))
    watch.on_vote(0, 2, 0)
    watch.on_vote(2, 2, 0)
    with pytest.raises(OracleViolationError, match="vote-quorum: n1 leads term 2 with 1 votes"):
        watch.on_leader(0, 2, log, Members(("n1", "n2")))
