"""The checker of the workload `queue`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from atleastonce.checkers.broker_contract import QUEUE_RULES, BrokerContract
from atleastonce.checkers.queue_checker import check_queue
from atleastonce.checkers.verdict import Verdict
from atleastonce.histories.faults import FaultEvent
from atleastonce.histories.ops import DRAIN
from atleastonce.histories.queue_ops import DEQUEUE, ENQUEUE, Enqueue, Enqueued
from atleastonce.histories.scheduling import SchedulingSample, Wait

from .op_histories import OpHistory, at, broken_rules
from .queue_histories import (
    BREAKS,
    END_S,
    STEPS,
    Model,
    Step,
    ack_again,
    ask,
    delivery,
    dequeued,
    put,
    take,
)

Break = Callable[[OpHistory], None]


def judge(history: OpHistory, scheduling: Sequence[SchedulingSample] = ()) -> Verdict:
    run = dataclasses.replace(history.run(), scheduling=tuple(scheduling))
    return check_queue(run, BrokerContract(name="queue"))


def clean() -> OpHistory:
    """Two messages, one of them delivered twice because its first ack was rejected."""
    history = OpHistory()
    put(history, 1, "a0", 0)
    put(history, 1.2, "a1", 1)
    take(history, 2, 6, delivery("a0", 9, 0, "p", "rejected"))
    take(history, 6.1, 7, delivery("a0", 9, 0, "q"), delivery("a1", 9, 1, "q"))
    return history


def drained(history: OpHistory) -> OpHistory:
    history.op(DRAIN, END_S - 1, END_S)
    return history


def test_clean_history_is_valid_by_every_rule() -> None:
    verdict = judge(drained(clean()))

    assert verdict.valid is True
    assert list(verdict.rules) == list(QUEUE_RULES)
    assert verdict.reasons == []
    assert verdict.strength["deliveries"] == 3
    assert verdict.strength["redelivered"] == 1
    assert verdict.strength["acks"] == {"acked": 2, "rejected": 1}


def test_every_rule_has_a_history_that_breaks_it() -> None:
    assert set(BREAKS.values()) == set(QUEUE_RULES)


@pytest.mark.parametrize(
    ("break_", "rule"), BREAKS.items(), ids=lambda x: getattr(x, "__name__", x)
)
def test_history_broken_in_one_way_breaks_that_rule_alone(break_: Break, rule: str) -> None:
    history = OpHistory()
    break_(history)
    history.op(
        ENQUEUE,
        1,
        2,
        Enqueue(id="s", partition="0", digest="d-s"),
        Enqueued(status="queued", offset=0),
    )
    take(history, 3, 4, delivery("s", 0, 0, "s"))

    verdict = judge(drained(history))

    assert broken_rules(verdict) == {rule}
    assert verdict.valid is False
    assert rule not in verdict.strength["bounds_95"]  # type: ignore[operator]


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
@given(steps=STEPS)
def test_legal_history_breaks_no_rule(steps: Sequence[Step]) -> None:
    verdict = judge(Model(steps).run())

    assert broken_rules(verdict) == set(), verdict.violations


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(steps=STEPS, break_=st.sampled_from(list(BREAKS)))
def test_legal_history_broken_in_one_way_breaks_that_rule_alone(
    steps: Sequence[Step], break_: Break
) -> None:
    history = Model(steps).run()
    break_(history)

    assert broken_rules(judge(history)) == {BREAKS[break_]}


def test_message_whose_only_ack_has_no_known_outcome_is_not_lost() -> None:
    history = clean()
    put(history, 8, "a2", 2)
    take(history, 9, 10, delivery("a2", 9, 2, "r", "unknown"), known=False)

    assert judge(drained(history)).valid is True


def test_enqueue_without_answer_may_come_out_or_not() -> None:
    history = clean()
    for id_ in ("a2", "a3"):
        asked = Enqueue(id=id_, partition="9", digest=f"d-{id_}")
        history.op(ENQUEUE, 8, 9, asked, type_="info")
    take(history, 9.5, 10, delivery("a3", 9, 2, "r"))

    verdict = judge(drained(history))

    assert verdict.valid is True
    assert verdict.strength["recovered"] == 1


def test_ack_answered_as_done_before_does_not_count_twice() -> None:
    history = OpHistory()
    put(history, 1, "x", 0)
    take(history, 2, 7, delivery("x", 9, 0, "a"))
    take(history, 6, 8, delivery("x", 9, 0, "b", "noop"))

    assert judge(drained(history)).valid is True


def test_pop_that_begins_at_the_very_moment_of_an_ack_may_still_have_the_message() -> None:
    history = OpHistory()
    put(history, 1, "x", 0)
    take(history, 2, 6, delivery("x", 9, 0, "a"))
    take(history, 5.9, 7, delivery("x", 9, 0, "b", "rejected"))

    assert judge(drained(history)).valid is True


def test_repeated_ack_may_be_refused_once_another_lease_was_released_there() -> None:
    history = OpHistory()
    put(history, 1, "x", 0)
    put(history, 1.1, "y", 1)
    take(history, 2, 3, delivery("x", 9, 0, "a"))
    take(history, 4, 5, delivery("y", 9, 1, "b", "unknown"), known=False)
    ack_again(history, 4.5, "rejected")

    assert judge(drained(history)).valid is True


def test_repeated_ack_of_what_was_never_carried_out_may_be_refused() -> None:
    history = clean()
    put(history, 8, "x", 2)
    take(history, 9, 13, delivery("x", 9, 2, "a", "rejected"))
    ack_again(history, 13.5, "rejected")
    take(history, 14, 15, delivery("x", 9, 2, "b"))

    assert judge(drained(history)).valid is True


def window(history: OpHistory, from_s: float, until_s: float) -> None:
    """A leader's death and its return."""
    for event, second in (("effect", from_s), ("healed", until_s)):
        history.faults.append(
            FaultEvent(
                fault=f"kill-leader-{from_s}",
                kind="kill-leader",
                target="n1",
                event=event,  # type: ignore[arg-type]
                t_ns=at(second),
                wall_ns=0,
            )
        )


