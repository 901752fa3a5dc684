"""One way for each rule of the workload `log` to be broken, in keys of its own."""

from __future__ import annotations

from collections.abc import Callable

from atleastonce.histories.log_ops import (
    SEND,
    SEND_AGAIN,
    ReadEntry,
    ReadRecord,
    Send,
    Sent,
    SentRecord,
)

from .log_histories import entry, finally_read, polled, sent
from .op_histories import OpHistory


def break_lost_write(history: OpHistory) -> None:
    sent(history, 10, (90, 0), offsets=(0,))
    sent(history, 11, (90, 1), offsets=(1,))
    # The records of the first offset were let go before anybody read them.
    polled(history, 12, entry(90, 1, 2, (1, 1)))
    for node in ("n1", "n2", "n3"):
        polled(history, 105, entry(90, 1, 2, (1, 1)), node=node, final=True)


def break_unseen(history: OpHistory) -> None:
    sent(history, 10, (90, 0), offsets=(0,))


def break_unseen_at_one_node(history: OpHistory) -> None:
    sent(history, 10, (90, 0), offsets=(0,))
    for node in ("n1", "n2"):
        polled(history, 105, entry(90, 0, 1, (0, 0)), node=node, final=True)


def break_duplicate(history: OpHistory) -> None:
    sent(history, 10, (90, 0), offsets=(0,))
    finally_read(history, 90, 0, 0)


def break_duplicate_by_a_repeat(history: OpHistory) -> None:
    sent(history, 10, (90, 0), offsets=(0,))
    asked = Send(records=(SentRecord(90, 0),))
    history.op(SEND_AGAIN, 12, 13, asked, Sent(offsets=(1,)), "ok", "n2")
    finally_read(history, 90, 0)


def break_inconsistent_offsets(history: OpHistory) -> None:
    sent(history, 10, (90, 0), type_="info")
    sent(history, 11, (90, 1), type_="info")
    polled(history, 12, entry(90, 0, 1, (0, 0)), node="n1")
    polled(history, 13, entry(90, 0, 1, (0, 1)), node="n2")


def break_g1a(history: OpHistory) -> None:
    sent(history, 10, (90, 0), type_="fail")
    finally_read(history, 90, 0)


def break_g1a_with_what_nobody_sent(history: OpHistory) -> None:
    finally_read(history, 90, 0)


def break_g0(history: OpHistory) -> None:
    sent(history, 10, (90, 0), (91, 0))
    sent(history, 11, (90, 1), (91, 1))
    finally_read(history, 90, 0, 1)
    finally_read(history, 91, 1, 0)


def break_nonmonotonic_send(history: OpHistory) -> None:
    sent(history, 10, (90, 0), offsets=(1,), process="p")
    sent(history, 11, (90, 1), offsets=(0,), process="p")
    finally_read(history, 90, 1, 0)


def break_nonmonotonic_within_a_transaction(history: OpHistory) -> None:
    sent(history, 10, (90, 0), (90, 1))
    finally_read(history, 90, 1, 0)


def break_send_skip_within_a_transaction(history: OpHistory) -> None:
    sent(history, 10, (90, 0), (90, 1))
    sent(history, 11, (90, 2), offsets=(1,))
    finally_read(history, 90, 0, 2, 1)


def break_poll_skip(history: OpHistory) -> None:
    for value in range(3):
        sent(history, 10 + value, (90, value), offsets=(value,))
    polled(history, 20, entry(90, 0, 3, (0, 0)), process="p")
    polled(history, 21, entry(90, 2, 3, (2, 2)), process="p")
    finally_read(history, 90, 0, 1, 2)


def break_nonmonotonic_poll(history: OpHistory) -> None:
    for value in range(2):
        sent(history, 10 + value, (90, value), offsets=(value,))
    polled(history, 20, entry(90, 0, 2, (0, 0), (1, 1)), process="p")
    polled(history, 21, entry(90, 1, 2, (1, 1)), process="p")
    finally_read(history, 90, 0, 1)


