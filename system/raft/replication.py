"""The leader's side of replication: appends, heartbeats, commits (Raft §5.3, §5.4.2)."""

from __future__ import annotations

from .events import Appended, MemberRegressed, SendSnapshot
from .members import Members, encode_members
from .messages import AppendEntries, AppendReply, Entry, EntryKind
from .progress import Progress
from .quorum import reached_by_quorum
from .state import RaftState


class Replication:
    """Followers' progress while this server leads; empty otherwise.

    Attributes:
        heartbeat_deadline_us: When the next heartbeat is due.
        round: The latest round; every append carries it. Reads and back-ups begin new ones.
        first_index: The first index of this leader's term.
    """

    __slots__ = ("_state", "first_index", "followers", "heartbeat_deadline_us", "round")

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self.followers: dict[str, Progress] = {}
        self.heartbeat_deadline_us = 0
        self.round = 0
        self.first_index = 0

    def start(self) -> None:
        """Begin to lead: append a no-op of the new term and assert leadership at once."""
        state = self._state
        next_index = state.log.last_index + 1
        window = state.config.max_inflight_appends
        self.followers = {
            server: Progress(next_index, window, state.now_us) for server in state.others
        }
        self.round = 0
        self.first_index = next_index
        if "no-noop-on-win" not in state.bugs:
            state.append((Entry(state.term, next_index, EntryKind.NOOP, b""),))
        self.beat()

    def stop(self) -> None:
        """Forget the followers: this server no longer leads."""
        self.followers = {}

    def propose(self, proposal: int, payloads: tuple[bytes, ...]) -> None:
        """Append one entry for each payload and send them on."""
        state = self._state
        assert payloads, f"proposal {proposal} has no payloads"
        term, first_index = state.term, state.log.last_index + 1
        state.append(
            tuple(
                Entry(term, index, EntryKind.COMMAND, payload)
                for index, payload in enumerate(payloads, first_index)
            )
        )
        state.effects.append(Appended(proposal, term, first_index))
        if "commit-by-minority" in state.bugs:
            return  # Nothing waits for the copies any more, so they leave with the next heartbeat.
        for peer, progress in self.followers.items():
            self._send_entries(peer, progress)

    def change_members(self, proposal: int, members: Members) -> None:
        """Append a membership, which is in force from now on, and send it on.

        Servers that leave are followers until it is committed, so that they learn of it.
        """
        state = self._state
        index = state.log.last_index + 1
        state.append((Entry(state.term, index, EntryKind.CONFIG, encode_members(members)),))
        state.effects.append(Appended(proposal, state.term, index))
        for server in state.others:
            if server not in self.followers:
                window = state.config.max_inflight_appends
                self.followers[server] = Progress(index, window, state.now_us)
        for server, progress in self.followers.items():
            self._send_entries(server, progress)
        self.advance_commit(index)

    def dismiss(self) -> None:
        """Drop the followers that are no members any more, with a last word of what is committed.

        To be called once the membership in force is committed.
        """
        gone = [server for server in self.followers if server not in self._state.others]
        for server in gone:
            progress = self.followers.pop(server)
            self._send_sign(server, progress)

    def on_compacted(self) -> None:
        """Probe followers that would be sent dropped entries next; they may need a snapshot."""
        start_index = self._state.log.start_index
        for progress in self.followers.values():
            if progress.next_index < start_index:
                progress.probe_from(start_index)

    @property
    def snapshot_floor(self) -> int | None:
        """The least index of the snapshots under way: what is behind it must be kept."""
        floors = [
            progress.snapshot_from
            for progress in self.followers.values()
            if progress.snapshot_from is not None
        ]
        return min(floors, default=None)

    def on_snapshot_sent(self, to: str, index: int, ok: bool) -> None:
        """Go on with the entries behind a snapshot, or probe again, which asks for the next."""
        progress = self.followers.get(to)
        if progress is None or progress.snapshot_from is None:
            return
        progress.snapshot_from = None
        log = self._state.log
        assert not ok or index <= log.last_index, (
            f"snapshot-range: {to} rests on {index}, last entry {log.last_index}"
        )
        progress.probe_from(max(log.start_index, index + 1 if ok else 0))
        if not ok:
            progress.is_waiting = True
        elif not self._send_entries(to, progress):
            self._send_sign(to, progress)

    def beat(self) -> None:
        """Send every follower a sign of life, with entries where a probe is due."""
        state = self._state
        self.heartbeat_deadline_us = state.now_us + state.heartbeat_us
        for peer, progress in self.followers.items():
            if not self._send_entries(peer, progress):
                self._send_sign(peer, progress)

    def _send_sign(self, peer: str, progress: Progress) -> None:
        """Send an append without entries; while a snapshot is under way it fits any log."""
        prev_index = progress.next_index - 1
        self._send(peer, 0 if progress.is_sent_snapshot else prev_index, ())

    def begin_round(self) -> int:
        """Start a read round, which is a heartbeat that asks every follower to confirm it."""
        self.round += 1
        self.beat()
        return self.round

    def _send_entries(self, peer: str, progress: Progress) -> bool:
        """Send as many appends as the follower's window allows; returns whether any went out."""
        state = self._state
        config = state.config
        last_index = state.log.last_index
        if progress.is_sent_snapshot:
            return False
        if not progress.is_replicating:
            if progress.is_waiting or progress.next_index > last_index:
                return False
            first = progress.next_index
            entries = state.log.batch(first, config.max_append_entries, config.max_append_bytes)
            self._send(peer, first - 1, entries)
            progress.is_waiting = True
            return True
        has_sent = False
        window = min(progress.window, config.max_inflight_appends)
        while progress.next_index <= last_index and len(progress.inflight) < window:
            first = progress.next_index
            entries = state.log.batch(first, config.max_append_entries, config.max_append_bytes)
            self._send(peer, first - 1, entries)
            progress.next_index = first + len(entries)
            progress.inflight.append(progress.next_index - 1)
            has_sent = True
        return has_sent

    def _send(self, peer: str, prev_index: int, entries: tuple[Entry, ...]) -> None:
        state = self._state
        prev_term = state.log.term_at(prev_index) if prev_index else 0
        assert prev_term is not None, (
            f"log-range: append after {prev_index}, log holds "
            f"{state.log.start_index}..{state.log.last_index}"
        )
        state.send(
            peer,
            AppendEntries(
                state.term, prev_index, prev_term, state.commit_index, self.round, entries
            ),
        )

    def on_reply(self, sender: str, reply: AppendReply) -> None:
        """Take a follower's answer in this term: advance its progress, or back up."""
        state = self._state
        log = state.log
        progress = self.followers.get(sender)
        if progress is None:
            return
        if reply.round > self.round or reply.match_index > log.last_index:
            return
        progress.contact_us = state.now_us
        progress.has_answered = True
        progress.acked_round = max(progress.acked_round, reply.round)
        if progress.is_sent_snapshot:
            return
        if reply.success:
            if reply.match_index >= progress.match_index:
                progress.doubt_round = 0
            progress.on_success(reply.match_index, log.start_index)
            self.advance_commit(reply.match_index)
        elif (
            (
                0 < reply.match_index <= progress.match_index
                and not self._is_lost(sender, progress, reply)
            )
            or reply.round < progress.backup_round
            or not progress.on_refusal(reply.match_index, self._hint(reply), log.start_index)
        ):
            return
        else:
            # What was sent before is of an earlier round from now on.
            self.round += 1
            progress.backup_round = self.round
            if progress.snapshot_from is not None:
                state.effects.append(SendSnapshot(sender, progress.snapshot_from))
        self._send_entries(sender, progress)

    def _is_lost(self, sender: str, progress: Progress, reply: AppendReply) -> bool:
        """Whether a follower is proven to lack what it acknowledged; then all is sent again.

        The refusal may be of a message that is older than the acknowledgement. So the first one
        only begins a round; an answer to a message of that round is proof.
        """
        if not progress.doubt_round or reply.round < progress.doubt_round:
            is_held = progress.match_index >= self._state.log.start_index - 1
            if not progress.doubt_round and is_held:
                self.round += 1
                progress.doubt_round = self.round
                self._send(sender, progress.match_index, ())
            return False
        self._state.effects.append(MemberRegressed(sender, progress.match_index))
        progress.doubt_round = 0
        progress.match_index = 0
        progress.probe_from(reply.match_index + 1)
        return True

    def _hint(self, reply: AppendReply) -> int:
        """Return the next entry to try, past a whole conflicting term at once (Raft §5.3)."""
        if reply.conflict_term:
            last_of_term = self._state.log.last_index_of(reply.conflict_term)
            if last_of_term is not None:
                return last_of_term + 1
        return reply.conflict_index

    def advance_commit(self, reached_index: int) -> None:
        """Commit what a quorum holds durably, if `reached_index` could have added to it.

        Only entries of the leader's own term are committed by counting (Raft §5.4.2). The leader
        counts its own copy once it is durable.
        """
        state = self._state
        if reached_index <= state.commit_index:
            return
        held = [self.followers[voter].match_index for voter in state.peers]
        if state.is_voter:
            held.append(state.durability.durable_index)
        index = reached_by_quorum(held, state.commit_quorum)
        if index <= state.commit_index:
            return
        if index >= self.first_index or "commit-old-term" in state.bugs:
            state.commit(index)

    def quorum_contact_us(self) -> int:
        """Return when a quorum, this server included, was last heard from."""
        heard = [self.followers[voter].contact_us for voter in self._state.peers]
        if self._state.is_voter:
            heard.append(self._state.now_us)
        return reached_by_quorum(heard, self._state.commit_quorum)
