"""The key/value table: conditions, lifetimes by stamp, atomic batches, and locks over it."""

from __future__ import annotations

import pytest

from atleastonce.system.broker.commands import PushItem as Item
from atleastonce.system.broker.commands import Transaction, TransactionPush
from atleastonce.system.broker.kv_operations import (
    AcquireLock,
    GetLock,
    Kv,
    KvCheck,
    KvDelete,
    KvGet,
    KvGetMany,
    KvGetPrefix,
    KvIncr,
    KvOperation,
    KvPut,
    LockOperation,
    Locks,
    ReleaseLock,
    RenewLock,
)
from atleastonce.system.broker.kv_replies import (
    KvFound,
    KvListed,
    KvReply,
    KvWritten,
    LockResult,
    LocksReply,
)
from atleastonce.system.broker.queries import KvRead
from atleastonce.system.broker.replies import TransactionReply

from .broker_driver import SECOND_US, Driver


def batch(driver: Driver, *operations: KvOperation, request_id: str | None = None) -> KvReply:
    name = driver.request_id() if request_id is None else request_id
    return driver.ask(Kv(name, operations), KvReply)


def write(driver: Driver, operation: KvOperation) -> KvWritten:
    (result,) = batch(driver, operation).results
    assert isinstance(result, KvWritten)
    return result


def put(
    driver: Driver, key: str, value: bytes = b"1", expect: int | None = None, ttl_s: int | None = 60
) -> KvWritten:
    return write(driver, KvPut("ns", key, value, ttl_s, expect))


def value_of(driver: Driver, key: str) -> bytes | None:
    reply = driver.machine.read(KvRead((KvGet("ns", key),)), driver.clock_us)
    assert isinstance(reply, KvReply)
    (found,) = reply.results
    assert isinstance(found, KvFound)
    return None if found.row is None else found.row.value


def lock(driver: Driver, operation: LockOperation) -> LockResult:
    (result,) = driver.ask(Locks(driver.request_id(), (operation,)), LocksReply).results
    return result


def test_versions_rise_over_all_keys(driver: Driver) -> None:
    assert [put(driver, key).version for key in "aba"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("expect", "reason"), [(None, ""), (0, "exists"), (1, ""), (2, "version"), (99, "version")]
)
def test_a_write_over_a_row_holds_only_at_its_version(
    driver: Driver, expect: int | None, reason: str
) -> None:
    put(driver, "k", b"1")
    written = put(driver, "k", b"2", expect)
    assert (written.applied, written.reason) == (not reason, reason)
    assert value_of(driver, "k") == (b"1" if reason else b"2")
    assert (written.version, written.value) == ((1, b"1") if reason else (2, b"2"))


def test_an_expectation_on_an_absent_key_creates_nothing(driver: Driver) -> None:
    written = put(driver, "k", expect=5)
    assert (written.applied, written.reason, written.version) == (False, "absent", 0)
    assert value_of(driver, "k") is None
    assert put(driver, "k", expect=0).applied


def test_a_row_is_gone_at_the_stamp_at_which_its_lifetime_ends(driver: Driver) -> None:
    put(driver, "k", ttl_s=1)
    written_us = driver.machine.now_us
    driver.clock_us = written_us + SECOND_US - 1
    assert value_of(driver, "k") == b"1"
    driver.clock_us += 1
    assert value_of(driver, "k") is None
    assert put(driver, "k", expect=0).applied


def test_rows_without_a_lifetime_stay_and_others_are_swept(driver: Driver) -> None:
    put(driver, "stays", ttl_s=None)
    put(driver, "goes", ttl_s=1)
    put(driver, "renewed", ttl_s=1)
    put(driver, "renewed", ttl_s=100)
    driver.advance(50)
    driver.push("a")
    page = batch(driver, KvGetPrefix("ns", "", "", 10)).results[0]
    assert isinstance(page, KvListed)
    assert [row.key for row in page.rows] == ["renewed", "stays"]


def test_incr_adds_inside_its_bounds_and_refuses_whole(driver: Driver) -> None:
    steps = [write(driver, KvIncr("ns", "n", 2, 60, high=5)) for _ in range(3)]
    assert [(step.applied, step.value) for step in steps] == [
        (True, b"2"),
        (True, b"4"),
        (False, b"4"),
    ]
    assert steps[2].reason == "limit"
    assert write(driver, KvIncr("ns", "n", -9, 60, low=0)).reason == "limit"


