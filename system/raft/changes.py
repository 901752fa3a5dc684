"""What a leader makes of a wish to change the membership.

One server at a time: quorums before and after then overlap (thesis §4.1). A change is taken only
once the one before is committed, and once an entry of the leader's own term is: otherwise two
leaders could build on memberships whose quorums do not overlap (Ongaro, raft-dev, July 2015).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .events import AddLearner, Change, Promote, Record
from .members import Known, Members
from .replication import Replication
from .state import RaftState

REFUSALS: Final[dict[str, str]] = {
    "not_ready": "the leader has committed nothing in its term yet",
    "change_in_progress": "the change before is not committed yet",
    "no_quorum": "no majority of the voters is alive before or after the change",
    "learner_behind": "the learner lacks too much of the log, or is not heard",
    "last_voter": "the last voter cannot be removed",
    "unknown_member": "no member has that name",
    "incarnation_known": "the member of that name has another data directory",
}


class Refusal(NamedTuple):
    """Why a change is not made: a code of `REFUSALS`, and a text."""

    code: str
    text: str


def wanted_members(members: Members, change: Change) -> Members | Refusal:
    """Return the membership that a change leads to, which may be the same."""
    if isinstance(change, AddLearner):
        before = members.known_of(change.node)
        if before.incarnation and change.incarnation not in ("", before.incarnation):
            return Refusal(
                "incarnation_known",
                f"{change.node} is a member with another data directory; remove it first",
            )
        known = Known(
            change.node,
            change.incarnation or before.incarnation,
            change.address or before.address,
        )
        return members.with_learner(known)
    if isinstance(change, Promote):
        if change.node in members.voters:
            return members
        if change.node not in members.learners:
            return Refusal("unknown_member", f"{change.node} is no member; add it as learner first")
        return members.promoted(change.node)
    if isinstance(change, Record):
        return members.recorded(change.known)
    if members.voters == (change.node,):
        return Refusal("last_voter", f"{change.node} is the last voter; it cannot be removed")
    return members.without(change.node)


def refusal_of(
    state: RaftState, replication: Replication, wanted: Members, change: Change
) -> Refusal | None:
    """Return why the leader cannot append `wanted` now; None when it can."""
    membership = state.membership
    if "config-change-before-commit" not in state.bugs:
        if state.commit_index < replication.first_index:
            return Refusal("not_ready", REFUSALS["not_ready"])
        if membership.index > state.commit_index:
            return Refusal("change_in_progress", REFUSALS["change_in_progress"])
    for members in (membership.members, wanted):
        alive = sum(_is_alive(state, replication, voter) for voter in members.voters)
        if alive <= len(members.voters) // 2:
            voters = ", ".join(members.voters)
            return Refusal("no_quorum", f"{alive} of the voters {voters} are alive, no majority")
    if isinstance(change, Promote):
        return _learner_refusal(state, replication, change.node)
    return None


def _learner_refusal(state: RaftState, replication: Replication, server: str) -> Refusal | None:
    """Return why a learner cannot be a voter yet: it must be heard, and nearly have the log."""
    if not _is_alive(state, replication, server):
        return Refusal("learner_behind", f"{server} has not been heard lately")
    if server == state.node_id:
        return None
    match_index = replication.followers[server].match_index
    if match_index < state.membership.index:
        # It votes only once it knows itself to be a member.
        return Refusal("learner_behind", f"{server} does not know yet that it is a member")
    lag = state.log.last_index - match_index
    lag_max = state.config.learner_lag_max
    if lag <= lag_max:
        return None
    return Refusal("learner_behind", f"{server} lacks {lag} entries, at most {lag_max} are allowed")


def _is_alive(state: RaftState, replication: Replication, server: str) -> bool:
    """Whether a server is this one, or has answered within an election timeout."""
    if server == state.node_id:
        return True
    progress = replication.followers.get(server)
    return (
        progress is not None
        and progress.has_answered
        and state.now_us - progress.contact_us < state.election_us_max
    )
