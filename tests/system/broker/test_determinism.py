"""Replicas that applied the same log agree, whatever they were asked and however they hash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from atleastonce.system.broker.administrative import (
    AddTrace,
    DeleteGroup,
    PurgeDeadLetters,
    SeekGroup,
)
from atleastonce.system.broker.commands import Batch as CommandBatch
from atleastonce.system.broker.commands import Push, PushItem, RegisterQuery, encode_batch
from atleastonce.system.broker.kv_operations import AcquireLock, Kv, KvDelete, KvPut, Locks
from atleastonce.system.broker.machine import Machine

from .broker_driver import Driver
from .random_log import LogWriter

SCRIPT = Path(__file__).with_name("random_log.py")


@pytest.mark.parametrize("seed", range(12))
def test_a_follower_that_was_never_asked_agrees_with_the_leader(seed: int) -> None:
    writer = LogWriter(seed)
    writer.grow(300)
    follower = Machine()
    for index, data in enumerate(writer.entries, start=1):
        follower.apply(index, data)
    assert follower.digest() == writer.machine.digest()


def test_digests_do_not_depend_on_the_hash_seed() -> None:
    runs = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), "7", "400"],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in (0, 1, 4242)
    ]
    outputs = [run.communicate(timeout=60)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert len(outputs[0].split()) == 9
    assert outputs[0] == outputs[1] == outputs[2]


def test_the_digest_sees_every_kind_of_state() -> None:
    driver = Driver()
    digests = [driver.machine.digest()]

    def changed() -> bool:
        digests.append(driver.machine.digest())
        return digests[-1] not in digests[:-1]

    driver.push("a", "b", "c")
    assert changed()
    reply = driver.pop()
    assert changed()
    driver.extend(reply.lease_id, 600)
    assert changed()
    driver.ack(("a", "dlq"), lease=reply.lease_id)
    assert changed()
    driver.configure(priority=3)
    assert changed()
    for command in (
        Kv("", (KvPut("ns", "k", b"1", 60),)),
        Kv("", (KvPut("ns", "k", b"2", 60),)),
        Kv("", (KvDelete("ns", "k"),)),
        Locks("", (AcquireLock("l", 60, "a"),)),
        AddTrace("", "1", "a", "g", (), "info", b"1"),
        SeekGroup("", "h", "q"),
        DeleteGroup("", "h"),
        PurgeDeadLetters("", "q"),
        RegisterQuery("", "query", "h"),
    ):
        driver.apply(command)
        assert changed(), command


def test_a_batch_that_is_undone_leaves_the_digest_as_a_batch_of_nothing(driver: Driver) -> None:
    other = Driver()
    for each in (driver, other):
        each.apply(Kv("", (KvPut("ns", "k", b"1", 60),)))
    lost = KvPut("ns", "k", b"3", 60, 99, required=True)
    driver.apply(Kv("", (KvPut("ns", "new", b"2", 60), lost)))
    other.apply(Kv("", ()))
    assert driver.machine.digest() == other.machine.digest()


def test_a_stamp_that_does_not_advance_is_a_broken_invariant(driver: Driver) -> None:
    driver.push("a")
    stale = encode_batch(
        CommandBatch(
            driver.machine.now_us, b"12345678", (Push("", (PushItem("q", "p", "b", b"1"),)),)
        )
    )
    with pytest.raises(AssertionError, match="stamp"):
        driver.machine.apply(99, stale)


def test_an_entry_is_applied_once(driver: Driver) -> None:
    driver.push("a")
    with pytest.raises(AssertionError, match="index"):
        driver.machine.apply(*driver.entries[-1])


def test_bytes_that_are_no_batch_are_refused_and_change_nothing(driver: Driver) -> None:
    driver.push("a")
    before = driver.machine.digest()
    with pytest.raises(ValueError, match=r"Expected `int`, got `str`"):
        driver.machine.apply(99, b"\x93\xa1x\xa1y\x90")
    assert driver.machine.digest() == before
