"""The follower's side of replication (Raft §5.3)."""

from __future__ import annotations

from .coherence import is_coherent
from .messages import AppendEntries, AppendReply
from .state import RaftState


def on_append(state: RaftState, sender: str, message: AppendEntries) -> None:
    """Take an append: refuse it, or make the log match the leader's and follow its commits."""
    if not is_coherent(message):
        return
    if message.term < state.term:
        # The leader of an old term learns of the current one and steps down. Rounds are counted
        # anew in each term: to a server that leads again, an old one would say too much.
        state.reply(sender, AppendReply(state.term, False, message.prev_index, 0))
        return
    state.hear_leader(sender, message.term)
    log = state.log
    held_term = log.term_at(message.prev_index)
    is_compacted = held_term is None and message.prev_index < log.start_index
    if held_term != message.prev_term and not is_compacted:
        _refuse(state, sender, message, held_term)
        return
    last_index = message.prev_index + len(message.entries)
    _take_entries(state, message)
    commit_index = min(message.commit_index, last_index)
    if commit_index > state.commit_index:
        state.commit(commit_index)
    _accept(state, sender, message, last_index)


def _refuse(state: RaftState, sender: str, message: AppendEntries, held_term: int | None) -> None:
    """Name the conflicting term and where it begins, so that the leader skips it whole."""
    log = state.log
    if held_term is None:
        conflict_term, conflict_index = 0, log.last_index + 1
    else:
        assert message.prev_index > state.commit_index, (
            f"log-matching: {state.node_id} committed {message.prev_index} in term {held_term}, "
            f"leader {sender} has term {message.prev_term} there"
        )
        conflict_term, conflict_index = held_term, log.first_index_of(held_term)
    state.reply(
        sender,
        AppendReply(
            state.term, False, message.prev_index, message.round, conflict_term, conflict_index
        ),
    )


def _take_entries(state: RaftState, message: AppendEntries) -> None:
    """Append what the log lacks, after dropping what conflicts."""
    log = state.log
    entries = message.entries
    if "always-truncate" in state.bugs and entries and message.prev_index < log.last_index:
        state.truncate_from(message.prev_index + 1)
    position = 0
    if message.prev_index < log.last_index:
        for entry in entries:
            if entry.index > log.last_index:
                break
            held_term = log.term_at(entry.index)
            if held_term is not None and held_term != entry.term:
                state.truncate_from(entry.index)
                break
            position += 1
    if position < len(entries):
        state.append(entries[position:])


def _accept(state: RaftState, sender: str, message: AppendEntries, last_index: int) -> None:
    """Answer that the log matches, claiming only what is durable when the answer leaves.

    A heartbeat is answered at once, whatever the disk is doing: it proves that this server
    follows. An append waits until its entries are durable.
    """
    durability = state.durability
    after = durability.hard_state_sequence
    match_index = last_index
    if last_index > durability.durable_index:
        if message.entries:
            after = state.write_sequence
        else:
            match_index = durability.durable_index
    state.send(sender, AppendReply(state.term, True, match_index, message.round), after)
