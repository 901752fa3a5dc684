"""The hand-back journal on disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

from atleastonce.system.jobs.batch import Batch
from atleastonce.system.jobs.debts import Code, hand_back_operations
from atleastonce.system.jobs.journal import (
    HEADER_BYTES,
    JournalWriter,
    WorkerDebts,
    delete_journal,
    list_journals,
    plan_path,
    read_debts,
    state_path,
)

from .deliveries import LEASE, make_batch, make_delivery, make_message

PID = os.getpid()
POP = "0123456789abcdef" * 2


def begin(folder: Path, batch: Batch) -> JournalWriter:
    journal = JournalWriter(folder, PID)
    journal.begin(batch.plan("q", "g"), batch.codes)
    return journal


def record(journal: JournalWriter, batch: Batch) -> None:
    journal.write(batch.codes, batch.running, batch.since_ns)


def test_worker_without_a_journal_owes_nothing(tmp_path: Path) -> None:
    assert read_debts(tmp_path, 1) == WorkerDebts()


def test_fresh_journal_owes_nothing(tmp_path: Path) -> None:
    JournalWriter(tmp_path, PID)
    assert read_debts(tmp_path, PID) == WorkerDebts()


def test_pop_is_known_by_its_id_before_there_is_a_plan(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path, PID)
    journal.set_pop(POP)
    assert read_debts(tmp_path, PID).pop_id == POP
    assert read_debts(tmp_path, PID).popping
    journal.set_pop(None)
    assert read_debts(tmp_path, PID) == WorkerDebts()


def test_pop_ahead_is_known_beside_the_batch_in_hand(tmp_path: Path) -> None:
    batch = make_batch("a", "b")
    journal = begin(tmp_path, batch)
    journal.set_pop(POP)
    record(journal, batch)
    debts = read_debts(tmp_path, PID)
    assert (debts.pop_id, debts.prefetched) == (POP, 2)
    journal.withdraw()
    assert read_debts(tmp_path, PID) == WorkerDebts(POP)


def test_planned_batch_is_owed_unstarted(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path, PID)
    journal.set_pop(POP)
    batch = make_batch("a", "b")
    journal.begin(batch.plan("q", "g"), batch.codes)
    debts = read_debts(tmp_path, PID)
    assert not debts.popping
    assert debts.prefetched == 2
    (debt,) = debts.debts
    assert (debt.lease, debt.unstarted, debt.ran) == (LEASE, ("j0", "j1"), ())
    assert (debt.plan.lease_s, debt.plan.requested_ns) == (8.0, 1000)


def test_running_job_is_named_with_its_start_even_when_nothing_is_owed(tmp_path: Path) -> None:
    batch = make_batch("a")
    journal = begin(tmp_path, batch)
    batch.start(0, 77)
    record(journal, batch)
    debts = read_debts(tmp_path, PID)
    assert (debts.running, debts.running_since_ns, debts.debts) == ("j0", 77, ())


def test_running_job_with_a_tail_comes_first_and_counted(tmp_path: Path) -> None:
    batch = make_batch("a", "a")
    journal = begin(tmp_path, batch)
    batch.start(0, 1)
    record(journal, batch)
    (debt,) = read_debts(tmp_path, PID).debts
    assert (debt.ran, debt.unstarted) == (("j0",), ("j1",))
    body = hand_back_operations(debt)
    assert body is not None
    wire = msgspec.json.decode(msgspec.json.encode(body))
    assert wire["requiredLeases"] == [LEASE]
    kinds = [(op["type"], op.get("transactionId")) for op in wire["operations"]]
    assert kinds == [("ack", "j0"), ("push", None), ("ack", "j1"), ("push", None)]
    ran, unstarted = (op["items"][0] for op in wire["operations"] if op["type"] == "push")
    assert ran["payload"]["_job"]["attempts"] == 1
    assert "attempts" not in unstarted["payload"]["_job"]
    assert ran["partition"] == unstarted["partition"] == "a"
    assert unstarted["payload"]["_job"]["data"] == {"n": "j1"}
    ack = wire["operations"][0]
    assert (ack["leaseId"], ack["consumerGroup"], ack["status"]) == (LEASE, "g", "completed")


def test_copy_keeps_the_number_that_its_delivery_showed(tmp_path: Path) -> None:
    begin(tmp_path, make_batch("a", delivery_attempt=3))
    (debt,) = read_debts(tmp_path, PID).debts
    wire = msgspec.json.decode(msgspec.json.encode(hand_back_operations(debt)))
    assert wire["operations"][1]["items"][0]["payload"]["_job"]["attempts"] == 2


def test_message_that_is_not_a_job_is_copied_as_it_is(tmp_path: Path) -> None:
    message = make_message("x", data=b'["no job"]')
    begin(tmp_path, Batch(LEASE, 8.0, 1, (make_delivery(message),)))
    (debt,) = read_debts(tmp_path, PID).debts
    wire = msgspec.json.decode(msgspec.json.encode(hand_back_operations(debt)))
    assert wire["operations"][1]["items"][0]["payload"] == ["no job"]


def test_debt_that_owes_nothing_has_no_transaction(tmp_path: Path) -> None:
    batch = make_batch("a")
    begin(tmp_path, batch)
    (debt,) = read_debts(tmp_path, PID).debts
    settled = type(debt)(debt.plan, (Code.NOTHING,))
    assert hand_back_operations(settled) is None


def test_every_state_of_a_batch_has_the_same_length(tmp_path: Path) -> None:
    batch = make_batch("a", "a", "b")
    journal = begin(tmp_path, batch)
    sizes = {os.path.getsize(state_path(tmp_path, PID))}
    for index in range(3):
        batch.start(index, 10**18)
        record(journal, batch)
        batch.ack(index)
        record(journal, batch)
        sizes.add(os.path.getsize(state_path(tmp_path, PID)))
    assert len(sizes) == 1


def test_withdrawn_journal_owes_nothing(tmp_path: Path) -> None:
    journal = begin(tmp_path, make_batch("a", "b"))
    journal.withdraw()
    assert read_debts(tmp_path, PID) == WorkerDebts()


def test_next_batch_replaces_the_last_one(tmp_path: Path) -> None:
    journal = begin(tmp_path, make_batch("a", "a", "a"))
    other = Batch("lease-2", 8.0, 5, make_batch("b").deliveries)
    journal.begin(other.plan("q", "g"), other.codes)
    (debt,) = read_debts(tmp_path, PID).debts
    assert (debt.lease, debt.unstarted) == ("lease-2", ("j0",))


def test_new_plan_beside_the_old_state_is_refused(tmp_path: Path) -> None:
    begin(tmp_path, make_batch("a", "a"))
    other = Batch("lease-2", 8.0, 5, make_batch("b", "b").deliveries).plan("q", "g")
    Path(plan_path(tmp_path, PID)).write_bytes(msgspec.json.encode(other))
    debts = read_debts(tmp_path, PID)
    assert debts.debts == ()
    assert debts.refused == "state of another lease than its plan"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda state: state[:-1], "where its plan wants"),
        (lambda state: state + b"x", "where its plan wants"),
        (lambda state: state[:HEADER_BYTES] + state[HEADER_BYTES:].replace(b"u", b"z"), "unknown"),
        (lambda state: state[:7], "shorter than its header"),
        (lambda state: state[:32] + b"   9" + state[36:], "runs delivery 9 of 2"),
        (lambda state: state[:32] + b"  -1" + state[36:], "runs delivery -1 of 2"),
        (lambda state: state[:32] + b"abcd" + state[36:], "invalid literal"),
    ],
    ids=["short", "long", "code", "header", "index", "negative", "letters"],
)
def test_torn_or_damaged_state_is_refused(tmp_path: Path, damage: object, reason: str) -> None:
    assert callable(damage)
    begin(tmp_path, make_batch("a", "b"))
    path = Path(state_path(tmp_path, PID))
    path.write_bytes(damage(path.read_bytes()))
    debts = read_debts(tmp_path, PID)
    assert debts.debts == ()
    assert debts.refused is not None
    assert reason in debts.refused


@pytest.mark.parametrize("plan", [b"", b'{"v":1', b'{"v":2}', b"\xff\xfe", b'{"v":1,"lease":3}'])
def test_torn_or_foreign_plan_is_refused(tmp_path: Path, plan: bytes) -> None:
    begin(tmp_path, make_batch("a", "b"))
    Path(plan_path(tmp_path, PID)).write_bytes(plan)
    debts = read_debts(tmp_path, PID)
    assert debts.debts == ()
    assert debts.refused is not None


def test_state_without_a_plan_is_refused(tmp_path: Path) -> None:
    begin(tmp_path, make_batch("a", "b"))
    os.unlink(plan_path(tmp_path, PID))
    assert read_debts(tmp_path, PID).refused == "state without a plan"


def test_failed_write_deletes_both_files_and_ends_journaling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "journals"
    folder.mkdir()
    batch = make_batch("a", "b")
    journal = begin(folder, batch)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", _full_disk)
        journal.begin(batch.plan("q", "g"), batch.codes)
    assert journal.error is not None
    assert not os.path.exists(state_path(folder, PID))
    assert not os.path.exists(plan_path(folder, PID))
    record(journal, batch)
    journal.set_pop(POP)
    assert read_debts(folder, PID) == WorkerDebts()


def _full_disk(fd: int, data: bytes, offset: int) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_death_between_a_plan_and_its_first_state_owes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = begin(tmp_path, make_batch("a", "b"))
    other = make_batch("c", "d", "e")
    monkeypatch.setattr(journal, "write", lambda *_: None)
    journal.begin(other.plan("q", "g"), other.codes)
    assert read_debts(tmp_path, PID) == WorkerDebts()


def test_shorter_plan_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    journal = begin(tmp_path, make_batch(*["a"] * 9))
    shorter = make_batch("b")
    journal.begin(shorter.plan("q", "g"), shorter.codes)
    (debt,) = read_debts(tmp_path, PID).debts
    assert len(debt.plan.entries) == 1


def test_batch_too_large_for_its_state_ends_journaling(tmp_path: Path) -> None:
    batch = make_batch(*["a"] * 5000)
    assert begin(tmp_path, batch).error is not None
    assert read_debts(tmp_path, PID) == WorkerDebts()


def test_folder_that_is_missing_is_an_error_that_is_kept(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path / "missing", PID)
    assert isinstance(journal.error, OSError)
    journal.begin(make_batch("a").plan("q", "g"), [Code.UNSTARTED])


def test_forked_child_writes_nothing(tmp_path: Path) -> None:
    batch = make_batch("a", "b")
    journal = begin(tmp_path, batch)
    pid = os.fork()
    if pid == 0:
        journal.set_pop(POP)
        journal.withdraw()
        journal.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert read_debts(tmp_path, PID).prefetched == 2
    assert not read_debts(tmp_path, PID).popping


def test_closed_journal_that_owes_nothing_leaves_no_file(tmp_path: Path) -> None:
    journal = begin(tmp_path, make_batch("a", "b"))
    journal.withdraw()
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_closed_journal_keeps_what_is_owed_again_and_a_pop_of_unknown_fate(tmp_path: Path) -> None:
    batch = make_batch("a", "b")
    journal = begin(tmp_path, batch)
    journal.set_pop(POP)
    journal.withdraw()
    assert read_debts(tmp_path, PID) == WorkerDebts(POP)
    journal.begin(batch.plan("q", "g"), batch.codes, POP)
    journal.close()
    debts = read_debts(tmp_path, PID)
    assert (debts.pop_id, debts.prefetched) == (POP, 2)


def test_journals_are_listed_and_deleted_by_name(tmp_path: Path) -> None:
    begin(tmp_path, make_batch("a", "b"))
    assert list_journals(tmp_path) == [str(PID)]
    delete_journal(tmp_path, PID)
    assert list(tmp_path.iterdir()) == []
    delete_journal(tmp_path, PID)
