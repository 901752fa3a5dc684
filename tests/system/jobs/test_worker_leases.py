"""What a worker tells the master that renews its leases."""

from __future__ import annotations

import os
import signal
import time

import pytest

from atleastonce.system.jobs.leasewire import Forget, Hold, Shutdown

from .machine_broker import Fault, MachineBroker
from .worker_process import LEASE_S, Bench


@pytest.fixture
def mastered(bench: Bench) -> Bench:
    bench.listen()
    return bench


def test_lease_is_held_from_its_pop_and_forgotten_before_its_last_ack(
    mastered: Bench, broker: MachineBroker
) -> None:
    broker.fault = lambda asked: Fault.HOLD if asked.kind == "ack" else None
    broker.push_job("a")
    started_ns = time.monotonic_ns()
    pid = mastered.start(block_for_s=0.0, sleep_s=5.0, ack_async=True)
    mastered.accept()
    mastered.wait_for(lambda: len(mastered.lease_messages()) == 2)
    mastered.wait_for(lambda: broker.kinds() == ["ack"])
    hold, forget = mastered.lease_messages()
    assert isinstance(hold, Hold)
    assert forget == Forget(hold.lease)
    assert hold.lease_s == LEASE_S
    assert started_ns <= hold.requested_ns <= broker.asked[0].t_ns
    assert mastered.records("AttemptAcked") == []
    broker.release()
    assert mastered.stop(pid) == 0
    assert mastered.lease_messages()[2:] == [Shutdown()]


def test_two_leases_are_held_when_a_batch_was_asked_for_ahead(
    mastered: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a")
    broker.push_job("b", "gated", partition="p-0001")
    pid = mastered.start(prefetch=1, ack_async=True, pop_ahead=True)
    mastered.accept()
    mastered.wait_for_records("AttemptStarting", 2)
    kinds = [type(message).__name__ for message in mastered.lease_messages()]
    assert kinds == ["Hold", "Forget", "Hold"]
    mastered.gate.open()
    assert mastered.stop(pid) == 0
    assert isinstance(mastered.lease_messages()[-1], Shutdown)


def test_stop_tells_the_master_before_the_rest_is_handed_back(
    mastered: Bench, broker: MachineBroker
) -> None:
    broker.fault = lambda asked: Fault.HOLD if asked.kind == "transaction" else None
    broker.push_job("a", "gated")
    broker.push_job("b", partition="p-0001")
    pid = mastered.start(prefetch=2)
    mastered.accept()
    mastered.wait_for_records("AttemptStarting", 1)
    os.kill(pid, signal.SIGTERM)
    mastered.gate.open()
    mastered.wait_for(lambda: "transaction" in broker.kinds())
    messages = mastered.lease_messages()
    assert [type(message).__name__ for message in messages] == ["Hold", "Shutdown", "Forget"]
    broker.release()
    assert mastered.wait_exit(pid) == 0


def test_worker_without_its_master_ends_at_once_while_it_holds_a_lease(
    mastered: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a", "gated")
    pid = mastered.start()
    mastered.accept()
    mastered.wait_for_records("AttemptStarting", 1)
    assert mastered.channel is not None
    mastered.channel.close()
    mastered.channel = None
    assert os.waitstatus_to_exitcode(mastered.wait_exit(pid)) == 1
    assert mastered.records("AttemptEnded") == []


def test_idle_worker_without_its_master_stops(mastered: Bench, broker: MachineBroker) -> None:
    pid = mastered.start()
    mastered.accept()
    mastered.wait_for(lambda: len(broker.asked) >= 1)
    assert mastered.channel is not None
    mastered.channel.close()
    mastered.channel = None
    assert os.waitstatus_to_exitcode(mastered.wait_exit(pid)) == 1


def test_worker_that_finds_no_master_ends(bench: Bench) -> None:
    pid = bench.start(lease_socket=str(bench.folder / "nobody"))
    assert os.waitstatus_to_exitcode(bench.wait_exit(pid)) == 1
