"""Rules about how jobs end; every history is a clean one but for the named line."""

from __future__ import annotations

from collections.abc import Callable

from atleastonce.checkers.verdict import Verdict

Judge = Callable[..., Verdict]
Broken = Callable[..., set[str]]

END = """
    30.0 drained
    31.0 stop
"""

CLEAN = """
    0.0 dispatch a
    0.1 w1 got a#1
    0.2 w1 start a#1
    0.3 w1 end a
    0.4 w1 ack a
    """


def test_completed_job_is_valid(judge: Judge) -> None:
    verdict = judge(CLEAN + END)
    assert verdict.valid is True
    assert verdict.strength["attempts"] == 1
    assert verdict.violations == []


def test_acknowledged_job_that_never_ran_is_lost(broken: Broken) -> None:
    assert broken(CLEAN + "1.0 dispatch b" + END) == {"lost"}


def test_job_whose_run_was_killed_and_never_came_back_is_lost(broken: Broken) -> None:
    history = (
        CLEAN
        + """
    1.0 dispatch b
    1.1 w1 got b#1
    1.2 w1 start b#1
    1.5 w1 died 9
    """
    )
    assert broken(history + END) == {"lost"}


def test_unacknowledged_dispatch_may_be_missing_or_run(broken: Broken) -> None:
    history = (
        CLEAN
        + """
    1.0 dispatch b info
    1.0 dispatch c info
    1.1 w1 got c#1
    1.2 w1 start c#1
    1.3 w1 end c
    1.4 w1 ack c
    """
    )
    assert broken(history + END) == set()


def test_lost_is_unknown_without_a_drain(judge: Judge) -> None:
    verdict = judge(CLEAN + "1.0 dispatch b")
    assert verdict.valid == "unknown"
    assert verdict.rules["lost"].valid == "unknown"
    assert "the system was never seen drained" in verdict.reasons


def test_run_of_a_job_that_nobody_dispatched_is_a_phantom(broken: Broken) -> None:
    history = (
        CLEAN
        + """
    1.1 w1 got x#1
    1.2 w1 start x#1
    1.3 w1 end x
    1.4 w1 ack x
    """
    )
    assert broken(history + END) == {"phantom"}


def test_run_of_a_job_whose_dispatch_failed_is_a_phantom(broken: Broken) -> None:
    history = """
    1.0 dispatch x fail
    1.1 w1 got x#1
    1.2 w1 start x#1
    1.3 w1 end x
    1.4 w1 ack x
    """
    assert broken(CLEAN + history + END) == {"phantom"}
    assert broken(CLEAN + history.replace("fail", "info") + END) == set()


def test_run_before_its_dispatch_is_a_phantom(broken: Broken) -> None:
    assert "phantom" in broken(CLEAN.replace("0.0 dispatch", "0.25 dispatch") + END)


def test_two_queued_answers_for_one_job_are_a_duplicate_dispatch(broken: Broken) -> None:
    resend = "2.0 dispatch a status=queued resend"
    assert broken(CLEAN + resend + END) == {"duplicate-dispatch"}
    assert broken(CLEAN + resend.replace("queued", "duplicate") + END) == set()


DELAYED = """
    0.0 dispatch late delay=1
    1.5 w1 got late#1
    1.6 w1 start late#1
    1.7 w1 end late
    1.8 w1 ack late
    """


def test_push_that_comes_before_its_timer_fires_is_no_duplicate(broken: Broken) -> None:
    assert broken(DELAYED + "1.4 dispatch late status=queued resend" + END) == set()


def test_push_that_is_queued_after_its_timer_fired_is_a_duplicate_dispatch(broken: Broken) -> None:
    late = DELAYED + "2.0 dispatch late status=queued resend"
    assert broken(late + END) == {"duplicate-dispatch"}


def test_repeated_answer_with_the_same_offset_is_one_dispatch(broken: Broken) -> None:
    assert broken(CLEAN + "2.0 dispatch a status=queued offset=0 resend" + END) == set()


def test_two_acked_runs_with_one_number_are_a_duplicate_dispatch(broken: Broken) -> None:
    history = (
        CLEAN
        + """
    1.1 w2 got a#1
    1.2 w2 start a#1
    1.3 w2 end a
    1.4 w2 ack a
    """
    )
    names = broken(history + END)
    assert names == {"duplicate-dispatch", "completed-twice", "attempt-number"}


TWICE = """
    0.0 dispatch a
    0.0 dispatch c p=1
    0.1 w1 got a#1 c#1
    0.2 w1 start a#1
    0.3 w1 end a
    {ack}
    {next}
    {death} w1 died 9
    8.0 w2 got a#2 c#2
    8.2 w2 start a#2
    8.3 w2 end a
    8.4 w2 ack a
    8.5 w2 start c#2
    8.6 w2 end c
    8.7 w2 ack c
    """


NEXT = "0.31 w1 start c#1"


