"""A claim that nobody read is found by its pop's id, and handed back with the numbers it had."""

from __future__ import annotations

import msgspec

from atleastonce.system.client import Popped, SyncClient
from atleastonce.system.client.calls import pop, transaction
from atleastonce.system.jobs import WorkerSettings
from atleastonce.system.jobs.debts import hand_back_operations
from atleastonce.system.jobs.journal import read_debts
from atleastonce.system.jobs.unread import unread_call, unread_debt

from .machine_broker import GROUP, QUEUE, Asked, Fault, MachineBroker
from .worker_process import Bench

POP = "0123456789abcdef" * 2


def settings(bench: Bench) -> WorkerSettings:
    return msgspec.structs.replace(bench.settings(), prefetch=4)


def claim(client: SyncClient) -> Popped:
    """Claim under `POP`, as a worker does, and read nothing of it."""
    call = pop(QUEUE, group=GROUP, batch=4, partitions=16, lease_s=8)
    return client.call(call, request_id=POP).value


def hand_back(client: SyncClient, bench: Bench, popped: Popped) -> bool:
    body = hand_back_operations(unread_debt(settings(bench), popped, 1))
    assert body is not None
    return client.call(transaction(body)).value.success


def test_the_repeat_finds_the_claim_and_its_jobs_go_back_uncharged(
    bench: Bench, broker: MachineBroker
) -> None:
    client = SyncClient([broker.endpoint])
    broker.push_job("a")
    broker.push_job("b", attempts=1)
    broker.push_job("c", partition="p-0001")
    first = claim(client)
    again = client.call(unread_call(settings(bench), POP), request_id=POP).value
    assert (again.lease_id, len(again.messages)) == (first.lease_id, 3)
    assert hand_back(client, bench, again)
    assert sorted(broker.pop_all()) == [("a", 1), ("b", 2), ("c", 1)]
    client.close()


def test_the_repeat_of_a_pop_that_claimed_nothing_claims_nothing(
    bench: Bench, broker: MachineBroker
) -> None:
    client = SyncClient([broker.endpoint])
    broker.push_job("a")
    assert client.call(unread_call(settings(bench), POP), request_id=POP).value.messages == ()
    depth = client.depth(QUEUE, GROUP).value
    assert (depth.ready, [each.partition for each in depth.partitions]) == (1, ["p-0000"])
    assert broker.pop_all() == [("a", 1)]
    client.close()


def test_a_claim_that_was_handed_back_is_not_handed_back_again(
    bench: Bench, broker: MachineBroker
) -> None:
    client = SyncClient([broker.endpoint])
    broker.push_job("a")
    first = claim(client)
    assert hand_back(client, bench, first)
    assert not hand_back(client, bench, first)
    assert client.call(unread_call(settings(bench), POP), request_id=POP).value.messages == ()
    assert broker.pop_all() == [("a", 1)]
    client.close()


def test_a_worker_that_ends_without_its_last_pops_answer_leaves_that_pops_id(
    bench: Bench, broker: MachineBroker
) -> None:
    held: list[Asked] = []

    def fault(asked: Asked) -> Fault | None:
        if asked.kind == "pop" and "wait=false" in asked.target:
            held.append(asked)
            return Fault.HOLD_ANSWER
        return None

    broker.fault = fault
    broker.push_job("a", "gated")
    broker.push_job("b", partition="p-0001")
    pid = bench.start(prefetch=1, pop_ahead=True, settle_timeout_s=0.2)
    bench.wait_for(lambda: len(held) == 1)
    bench.gate.open()
    assert bench.stop(pid) == 0
    debts = read_debts(bench.states, pid)
    assert (debts.pop_id, debts.debts) == (held[0].request_id, ())
    assert [r["job_id"] for r in bench.records("AttemptStarting")] == ["a"]
    broker.fault = lambda _: None
    broker.release()
    client = SyncClient([broker.endpoint])
    call = unread_call(settings(bench), held[0].request_id)
    popped = client.call(call, request_id=held[0].request_id).value
    assert hand_back(client, bench, popped)
    assert broker.pop_all() == [("b", 1)]
    client.close()


def test_a_worker_whose_hand_back_fails_as_it_ends_owes_it_again(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.fault = lambda asked: Fault.REFUSE if asked.kind == "transaction" else None
    broker.push_job("a", "gated")
    broker.push_job("b")
    pid = bench.start(prefetch=4, settle_timeout_s=0.2)
    bench.wait_for_records("AttemptStarting", 1)
    bench.gate.open()
    assert bench.stop(pid) == 0
    (debt,) = read_debts(bench.states, pid).debts
    assert (debt.ran, debt.unstarted) == ((), ("b",))
    body = hand_back_operations(debt)
    assert body is not None
    broker.fault = lambda _: None
    client = SyncClient([broker.endpoint])
    assert client.call(transaction(body)).value.success
    assert not client.call(transaction(body)).value.success
    assert broker.pop_all() == [("b", 1)]
    client.close()
