"""Commands gathered into entries, and matched with what is applied."""

from __future__ import annotations

from collections.abc import Callable

import trio

from atleastonce.system.broker.commands import Extend, Push, PushItem, decode_batch
from atleastonce.system.broker.planner import Planner
from atleastonce.system.broker.replies import ExtendReply, PushReply, Reply
from atleastonce.system.bugs import NO_BUGS, Bugs
from atleastonce.system.node.clock import NodeClock
from atleastonce.system.node.counters import Counters
from atleastonce.system.node.proposals import (
    COMMANDS_PER_ENTRY_MAX,
    ENTRIES_IN_FLIGHT_MAX,
    Proposals,
    Waiter,
)
from atleastonce.system.raft.events import Appended, Propose, Refused
from atleastonce.system.raft.messages import Entry, EntryKind

REPLY = ExtendReply("lease", 1, 7)


class Leader:
    """A pretended core that appends every proposal, and a disk that is busy on demand."""

    def __init__(self, bugs: Bugs = NO_BUGS) -> None:
        self.disk_is_busy = False
        self.term = 3
        self.refuses = False
        self.entries: list[Entry] = []
        self.proposals = Proposals(
            self._step,
            lambda: self.disk_is_busy,
            lambda: len(self.entries),
            NodeClock(1_000_000),
            Counters(),
            bugs,
        )
        self.proposals.lead(Planner(bytes, 0))

    def _step(self, event: Propose) -> None:
        if self.refuses:
            self.proposals.refused(Refused(event.proposal, None))
            return
        index = len(self.entries) + 1
        self.entries.append(Entry(self.term, index, EntryKind.COMMAND, event.payloads[0]))
        self.proposals.appended(Appended(event.proposal, self.term, index))

    def sizes(self) -> list[int]:
        return [len(decode_batch(entry.data).commands) for entry in self.entries]

    def apply(self, index: int, term: int | None = None) -> None:
        entry = self.entries[index - 1]
        replies: list[Reply] = [REPLY for _ in decode_batch(entry.data).commands]
        applied = Entry(term or entry.term, index, EntryKind.COMMAND, entry.data)
        self.proposals.applied(applied, replies)

    def submit(self) -> Waiter:
        return self.proposals.submit(Extend("", "lease", 1), 10)


def in_trio(check: Callable[[], None]) -> None:
    """Run a synchronous check inside trio, where its clock can be read."""

    async def main() -> None:
        check()
        await trio.lowlevel.checkpoint()

    trio.run(main)


def test_a_command_with_nothing_on_its_way_is_proposed_at_once() -> None:
    def check() -> None:
        leader = Leader()
        waiter = leader.submit()
        assert leader.sizes() == [1]
        leader.apply(1)
        assert waiter.reply is REPLY

    in_trio(check)


def test_what_arrives_while_the_disk_is_busy_shares_an_entry() -> None:
    def check() -> None:
        leader = Leader()
        leader.submit()
        leader.disk_is_busy = True
        waiters = [leader.submit() for _ in range(5)]
        assert leader.sizes() == [1]
        leader.disk_is_busy = False
        leader.proposals.flush()
        assert leader.sizes() == [1, 5]
        leader.apply(2)
        assert [waiter.reply for waiter in waiters] == [REPLY] * 5

    in_trio(check)


def test_only_so_many_entries_are_on_their_way() -> None:
    def check() -> None:
        leader = Leader()
        for _ in range(ENTRIES_IN_FLIGHT_MAX + 3):
            leader.submit()
        assert leader.sizes() == [1] * ENTRIES_IN_FLIGHT_MAX
        leader.apply(1)
        leader.proposals.flush()
        assert leader.sizes() == [1] * ENTRIES_IN_FLIGHT_MAX + [3]

    in_trio(check)


def test_an_entry_holds_a_limited_number_of_commands_and_bytes() -> None:
    def check() -> None:
        leader = Leader()
        leader.proposals.is_held = True
        for _ in range(COMMANDS_PER_ENTRY_MAX + 1):
            leader.submit()
        for _ in range(3):
            leader.proposals.submit(Extend("", "lease", 1), 3 << 20)
        leader.proposals.is_held = False
        leader.proposals.flush()
        assert leader.sizes() == [COMMANDS_PER_ENTRY_MAX, 2, 1, 1]

    in_trio(check)


def test_what_has_gathered_is_counted_until_it_is_proposed() -> None:
    def check() -> None:
        leader = Leader()
        leader.proposals.is_held = True
        leader.proposals.submit(Extend("", "lease", 1), 1000)
        leader.submit()
        assert leader.proposals.gathered == (2, 1010)
        leader.proposals.is_held = False
        leader.proposals.flush()
        assert leader.proposals.gathered == (0, 0)

    in_trio(check)


def test_another_terms_entry_at_the_same_index_answers_nobody() -> None:
    def check() -> None:
        leader = Leader()
        waiter = leader.submit()
        leader.apply(1, term=4)
        assert waiter.is_settled
        assert waiter.reply is None
        assert waiter.was_appended

    in_trio(check)


def test_a_lost_leadership_settles_all_and_says_what_was_in_the_log() -> None:
    def check() -> None:
        leader = Leader()
        appended = leader.submit()
        leader.disk_is_busy = True
        gathered = leader.submit()
        leader.proposals.step_down()
        assert appended.is_settled
        assert gathered.is_settled
        assert (appended.was_appended, gathered.was_appended) == (True, False)
        late = leader.submit()
        assert late.is_settled
        assert leader.proposals.in_flight == 0

    in_trio(check)


def test_a_refused_proposal_was_certainly_not_appended() -> None:
    def check() -> None:
        leader = Leader()
        leader.refuses = True
        waiter = leader.submit()
        assert waiter.is_settled
        assert not waiter.was_appended

    in_trio(check)


def test_a_late_reply_goes_to_who_cleans_up() -> None:
    def check() -> None:
        leader = Leader()
        waiter = leader.submit()
        late: list[Reply] = []
        waiter.abandon(late.append)
        leader.apply(1)
        assert late == [REPLY]

    in_trio(check)


def test_the_planted_defect_takes_the_next_slot_for_granted() -> None:
    def check() -> None:
        leader = Leader(frozenset({"answer-by-log-index"}))
        leader.refuses = True
        command = Push("r", (PushItem("q", "p", "t", b"1"),))
        waiter = leader.proposals.submit(command, 10)
        leader.proposals.applied(Entry(4, 1, EntryKind.NOOP, b""), [])
        assert isinstance(waiter.reply, PushReply)

    in_trio(check)


def test_the_planted_defect_answers_for_another_leaders_entry() -> None:
    def check() -> None:
        leader = Leader(frozenset({"answer-by-log-index"}))
        command = Push("r", (PushItem("q", "p", "t", b"1"), PushItem("q", "p", "u", b"2")))
        waiter = leader.proposals.submit(command, 10)
        leader.proposals.step_down()
        assert not waiter.is_settled
        leader.apply(1, term=4)
        reply = waiter.reply
        assert isinstance(reply, PushReply)
        assert [item.status for item in reply.items] == ["queued", "queued"]
        assert [item.transaction_id for item in reply.items] == ["t", "u"]

    in_trio(check)