def break_nonmonotonic_high_watermark(history: OpHistory) -> None:
    for value in range(2):
        sent(history, 10 + value, (90, value), offsets=(value,))
    polled(history, 20, entry(90, 0, 2, (0, 0)), process="p")
    polled(history, 21, entry(90, 1, 1), process="p")
    finally_read(history, 90, 0, 1)


def break_offset_gap(history: OpHistory) -> None:
    sent(history, 10, (90, 1), offsets=(1,))
    for node in ("n1", "n2", "n3"):
        polled(history, 105, entry(90, 0, 2, (1, 1)), node=node, final=True)


def break_poll_skip_within_a_poll(history: OpHistory) -> None:
    for value in range(3):
        sent(history, 10 + value, (90, value), offsets=(value,))
    polled(history, 20, entry(90, 0, 3, (0, 0), (2, 2)))
    finally_read(history, 90, 0, 1, 2)


def break_nonmonotonic_within_a_poll(history: OpHistory) -> None:
    for value in range(2):
        sent(history, 10 + value, (90, value), offsets=(value,))
    polled(history, 20, entry(90, 0, 2, (1, 1), (0, 0)))
    finally_read(history, 90, 0, 1)


def break_record_mismatch(history: OpHistory) -> None:
    row = ReadRecord(0, "k90-7", 90, 0)
    sent(history, 10, (90, 0), type_="info")
    polled(history, 20, ReadEntry(key=90, start=0, hwm=1, records=(row,)))
    finally_read(history, 90, 0)


def break_empty_below_hwm(history: OpHistory) -> None:
    sent(history, 10, (90, 0), offsets=(0,))
    polled(history, 20, entry(90, 0, 1))
    finally_read(history, 90, 0)


def break_torn(history: OpHistory) -> None:
    sent(history, 10, (90, 0), (91, 0), type_="info")
    finally_read(history, 90, 0)


def break_torn_at_one_moment(history: OpHistory) -> None:
    sent(history, 10, (90, 0), (91, 0))
    polled(history, 20, entry(90, 0, 1, (0, 0)), entry(91, 0, 0))
    finally_read(history, 90, 0)
    finally_read(history, 91, 0)


def break_stalled(history: OpHistory) -> None:
    for value, at_s in enumerate((40, 45, 50)):
        asked = Send(records=(SentRecord(90, value),), txn=False)
        history.op(SEND, at_s, at_s + 4.9, asked, None, "info", "n2")


BREAKS: dict[Callable[[OpHistory], None], set[str]] = {
    break_lost_write: {"lost-write"},
    break_unseen: {"unseen"},
    break_unseen_at_one_node: {"unseen"},
    break_duplicate: {"duplicate"},
    break_duplicate_by_a_repeat: {"duplicate"},
    break_inconsistent_offsets: {"inconsistent-offsets"},
    break_g1a: {"G1a"},
    break_g1a_with_what_nobody_sent: {"G1a"},
    break_g0: {"G0"},
    break_nonmonotonic_send: {"nonmonotonic-send"},
    break_nonmonotonic_within_a_transaction: {"int-nonmonotonic-send"},
    break_send_skip_within_a_transaction: {"int-send-skip", "G0"},
    break_poll_skip: {"poll-skip"},
    break_nonmonotonic_poll: {"nonmonotonic-poll"},
    break_nonmonotonic_high_watermark: {"nonmonotonic-poll"},
    break_offset_gap: {"offset-gap"},
    break_poll_skip_within_a_poll: {"int-poll-skip", "offset-gap"},
    break_nonmonotonic_within_a_poll: {"int-nonmonotonic-poll", "offset-gap"},
    break_record_mismatch: {"record-mismatch"},
    break_empty_below_hwm: {"empty-below-hwm"},
    break_torn: {"torn"},
    break_torn_at_one_moment: {"torn"},
    break_stalled: {"stalled"},
}
"""What each of them breaks; the first rule's name is in that of the function."""