def test_incr_guards_its_first_write_too(driver: Driver) -> None:
    refused = write(driver, KvIncr("ns", "n", 10, 60, high=5))
    assert (refused.reason, refused.value, value_of(driver, "n")) == ("limit", None, None)


def test_incr_keeps_the_lifetime_of_a_live_row(driver: Driver) -> None:
    first = write(driver, KvIncr("ns", "n", 1, 2))
    driver.advance(1)
    second = write(driver, KvIncr("ns", "n", 1, 3600))
    assert second.expires_us == first.expires_us


def test_incr_refuses_what_is_no_number_and_what_leaves_64_bits(driver: Driver) -> None:
    for value in (b'{"n":1}', b"true", b"null", b'"1"'):
        put(driver, "k", value)
        assert write(driver, KvIncr("ns", "k", 1, 60)).reason == "type"
    put(driver, "k", str((1 << 63) - 1).encode())
    assert write(driver, KvIncr("ns", "k", 1, 60)).reason == "limit"
    put(driver, "k", b"1.5")
    assert write(driver, KvIncr("ns", "k", 1, 60)).value == b"2.5"


def test_delete_and_check_judge_the_row_as_it_is(driver: Driver) -> None:
    put(driver, "k")
    assert write(driver, KvCheck("ns", "k", 1)).applied
    assert write(driver, KvCheck("ns", "k", 2)).reason == "version"
    assert write(driver, KvCheck("ns", "k", 0)).reason == "exists"
    assert write(driver, KvCheck("ns", "x", 0)).applied
    assert write(driver, KvDelete("ns", "k", 7)).reason == "version"
    assert write(driver, KvDelete("ns", "k")).applied
    assert write(driver, KvDelete("ns", "k")).reason == "absent"


def test_a_batch_sees_its_own_writes_in_order(driver: Driver) -> None:
    reply = batch(
        driver,
        KvPut("ns", "a", b"1", 60),
        KvIncr("ns", "a", 4, 60),
        KvGetMany("ns", ("a", "b")),
        KvDelete("ns", "a"),
        KvGet("ns", "a"),
    )
    many, last = reply.results[2], reply.results[4]
    assert isinstance(many, KvListed)
    assert isinstance(last, KvFound)
    assert ([row.value for row in many.rows], many.missing, last.row) == ([b"5"], ("b",), None)


def test_a_lost_required_operation_undoes_the_whole_batch(driver: Driver) -> None:
    put(driver, "kept", b"1")
    put(driver, "deleted", b"2")
    before = driver.machine.read(KvRead((KvGetPrefix("ns", ""),)), driver.clock_us)
    reply = batch(
        driver,
        KvPut("ns", "new", b"1", 60),
        KvPut("ns", "kept", b"9", 5),
        KvDelete("ns", "deleted"),
        KvCheck("ns", "kept", 99),
        KvPut("ns", "kept", b"8", 60, 77, required=True),
    )
    assert reply.results == ()
    assert reply.lost is not None
    assert (reply.lost.failed_index, reply.lost.reason) == (4, "version")
    assert driver.machine.read(KvRead((KvGetPrefix("ns", ""),)), driver.clock_us) == before
    assert put(driver, "next").version == 3


def test_prefixes_are_literal_and_pages_go_on_behind_a_key(driver: Driver) -> None:
    for key in ("walk:1", "walk:2", "walk:3", "walk%:x", "other"):
        put(driver, key)
    first = batch(driver, KvGetPrefix("ns", "walk:", "", 2)).results[0]
    assert isinstance(first, KvListed)
    assert ([row.key for row in first.rows], first.truncated) == (["walk:1", "walk:2"], True)
    second = batch(driver, KvGetPrefix("ns", "walk:", "walk:2", 2)).results[0]
    assert isinstance(second, KvListed)
    assert ([row.key for row in second.rows], second.truncated) == (["walk:3"], False)


def test_a_repeated_batch_gets_its_first_answer(driver: Driver) -> None:
    first = batch(driver, KvIncr("ns", "n", 1, 60), request_id="same")
    assert batch(driver, KvIncr("ns", "n", 1, 60), request_id="same") == first
    assert value_of(driver, "n") == b"1"


