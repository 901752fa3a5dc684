"""What goes into the Raft core and what comes out of it.

Times are integers in microseconds of a clock that never goes back; durations in the
configuration are milliseconds.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec

from .log import LogStart
from .members import Known, Members
from .messages import Entry, HardState, Message


class Role(Enum):
    """What a server takes itself for."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


_Positive = Annotated[int, msgspec.Meta(ge=1)]


class RaftConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of one server.

    Attributes:
        node_id: This server; one of `voters`, if there are any.
        voters: The voters that a new cluster begins with, the same on each of its servers. A
            server with a log or a checkpoint goes by these instead. None for a server that waits
            until a cluster takes it in.
        election_ms_min: A server campaigns after this long without word from a leader at the
            earliest, and protects a leader it has heard from for this long.
        election_ms_max: ... at the latest. A leader without word from a quorum for this long
            steps down, and a leadership transfer is given up after this long.
        heartbeat_ms: Pause between two heartbeats; under half of `election_ms_min`.
        max_append_entries: Entries in one append.
        max_append_bytes: Bytes of data in one append; a single larger entry goes alone.
        max_inflight_appends: Unanswered appends to one follower.
        check_quorum: Whether leaders step down without a quorum, and voters protect leaders.
        incarnation: Identity of this server's data directory; empty when it has none.
        learner_lag_max: Entries that a learner may lack when it is promoted.
        on_probation: Whether this server may have forgotten votes, because its data directory is
            new: it neither votes nor campaigns until `Vouched`, or until the membership names its
            incarnation.
    """

    node_id: str
    voters: tuple[str, ...]
    election_ms_min: _Positive = 400
    election_ms_max: _Positive = 800
    heartbeat_ms: _Positive = 100
    max_append_entries: _Positive = 64
    max_append_bytes: _Positive = 1 << 20
    max_inflight_appends: _Positive = 64
    check_quorum: bool = True
    incarnation: str = ""
    learner_lag_max: _Positive = 1000
    on_probation: bool = False

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other.

        Raises:
            ValueError: The message names the value and what is allowed.
        """
        if self.voters and self.node_id not in self.voters:
            raise ValueError(f"node_id {self.node_id!r} is not among voters {self.voters!r}")
        if len(set(self.voters)) != len(self.voters):
            raise ValueError(f"voters {self.voters!r} names a server twice")
        if self.election_ms_max < self.election_ms_min:
            raise ValueError(
                f"election_ms_max {self.election_ms_max} is below "
                f"election_ms_min {self.election_ms_min}"
            )
        if 2 * self.heartbeat_ms > self.election_ms_min:
            raise ValueError(
                f"heartbeat_ms {self.heartbeat_ms} is more than half of "
                f"election_ms_min {self.election_ms_min}"
            )


class Tick(msgspec.Struct, frozen=True):
    """`deadline_us` has passed."""


class Receive(msgspec.Struct, frozen=True):
    """A message arrived.

    Attributes:
        sender: Who sent it.
        message: What it says.
        incarnation: The sender's, as it said when it connected; empty when that is not known.
    """

    sender: str
    message: Message
    incarnation: str = ""


class Propose(msgspec.Struct, frozen=True):
    """Append one entry for each payload. Answered by `Appended` or `Refused`."""

    proposal: int
    payloads: tuple[bytes, ...]


class Persisted(msgspec.Struct, frozen=True, gc=False):
    """Every `Persist` up to `sequence` is durable."""

    sequence: int


class Read(msgspec.Struct, frozen=True, gc=False):
    """Ask from which log index on a linearizable read may be served.

    Answered by `ReadReady` or `ReadFailed`, possibly much later; whoever asks sets the limit.
    """

    read: int


class TransferLeadership(msgspec.Struct, frozen=True):
    """Hand leadership to `target`, or to the most caught-up voter. Answered by `TransferDone`."""

    target: str | None


class Compact(msgspec.Struct, frozen=True, gc=False):
    """A durable checkpoint holds every entry up to `index`: memory may forget them.

    What a snapshot under way still needs behind it stays all the same.
    """

    index: int


class SnapshotSent(msgspec.Struct, frozen=True, gc=False):
    """What `SendSnapshot` asked for has ended.

    Attributes:
        to: The receiver.
        index: The last entry in the snapshot.
        ok: Whether the receiver said that it rests on it now.
    """

    to: str
    index: int
    ok: bool


class SnapshotInstalled(msgspec.Struct, frozen=True):
    """The state machine of this server rests on a received snapshot, durably.

    Attributes:
        index: The last entry in it.
        term: The term of that entry.
        members: The membership in force there.
    """

    index: int
    term: int
    members: Members


