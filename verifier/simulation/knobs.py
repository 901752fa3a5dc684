"""What differs between runs apart from faults: sizes, limits, times."""

from __future__ import annotations

import msgspec

from .streams import Stream


class Knobs(msgspec.Struct, frozen=True):
    """Settings of one run; a token carries them in full.

    Attributes:
        length_us: Length of the run before everything is healed.
        nodes: Voters.
        election_ms_min: As in the core's configuration; the maximum is twice this.
        heartbeat_ms: As in the core's configuration.
        max_append_entries: Entries in one append.
        max_append_bytes: Bytes of data in one append.
        max_inflight_appends: Unanswered appends to one follower.
        clients: Processes that write and read, one operation at a time.
        think_us: Mean pause of a client between two operations.
        read_percent: Share of reads among operations.
        payloads_max: Entries of one proposal at the most.
        padding_max: Bytes added to a payload at the most.
        sync_us: Typical time of one disk sync.
        group_commit: Whether one sync takes all writes that wait, or one write.
        client_timeout_us: When a client gives an operation up, with its outcome unknown.
        spares: Nodes beside the voters that begin as no members.
        checkpoint_every: Entries applied between two checkpoints; 0 for no checkpoints.
        log_tail: Entries that stay in the log behind a checkpoint.
        snapshot_us_max: How long the transfer of a snapshot takes at the most.
        change_pause_us: Mean pause between two changes of the membership; 0 for none.
    """

    length_us: int = 8_000_000
    nodes: int = 3
    election_ms_min: int = 300
    heartbeat_ms: int = 100
    max_append_entries: int = 64
    max_append_bytes: int = 1 << 20
    max_inflight_appends: int = 64
    clients: int = 3
    think_us: int = 40_000
    read_percent: int = 30
    payloads_max: int = 1
    padding_max: int = 0
    sync_us: int = 400
    group_commit: bool = True
    client_timeout_us: int = 1_500_000
    spares: int = 0
    checkpoint_every: int = 0
    log_tail: int = 0
    snapshot_us_max: int = 300_000
    change_pause_us: int = 0

    @property
    def servers(self) -> int:
        """All nodes, spares included."""
        return self.nodes + self.spares


def random_knobs(stream: Stream) -> Knobs:
    """Draw the knobs of a run: each is often at an extreme, because defects live there."""
    return Knobs(
        nodes=stream.pick((3, 3, 3, 5)),
        election_ms_min=stream.pick((150, 200, 300, 400)),
        heartbeat_ms=stream.pick((40, 50, 75)),
        max_append_entries=stream.pick((1, 1, 2, 8, 64)),
        max_append_bytes=stream.pick((1, 200, 1 << 20)),
        max_inflight_appends=stream.pick((1, 2, 4, 64)),
        clients=stream.pick((1, 2, 3, 4)),
        think_us=stream.pick((5_000, 15_000, 40_000, 80_000)),
        read_percent=stream.pick((0, 30, 60)),
        payloads_max=stream.pick((1, 1, 3)),
        padding_max=stream.pick((0, 0, 120)),
        sync_us=stream.pick((150, 400, 3_000, 12_000)),
        group_commit=stream.pick((True, True, False)),
        client_timeout_us=stream.pick((500_000, 1_500_000, 4_000_000)),
        spares=stream.pick((0, 1, 2)),
        checkpoint_every=stream.pick((0, 0, 3, 10, 40)),
        log_tail=stream.pick((0, 0, 5, 30)),
        snapshot_us_max=stream.pick((20_000, 300_000, 2_000_000)),
        change_pause_us=stream.pick((0, 0, 30_000, 200_000, 800_000)),
    )
