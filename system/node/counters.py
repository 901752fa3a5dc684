"""What a node counts about itself, for `/metrics` and `/health`."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class Counters:
    """All since the node's start.

    Attributes:
        requests: HTTP requests taken from this node's own clients.
        forwarded: Of these, sent on to a leader (each try counts).
        served: Requests answered as leader, own and forwarded ones.
        retried: Tries that had to be made again, here or at another leader.
        gave_up: Requests answered 503 at their deadline.
        proposals: Log entries proposed.
        commands: Commands in them.
        applied: Log entries applied.
        pops: Pops answered as leader, empty ones included.
        parked: Pops that had to wait.
        take_backs: Claims taken back because their requester had vanished.
        timers_fired: `FireTimers` commands proposed.
        raft_sent: Messages to peers.
        raft_received: Messages from peers.
        raft_dropped: Messages not sent, for want of a connection or of room.
        syncs: Syncs of the log.
        sync_us: Time spent in them.
        sync_us_max: The slowest.
        refused_peers: Connections to the peer port that were turned away.
        internal_errors: Requests answered 500.
        refused_overload: Requests answered 429 because too much waited here.
        refused_full: Requests answered 507 because a disk was full.
        refused_connections: Client connections turned away because there were too many.
        checkpoints: Checkpoints made.
        checkpoint_rows: Rows in them.
        checkpoint_us: Time they took, most of it on a thread.
        checkpoint_stall_us_max: The longest that collecting one has held up everything else.
        purged_segments: Log segments deleted behind checkpoints.
        snapshots_sent: Snapshots that a member has put in force.
        snapshots_installed: Snapshots that this node has put in force.
        snapshot_bytes_received: Bytes of snapshots staged here.
        scrub_rounds: Times that everything on the disk was looked at again.
        scrubbed_bytes: Bytes of sealed segments looked at again.
        scrubbed_rows: About how many rows of checkpoints were.
        rotten_segments: Sealed segments found rotten.
    """

    requests: int = 0
    forwarded: int = 0
    served: int = 0
    retried: int = 0
    gave_up: int = 0
    proposals: int = 0
    commands: int = 0
    applied: int = 0
    pops: int = 0
    parked: int = 0
    take_backs: int = 0
    timers_fired: int = 0
    raft_sent: int = 0
    raft_received: int = 0
    raft_dropped: int = 0
    syncs: int = 0
    sync_us: int = 0
    sync_us_max: int = 0
    refused_peers: int = 0
    internal_errors: int = 0
    refused_overload: int = 0
    refused_full: int = 0
    refused_connections: int = 0
    checkpoints: int = 0
    checkpoint_rows: int = 0
    checkpoint_us: int = 0
    checkpoint_stall_us_max: int = 0
    purged_segments: int = 0
    snapshots_sent: int = 0
    snapshots_installed: int = 0
    snapshot_bytes_received: int = 0
    scrub_rounds: int = 0
    scrubbed_bytes: int = 0
    scrubbed_rows: int = 0
    rotten_segments: int = 0

    def as_dict(self) -> dict[str, int]:
        """All counts by name."""
        return asdict(self)