class AddLearner(msgspec.Struct, frozen=True):
    """Take a server in, to receive the log. Its incarnation and address are recorded."""

    node: str
    incarnation: str = ""
    address: str = ""


class Promote(msgspec.Struct, frozen=True):
    """Make a learner a voter."""

    node: str


class Remove(msgspec.Struct, frozen=True):
    """Take a voter or learner out."""

    node: str


class Record(msgspec.Struct, frozen=True):
    """Note what is known of members of which nothing was known; nobody comes or goes."""

    known: tuple[Known, ...]


Change = AddLearner | Promote | Remove | Record


class ChangeMembers(msgspec.Struct, frozen=True):
    """Change the membership by one server.

    Answered by `Appended`, `Refused`, `MembersKept` or `ChangeRefused`.
    """

    proposal: int
    change: Change


class Vouched(msgspec.Struct, frozen=True):
    """Enough peers know no other data directory of this server: it has never voted before."""


Event = (
    Tick
    | Receive
    | Propose
    | Persisted
    | Read
    | TransferLeadership
    | Compact
    | SnapshotSent
    | SnapshotInstalled
    | ChangeMembers
    | Vouched
)


class Persist(msgspec.Struct, frozen=True):
    """Make this durable, in the order issued, then say `Persisted(sequence)`.

    Attributes:
        sequence: Counts up from 1 without a gap.
        hard_state: To store, when it changed.
        truncate_from: Drop stored entries from this index on, before appending `entries`.
        entries: To append.
        reset: Drop all stored entries first; the log begins after this.
    """

    sequence: int
    hard_state: HardState | None
    truncate_from: int | None
    entries: tuple[Entry, ...]
    reset: LogStart | None = None


class Send(msgspec.Struct, frozen=True):
    """Send a message, at once; it may be lost, doubled, or overtaken."""

    to: str
    message: Message


class Apply(msgspec.Struct, frozen=True):
    """These entries are committed and durable here: in log order, each exactly once."""

    entries: tuple[Entry, ...]


class Appended(msgspec.Struct, frozen=True, gc=False):
    """The payloads of a proposal took the indexes from `first_index` on, in `term`.

    Not a promise: the proposal has succeeded when an entry with this term is applied at the index.
    """

    proposal: int
    term: int
    first_index: int


class Refused(msgspec.Struct, frozen=True, gc=False):
    """The proposal was not appended, for certain. `leader` is who to ask instead, if known.

    A leader that is handing its leadership over refuses too, and names itself.
    """

    proposal: int
    leader: str | None


class ReadReady(msgspec.Struct, frozen=True, gc=False):
    """The read may be served once the entry at `log_index` has been applied."""

    read: int
    log_index: int


class ReadFailed(msgspec.Struct, frozen=True, gc=False):
    """This server does not lead, or has lost its leadership meanwhile."""

    read: int


class LeadershipChanged(msgspec.Struct, frozen=True):
    """The role, the term or the known leader is another than before."""

    role: Role
    term: int
    leader: str | None


class TransferDone(msgspec.Struct, frozen=True, gc=False):
    """Whether another server is known to lead since the transfer was asked for."""

    ok: bool


class SendSnapshot(msgspec.Struct, frozen=True, gc=False):
    """A server needs entries that this leader's log no longer has; answered by `SnapshotSent`.

    One at a time is asked for each receiver. It lapses with the leadership.

    Attributes:
        to: The receiver.
        index_min: The snapshot must hold the entries up to this one at least.
    """

    to: str
    index_min: int


class MemberRegressed(msgspec.Struct, frozen=True, gc=False):
    """A member has lost entries that it had acknowledged to this leader, and gets them again.

    No crash explains that: its disk was exchanged for an older copy of itself, or lied.

    Attributes:
        node: The member.
        match_index: What it had acknowledged.
    """

    node: str
    match_index: int


class MembersChanged(msgspec.Struct, frozen=True):
    """Another membership is in force here, since `index`; it may be rolled back by another."""

    members: Members
    index: int


class MembersKept(msgspec.Struct, frozen=True, gc=False):
    """The membership that was asked for is in force and committed."""

    proposal: int


class ChangeRefused(msgspec.Struct, frozen=True, gc=False):
    """The membership was not changed, for certain.

    Attributes:
        proposal: The proposal.
        code: One of `REFUSALS` in `changes.py`.
        text: Why, for the one who asked.
    """

    proposal: int
    code: str
    text: str


Effect = (
    Persist
    | Send
    | Apply
    | Appended
    | Refused
    | ReadReady
    | ReadFailed
    | LeadershipChanged
    | TransferDone
    | SendSnapshot
    | MemberRegressed
    | MembersChanged
    | MembersKept
    | ChangeRefused
)