def test_second_completion_is_explained_when_the_worker_died_before_the_ack(judge: Judge) -> None:
    history = TWICE.format(ack="", next="", death="0.5").replace("got a#2 c#2", "got a#2 c#1")
    verdict = judge(history.replace("start c#2", "start c#1") + END, hand_back_s=20)
    assert verdict.valid is True, verdict.violations
    assert verdict.rules["completed-twice"].explained == 1
    assert verdict.strength["explained_duplicates"] == 1


def test_second_completion_is_a_violation_when_the_worker_died_long_after(broken: Broken) -> None:
    history = TWICE.format(ack="", next="", death="2.5").replace("got a#2 c#2", "got a#2 c#1")
    names = broken(history.replace("start c#2", "start c#1") + END, hand_back_s=20)
    assert names == {"completed-twice"}


def test_second_completion_is_a_violation_when_the_next_job_had_started(broken: Broken) -> None:
    assert broken(TWICE.format(ack="", next=NEXT, death="0.5") + END) == {"completed-twice"}


def test_second_completion_after_a_confirmed_ack_is_a_violation(broken: Broken) -> None:
    history = TWICE.format(ack="0.4 w1 ack a", next=NEXT, death="0.5")
    assert broken(history + END) == {"completed-twice"}


def test_second_completion_is_explained_by_a_node_fault_at_the_ack(judge: Judge) -> None:
    fault = "0.5 fault kill-leader n1 healed=1 recovered=2"
    verdict = judge(TWICE.format(ack="", next=NEXT, death="2.5") + fault + END)
    assert verdict.valid is True
    explained = verdict.strength["explained"]
    assert isinstance(explained, dict)
    assert explained["completed-twice"] == {"kill-leader cut the way of its ack": 1}


GIVEN_UP = """
    0.0 dispatch a tries=2 backoff=1
    0.1 w1 got a#1
    0.2 w1 start a#1
    0.3 w1 end a threw
    0.4 w1 ack a
    1.5 w1 got a#2
    1.6 w1 start a#2
    1.7 w1 end a threw
    1.8 w1 ack a
    1.8 w1 gave-up a
    """


def test_job_given_up_after_its_tries_is_valid(broken: Broken) -> None:
    assert broken(GIVEN_UP + END) == set()


def test_completed_and_given_up_is_both_ended(broken: Broken) -> None:
    assert broken(GIVEN_UP.replace("1.7 w1 end a threw", "1.7 w1 end a") + END) == {"both-ended"}


def test_given_up_after_a_lost_ack_is_explained(judge: Judge) -> None:
    history = """
    0.0 dispatch a tries=1
    0.1 w1 got a#1
    0.2 w1 start a#1
    0.3 w1 end a
    0.4 w1 died 9
    8.5 w2 got a#2
    8.5 w2 gave-up a max_attempts refused=2
    """
    verdict = judge(history + END)
    assert verdict.valid is True
    assert verdict.rules["both-ended"].explained == 1


def test_dead_letter_missing_is_a_store_mismatch(broken: Broken) -> None:
    assert broken(GIVEN_UP + "29.0 letters" + END) == {"store-mismatch"}


def test_failed_row_missing_is_a_store_mismatch(broken: Broken) -> None:
    assert broken(GIVEN_UP + "29.0 failed" + END) == {"store-mismatch"}


def test_give_up_record_missing_is_a_store_mismatch(broken: Broken) -> None:
    history = GIVEN_UP.replace("1.8 w1 gave-up a", "") + "29.0 letters a\n 29.0 failed a"
    assert broken(history + END) == {"store-mismatch"}


def test_dead_letter_twice_is_a_store_mismatch(broken: Broken) -> None:
    assert broken(GIVEN_UP + "29.0 letters a a" + END) == {"store-mismatch"}


def test_dead_letter_with_another_payload_is_a_store_mismatch(broken: Broken) -> None:
    assert broken(GIVEN_UP + "29.0 letters a=00" + END) == {"store-mismatch"}


def test_failed_row_with_another_payload_is_a_store_mismatch(broken: Broken) -> None:
    assert broken(GIVEN_UP + "29.0 failed a=00" + END) == {"store-mismatch"}


def test_stranger_in_a_store_is_a_store_mismatch(broken: Broken) -> None:
    assert broken(GIVEN_UP + "29.0 letters a stranger" + END) == {"store-mismatch"}


def test_row_missing_is_explained_when_the_worker_died_after_the_dead_letter(judge: Judge) -> None:
    verdict = judge(GIVEN_UP + "1.9 w1 died 9\n 29.0 failed" + END)
    assert verdict.valid is True
    assert verdict.rules["store-mismatch"].explained == 1


def test_stores_are_unknown_when_never_read(judge: Judge) -> None:
    verdict = judge(GIVEN_UP)
    assert verdict.rules["store-mismatch"].valid == "unknown"
    assert verdict.valid == "unknown"
