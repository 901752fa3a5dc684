"""What must hold in every run, seen from inside: white-box oracles, and two from outside.

An oracle sees all nodes at once, which no node and no client can; it names a defect the moment
it happens. Names of oracles are the `rule` of the planted defects in `system/bugs.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...system.raft.core import Members, RaftLog
from ...system.raft.log import LogStart
from ...system.raft.members import Checkpoint
from ...system.raft.messages import Entry, HardState
from .stored import StoredLog

ORACLES: Final[dict[str, str]] = {
    "one-leader": "a term has at most one leader",
    "one-vote": "a node sends its vote, to itself included, to one candidate in a term",
    "vote-quorum": "a winner holds sent votes of a majority",
    "durable-quorum": "when an entry commits, a majority has it on its durable medium",
    "log-matching": "entries of one index and term are equal, and so are their predecessors",
    "leader-completeness": "a winner's log has every entry committed in earlier terms",
    "committed-truncated": "no node drops an entry that was committed in its term or before",
    "durable-term": "the durable term of a node never falls",
    "durable-apply": "a node applies only what is durable on its own disk",
    "applied-agreement": "all nodes apply the same entries in the same order, without a gap",
    "state-equality": "all states at one index are equal, those out of snapshots included",
    "acked-entry": "an acknowledged proposal is the entry applied at its index",
    "stale-read": "a read sees everything acknowledged before it began",
    "kept-entries": "no node lacks what it acknowledged, and no leader thinks so",
    "liveness": "once healed, the cluster elects, reads, commits, and converges",
    "message-storm": "a run sends no more messages than its load can explain",
    "core-invariant": "an assertion inside the core holds",
}


class OracleViolationError(Exception):
    """An oracle found a defect; `oracle` is its name, the text gives the operands."""

    def __init__(self, oracle: str, detail: str) -> None:
        assert oracle in ORACLES, f"no oracle {oracle!r}"
        super().__init__(f"{oracle}: {detail}")
        self.oracle = oracle
        self.detail = detail


def violation_of(error: AssertionError) -> OracleViolationError:
    """Name the oracle behind a broken assertion of the core, whose message begins with a name."""
    name, _, detail = str(error).partition(": ")
    if name in ORACLES:
        return OracleViolationError(name, detail)
    return OracleViolationError("core-invariant", str(error))


def number_of(name: str) -> int:
    """Return the number of the node with a name: 0 for n1."""
    return int(name[1:]) - 1


class Oracles:
    """The run's omniscient memory: votes, leaders, entries, what is committed and applied.

    Attributes:
        committed: Entries known committed, from index 1.
        acked_index: The highest index that any client knows to be committed.
    """

    __slots__ = (
        "_applied",
        "_commit_terms",
        "_entries",
        "_leaders",
        "_lost",
        "_members",
        "_states",
        "_votes",
        "acked_index",
        "committed",
        "durable",
    )

    def __init__(self, nodes: int) -> None:
        self._members = Members(tuple(f"n{node + 1}" for node in range(nodes)))
        self._leaders: dict[int, int] = {}
        self._votes: dict[tuple[int, str, int], int] = {}
        self._states: list[int] = [0]
        self._lost: dict[str, StoredLog] = {}
        self._entries: dict[tuple[int, int], tuple[Entry, int]] = {}
        self._commit_terms: list[int] = []
        self._applied: list[Entry] = []
        self.committed: list[Entry] = []
        self.durable = [StoredLog() for _ in range(nodes)]
        self.acked_index = 0

    def on_vote(self, node: int, term: int, candidate: int, incarnation: str = "") -> None:
        """A vote left `node`, with the given data directory."""
        earlier = self._votes.setdefault((node, incarnation, term), candidate)
        if earlier != candidate:
            raise OracleViolationError(
                "one-vote",
                f"n{node + 1} voted for n{earlier + 1} in term {term}, then for n{candidate + 1}",
            )

    def on_leader(self, node: int, term: int, log: RaftLog, members: Members | None = None) -> None:
        """`node` won the election of `term`, by a membership, by default that of all nodes."""
        members = members or self._members
        earlier = self._leaders.setdefault(term, node)
        if earlier != node:
            raise OracleViolationError(
                "one-leader", f"term {term} has leaders n{earlier + 1} and n{node + 1}"
            )
        votes = sum(
            self._votes.get((number_of(voter), members.known_of(voter).incarnation, term)) == node
            for voter in members.voters
        )
        if votes <= len(members.voters) // 2:
            raise OracleViolationError(
                "vote-quorum", f"n{node + 1} leads term {term} with {votes} votes sent"
            )
        for position in range(len(self.committed) - 1, -1, -1):
            # A leader of an old term may win late; it owes nothing to later terms.
            if self._commit_terms[position] < term:
                entry = self.committed[position]
                # What a log has dropped was applied, and judged then.
                is_held = entry.index < log.start_index
                if not is_held and log.term_at(entry.index) != entry.term:
                    raise OracleViolationError(
                        "leader-completeness",
                        f"n{node + 1} leads term {term} with term {log.term_at(entry.index)} at "
                        f"index {entry.index}, where term {entry.term} is committed",
                    )
                return

    def on_write(
        self,
        node: int,
        term: int,
        written: StoredLog,
        truncate_from: int | None,
        entries: Sequence[Entry],
        reset: LogStart | None = None,
    ) -> None:
        """`node`, in `term`, hands a log change to its disk; `written` is its log, updated here."""
        if reset is not None:
            self._on_dropped(node, term, written, reset.index + 1)
            written.reset(reset)
        if truncate_from is not None:
            self._on_dropped(node, term, written, truncate_from)
            written.truncate_from(truncate_from)
        previous_term = written.last_term
        known = self._entries
        for entry in entries:
            fact = known.get((entry.index, entry.term))
            if fact is None:
                known[(entry.index, entry.term)] = (entry, previous_term)
            elif fact[1] != previous_term or (fact[0] is not entry and fact[0] != entry):
                raise OracleViolationError(
                    "log-matching",
                    f"n{node + 1} writes {entry!r} after term {previous_term}; "
                    f"{fact[0]!r} after term {fact[1]} is known",
                )
            previous_term = entry.term
        written.extend(entries)

    def _on_dropped(self, node: int, term: int, written: StoredLog, index: int) -> None:
        held_term = written.term_at(index)
        if held_term is None or index > len(self.committed):
            return
        is_committed = held_term == self.committed[index - 1].term
        # A leader of an old term may still cut a node that has not heard of the term in
        # which the entry was committed; such a node was not counted for the commit.
        if is_committed and self._commit_terms[index - 1] <= term:
            raise OracleViolationError(
                "committed-truncated",
                f"n{node + 1} in term {term} drops committed entry {index} of term {held_term}",
            )

    def on_durable_term(self, node: int, before: HardState, after: HardState) -> None:
        """A term and vote became durable on `node`."""
        if after.term < before.term:
            raise OracleViolationError(
                "durable-term", f"n{node + 1} had term {before.term}, then {after.term}"
            )

    def on_commit(
        self,
        node: int,
        term: int,
        log: RaftLog,
        first: int,
        last: int,
        members: Members | None = None,
    ) -> None:
        """`node`, in `term`, learned that `first` to `last` are committed.

        Whoever is the first to learn counts by `members`, by default all nodes.
        """
        committed = self.committed
        logs = self._logs_of(members or self._members)
        for index in range(first, last + 1):
            entry = log.entry_at(index)
            if index <= len(committed):
                if committed[index - 1].term != entry.term:
                    raise OracleViolationError(
                        "applied-agreement",
                        f"n{node + 1} commits {entry!r}, committed is {committed[index - 1]!r}",
                    )
                continue
            copies = sum(held.holds(index, entry.term) for held in logs)
            if copies <= len(logs) // 2:
                raise OracleViolationError(
                    "durable-quorum",
                    f"n{node + 1} commits entry {index} of term {entry.term} "
                    f"with {copies} durable copies",
                )
            committed.append(entry)
            self._commit_terms.append(term)

    def _logs_of(self, members: Members) -> list[StoredLog]:
        """Return the logs of the voters, those on lost disks included: they were answered for."""
        return [
            self._lost.get(members.known_of(voter).incarnation, self.durable[number_of(voter)])
            for voter in members.voters
        ]

    def on_wipe(self, node: int, incarnation: str) -> None:
        """`node` loses its disk."""
        self._lost[incarnation] = self.durable[node].copy()

    def on_apply(self, node: int, applied_index: int, entries: Sequence[Entry]) -> None:
        """`node`, having applied up to `applied_index`, applies `entries`."""
        applied = self._applied
        durable = self.durable[node]
        for index, entry in enumerate(entries, applied_index + 1):
            if not durable.holds(index, entry.term):
                raise OracleViolationError(
                    "durable-apply", f"n{node + 1} applies {entry!r}, not durable there"
                )
            if index > len(applied):
                applied.append(entry)
            known = applied[index - 1]
            if entry.index != index or (known is not entry and known != entry):
                raise OracleViolationError(
                    "applied-agreement",
                    f"n{node + 1} applies {entry!r} as entry {index}, others {known!r}",
                )

    def on_state(self, node: int, index: int, state: int) -> None:
        """The state machine of `node` has applied up to `index`, or rests on a snapshot of it."""
        states = self._states
        if index == len(states):
            states.append(state)
        if index > len(states) or states[index] != state:
            raise OracleViolationError(
                "state-equality", f"n{node + 1} has another state at index {index} than others"
            )

    def on_snapshot(self, node: int, checkpoint: Checkpoint, state: int) -> None:
        """`node` rests on a received snapshot."""
        self.on_state(node, checkpoint.index, state)
        entry = self._applied[checkpoint.index - 1]
        if entry.term != checkpoint.term:
            raise OracleViolationError(
                "state-equality",
                f"n{node + 1} takes a snapshot up to {checkpoint.index} of term "
                f"{checkpoint.term}, the entry there has term {entry.term}",
            )

    def on_acked(self, index: int, payload: bytes) -> None:
        """A client learned that its payload was applied at `index`."""
        entry = self._applied[index - 1] if index <= len(self._applied) else None
        if entry is None or entry.data != payload:
            raise OracleViolationError(
                "acked-entry", f"payload {payload[:12].hex()} acknowledged at {index}: {entry!r}"
            )
        self.acked_index = max(self.acked_index, index)

    def on_read(self, floor_index: int, seen_index: int) -> None:
        """A read that began when `floor_index` was acknowledged saw the state at `seen_index`."""
        if seen_index < floor_index:
            raise OracleViolationError(
                "stale-read", f"read saw index {seen_index}, {floor_index} was acknowledged before"
            )
        self.acked_index = max(self.acked_index, seen_index)
