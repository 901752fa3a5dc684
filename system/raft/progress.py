"""What a leader knows of one follower's log."""

from __future__ import annotations

from collections import deque


class Progress:
    """Where a follower's log matches, and what is on its way to it.

    Attributes:
        match_index: Up to here the follower's durable log equals the leader's.
        next_index: First entry to send next.
        is_replicating: Whether appends are sent ahead of their answers. Otherwise the leader
            probes, one append at a time, for the place where the logs agree.
        is_waiting: A probe is on its way; no other until it is answered or a heartbeat is.
        inflight: Last index of each unanswered append, in order; only when replicating.
        snapshot_from: While the follower is sent a snapshot: the least index that this holds.
        window: Unanswered appends allowed now. It falls to 1 at a refusal and grows with each
            success, or overtaken appends would be refused and sent again in ever larger floods.
        doubt_round: A refusal of what was acknowledged proves a loss if it answers a message of
            this round or later; 0 while there is no doubt.
        backup_round: Refusals of messages of earlier rounds tell nothing new.
        acked_round: Latest read round answered.
        contact_us: When the follower last answered in this term, or began to follow.
        has_answered: Whether it has answered at all.
    """

    __slots__ = (
        "acked_round",
        "backup_round",
        "contact_us",
        "doubt_round",
        "has_answered",
        "inflight",
        "is_replicating",
        "is_waiting",
        "match_index",
        "next_index",
        "snapshot_from",
        "window",
    )

    def __init__(self, next_index: int, window: int, now_us: int) -> None:
        self.match_index = 0
        self.next_index = next_index
        self.is_replicating = False
        self.is_waiting = False
        self.inflight: deque[int] = deque()
        self.snapshot_from: int | None = None
        self.window = window
        self.backup_round = 0
        self.doubt_round = 0
        self.acked_round = 0
        self.contact_us = now_us
        self.has_answered = False

    @property
    def is_sent_snapshot(self) -> bool:
        """Whether a snapshot is on its way, which entries must wait for."""
        return self.snapshot_from is not None

    def on_success(self, match_index: int, index_min: int) -> None:
        """Note that the follower has everything up to `match_index`.

        Args:
            match_index: Up to where it matches.
            index_min: The first entry the leader can still send.
        """
        self.match_index = max(self.match_index, match_index)
        if not self.is_replicating and self.match_index + 1 < index_min:
            return  # A late answer; what it needs next was dropped meanwhile.
        inflight = self.inflight
        while inflight and inflight[0] <= match_index:
            inflight.popleft()
        if not self.is_replicating:
            self.is_replicating = True
            self.next_index = self.match_index + 1
        self.next_index = max(self.next_index, self.match_index + 1)
        self.is_waiting = False
        self.window += 1

    def on_refusal(self, refused_index: int, hint_index: int, index_min: int) -> bool:
        """Back up after the follower refused an append after `refused_index`.

        Args:
            refused_index: The `prev_index` of the refused append.
            hint_index: Where the logs may agree at the latest: the next entry to send.
            index_min: The first entry the leader can still send.

        Returns:
            Whether the refusal said anything new; doubled ones do not.
        """
        is_known = refused_index <= self.match_index or (
            not self.is_replicating and refused_index != self.next_index - 1
        )
        if is_known:
            return False
        wanted_index = max(self.match_index + 1, min(hint_index, refused_index))
        self.probe_from(max(wanted_index, index_min))
        if wanted_index < index_min:
            self.snapshot_from = index_min - 1
        return True

    def probe_from(self, next_index: int) -> None:
        """Look for the place where the logs agree, before `next_index`."""
        self.next_index = next_index
        self.is_replicating = False
        self.is_waiting = False
        self.inflight.clear()
        self.window = 1