def test_pop_without_an_answer_may_have_claimed_what_comes_again() -> None:
    history = OpHistory()
    put(history, 1, "x", 0)
    history.op(DEQUEUE, 2, 2.1, ask(), type_="fail")
    take(history, 6, 7, delivery("x", 9, 0, "a", attempt=2))

    assert judge(drained(history)).valid is True


def test_pop_that_outlasts_its_lease_may_have_claimed_twice() -> None:
    history = OpHistory()
    put(history, 1, "x", 0)
    taken = (delivery("x", 9, 0, "a", attempt=2),)
    history.op(DEQUEUE, 2, 7, ask(), dequeued(6, taken))

    assert judge(drained(history)).valid is True


def test_claim_of_a_client_that_hung_up_while_a_leader_died_may_be_left_behind() -> None:
    history = OpHistory()
    put(history, 1, "x", 0)
    history.op(DEQUEUE, 2, 2.1, ask(hang_up_ms=100), dequeued(2.1, ()))
    take(history, 6, 7, delivery("x", 9, 0, "a", attempt=2))
    window(history, 2.05, 4)

    assert judge(drained(history)).valid is True


def test_writes_that_are_refused_while_a_fault_lasts_are_no_stall() -> None:
    history = clean()
    BREAKS_BY_RULE["stalled"](history)
    window(history, 39, 47)

    assert judge(drained(history)).valid is True


def test_one_write_that_went_through_is_no_stall() -> None:
    history = clean()
    BREAKS_BY_RULE["stalled"](history)
    asked = Enqueue(id="z", partition="9", digest="d-z")
    history.op(ENQUEUE, 55, 55.1, asked, Enqueued(status="duplicate", offset=2), node="n2")
    take(history, 56, 57, delivery("z", 9, 2, "z"))

    assert judge(drained(history)).valid is True


def test_without_a_drain_loss_is_unknown() -> None:
    history = clean()
    put(history, 8, "x", 2)

    verdict = judge(history)

    assert verdict.valid == "unknown"
    assert verdict.rules["lost"].valid == "unknown"
    assert verdict.reasons == ["the queue was never seen drained"]


def test_dequeue_that_never_ended_leaves_loss_and_skips_unknown() -> None:
    history = clean()
    history.op(DEQUEUE, 20, None, ask())
    put(history, 8, "x", 2)

    verdict = judge(drained(history))

    assert verdict.valid == "unknown"
    assert verdict.rules["lost"].valid == "unknown"
    assert verdict.rules["pop-skip"].valid == "unknown"
    assert verdict.rules["acked-twice"].valid is True


def test_run_without_a_single_ack_is_unknown() -> None:
    verdict = judge(drained(OpHistory()))

    assert verdict.valid == "unknown"
    assert verdict.reasons == ["no enqueue was acknowledged", "no delivery was acked"]


def test_fault_that_never_bit_makes_a_clean_run_unknown() -> None:
    history = drained(clean())
    history.plan.append({"id": "kill-leader-1", "kind": "kill-leader", "target": "leader"})

    assert judge(history).valid == "unknown"


def test_witness_names_the_faults_around_it() -> None:
    history = drained(OpHistory())
    BREAKS_BY_RULE["lease-overlap"](history)
    window(history, 3.5, 4.0)

    [violation] = judge(history).violations

    assert [fault["kind"] for fault in violation.faults] == ["kill-leader"]
    assert {record["f"] for record in violation.records} == {DEQUEUE}


BREAKS_BY_RULE = {rule: break_ for break_, rule in BREAKS.items()}


def test_value_that_cannot_be_read_makes_every_rule_unknown() -> None:
    history = drained(clean())
    history.op(ENQUEUE, 8, 9, {"id": 7})

    verdict = judge(history)

    assert verdict.valid == "unknown"
    assert all(result.valid == "unknown" for result in verdict.rules.values())
    assert verdict.reasons[0].startswith("damaged evidence: operation ")


def test_node_that_took_no_write_while_the_machine_was_starved_is_in_doubt() -> None:
    history = clean()
    BREAKS_BY_RULE["stalled"](history)
    starved = SchedulingSample(
        from_ns=at(40), t_ns=at(55), waits={"verifier": Wait(waited=0.9, ran=0.05)}
    )

    verdict = judge(drained(history), [starved])

    assert verdict.valid == "unknown"
    assert verdict.rules["stalled"].in_doubt == 1
    assert "verifier waited 90% of the time for a core" in verdict.reasons[0]
