"""What others may see of a core between two steps."""

from __future__ import annotations

from .events import Role
from .log import RaftLog
from .members import Members
from .replication import Replication
from .state import RaftState
from .transfer import Transfer


class CoreView:
    """The outside of a core, for looking only."""

    __slots__ = ("_replication", "_state", "_transfer")

    def __init__(self, state: RaftState, replication: Replication, transfer: Transfer) -> None:
        self._state = state
        self._replication = replication
        self._transfer = transfer

    @property
    def role(self) -> Role:
        """What this server takes itself for."""
        return self._state.role

    @property
    def term(self) -> int:
        """The current term."""
        return self._state.term

    @property
    def leader(self) -> str | None:
        """The leader of the current term, if known."""
        return self._state.leader

    @property
    def commit_index(self) -> int:
        """The last index known to be committed."""
        return self._state.commit_index

    @property
    def durable_index(self) -> int:
        """The last index of the log that is durable here."""
        return self._state.durability.durable_index

    @property
    def last_index(self) -> int:
        """The last index of the log in memory."""
        return self._state.log.last_index

    @property
    def applied_index(self) -> int:
        """The last index given out by `Apply`."""
        return self._state.applied_index

    @property
    def log(self) -> RaftLog:
        """The log in memory; for looking only."""
        return self._state.log

    @property
    def members(self) -> Members:
        """The membership in force here: the latest in the log."""
        return self._state.membership.members

    @property
    def others(self) -> tuple[str, ...]:
        """The other members."""
        return self._state.others

    @property
    def members_index(self) -> int:
        """The entry that put it in force; 0 for what a new cluster begins with."""
        return self._state.membership.index

    @property
    def is_members_committed(self) -> bool:
        """Whether the membership in force is known to be committed."""
        return self._state.membership.index <= self._state.commit_index

    @property
    def is_voter(self) -> bool:
        """Whether this server, with its data directory, is a voter."""
        return self._state.is_voter

    @property
    def is_on_probation(self) -> bool:
        """Whether this server must not vote yet (see `RaftConfig`)."""
        return self._state.on_probation

    @property
    def slowest_match_index(self) -> int | None:
        """The least index that some follower is known to hold; None unless leading others."""
        followers = self._replication.followers.values()
        return min((progress.match_index for progress in followers), default=None)

    def match_index_of(self, server: str) -> int | None:
        """Return up to where a follower is known to hold the log; None unless leading it."""
        progress = self._replication.followers.get(server)
        return None if progress is None else progress.match_index

    def contact_us_of(self, server: str) -> int | None:
        """Return when a follower last answered, or began to follow; None unless leading it."""
        progress = self._replication.followers.get(server)
        return None if progress is None else progress.contact_us

    def wants_snapshot(self, index: int) -> bool:
        """Whether a snapshot up to `index` holds anything that this server has not applied."""
        return index > self._state.applied_index or (
            "snapshot-overwrites-newer-log" in self._state.bugs
        )

    @property
    def is_transferring(self) -> bool:
        """Whether a leadership transfer is under way, so that proposals are refused."""
        return self._transfer.target is not None

    @property
    def quorum_contact_us(self) -> int:
        """When this server last knew of a quorum; 0 for never since its start.

        A leader: when a quorum last answered it. Others: when they last heard from their leader.
        """
        if self._state.role is Role.LEADER:
            return self._replication.quorum_contact_us()
        return self._state.leader_contact_us