def test_a_transaction_whose_gate_is_lost_leaves_nothing(driver: Driver) -> None:
    put(driver, "gate")
    command = Transaction(
        driver.request_id(),
        (TransactionPush(Item("q", "p", "a", b"1")),),
        kv=(
            KvPut("ns", "side", b"1", 60),
            KvPut("ns", "gate", b"2", 60, 0, required=True, op="putIfAbsent"),
        ),
    )
    reply = driver.ask(command, TransactionReply)
    assert (reply.reason, reply.results) == ("kv_precondition", ())
    assert reply.lost is not None
    assert (reply.lost.failed_index, reply.lost.reason) == (2, "exists")
    assert value_of(driver, "side") is None
    assert driver.pop().is_empty


def test_a_transaction_that_is_refused_for_its_acks_writes_no_row(driver: Driver) -> None:
    command = Transaction(
        driver.request_id(), (), ("no-such-lease",), kv=(KvPut("ns", "k", b"1", 60),)
    )
    assert driver.ask(command, TransactionReply).reason == "rejected_ack"
    assert value_of(driver, "k") is None


def test_a_lock_has_one_holder_until_it_is_released(driver: Driver) -> None:
    first = lock(driver, AcquireLock("l", 30, "a"))
    other = lock(driver, AcquireLock("l", 30, "b"))
    assert first.permit is not None
    assert (first.ok, other.ok, other.reason) == (True, False, "held")
    assert other.holders == (first.permit,)
    assert lock(driver, ReleaseLock("l", first.permit.token)).ok
    taken = lock(driver, AcquireLock("l", 30, "b")).permit
    assert taken is not None
    assert taken.token > first.permit.token


def test_an_owner_that_asks_again_gets_the_same_permit(driver: Driver) -> None:
    first = lock(driver, AcquireLock("l", 30, "a"))
    again = lock(driver, AcquireLock("l", 30, "a"))
    assert (again.permit, again.already) == (first.permit, True)


def test_a_renewal_has_a_new_token_and_an_owner_may_use_a_stale_one(driver: Driver) -> None:
    first = lock(driver, AcquireLock("l", 30, "a")).permit
    assert first is not None
    driver.advance(20)
    renewed = lock(driver, RenewLock("l", first.token, 30, owner="a")).permit
    resent = lock(driver, RenewLock("l", first.token, 30, owner="a")).permit
    stranger = lock(driver, RenewLock("l", first.token, 30, owner="b"))
    assert renewed is not None
    assert resent is not None
    assert first.token < renewed.token < resent.token
    assert (resent.since_us, stranger.reason) == (first.since_us, "lost")
    assert lock(driver, ReleaseLock("l", first.token)).reason == "lost"


def test_an_expired_permit_goes_to_the_next_one_who_asks(driver: Driver) -> None:
    lock(driver, AcquireLock("l", 1, "a"))
    driver.advance(1)
    assert not lock(driver, GetLock("l")).ok
    assert lock(driver, AcquireLock("l", 30, "b")).ok


def test_a_semaphore_has_its_permits_and_no_more(driver: Driver) -> None:
    permits = [lock(driver, AcquireLock("s", 30, name, 3)).permit for name in "abcd"]
    assert [permit and permit.slot for permit in permits] == [0, 1, 2, None]
    assert permits[1] is not None
    lock(driver, ReleaseLock("s", permits[1].token, 1))
    late = lock(driver, AcquireLock("s", 30, "d", 3)).permit
    assert late is not None
    assert late.slot == 1


def test_a_permit_written_by_hand_is_taken_by_nobody_in_particular(driver: Driver) -> None:
    batch(driver, KvPut("queen-locks", "l#0", b"[1]", 60))
    batch(driver, KvPut("queen-locks", "l#x", b"{}", 60))
    held = lock(driver, GetLock("l"))
    assert [(holder.slot, holder.owner) for holder in held.holders] == [(0, "")]


@pytest.mark.parametrize("value", [b"1e400", b"9" * 5000, b"[" * 900 + b"]" * 900, b'{"a":1e999}'])
def test_json_that_no_number_can_hold_is_no_counter_and_no_permit(
    driver: Driver, value: bytes
) -> None:
    put(driver, "k", value)
    assert write(driver, KvIncr("ns", "k", 1, 60)).reason == "type"
    batch(driver, KvPut("queen-locks", "l#0", b'{"owner":"a","x":' + value + b"}", 60))
    assert [holder.slot for holder in lock(driver, GetLock("l")).holders] == [0]
