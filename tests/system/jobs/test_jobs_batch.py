"""What a batch owes at any moment."""

from __future__ import annotations

import pytest

from atleastonce.system.jobs.batch import Batch

from .deliveries import make_batch


def codes(batch: Batch) -> str:
    return "".join(batch.codes)


def test_unstarted_jobs_owe_an_ack_and_a_copy() -> None:
    assert codes(make_batch("a", "b")) == "uu"


def test_running_job_alone_in_its_partition_owes_nothing() -> None:
    batch = make_batch("a", "b")
    batch.start(0, 1)
    assert codes(batch) == ".u"


def test_running_job_with_unstarted_jobs_behind_it_owes_a_counted_copy() -> None:
    batch = make_batch("a", "a", "b")
    batch.start(0, 1)
    assert codes(batch) == "ruu"


def test_completed_job_owes_its_ack_only_while_jobs_wait_behind_it() -> None:
    batch = make_batch("a", "a")
    batch.start(0, 1)
    batch.ack(0)
    assert codes(batch) == "au"
    batch.start(1, 2)
    assert codes(batch) == ".."


def test_completed_job_is_owed_beside_a_running_one_that_has_a_tail() -> None:
    batch = make_batch("a", "a", "a")
    batch.start(0, 1)
    batch.ack(0)
    batch.start(1, 2)
    assert codes(batch) == "aru"


def test_retry_on_the_wire_is_owed_again_with_the_jobs_behind_it() -> None:
    batch = make_batch("a", "a", "b")
    batch.start(0, 1)
    batch.retry(0, 250)
    assert (codes(batch), batch.retry_delay_ms) == ("tuu", 250)
    batch.close(0)
    assert codes(batch) == ".uu"


def test_retry_on_the_wire_with_nothing_behind_it_is_left_to_its_lease() -> None:
    batch = make_batch("a", "b")
    batch.start(0, 1)
    batch.retry(0, 0)
    assert codes(batch) == ".u"


def test_dead_letter_on_the_wire_leaves_its_job_owed_as_before() -> None:
    batch = make_batch("a", "a", "b")
    batch.start(0, 1)
    batch.bury(0)
    assert codes(batch) == "buu"
    batch.close(0)
    batch.bury(1)
    assert codes(batch) == ".vu"


def test_confirmed_jobs_owe_nothing() -> None:
    batch = make_batch("a", "a")
    batch.start(0, 1)
    batch.ack(0)
    batch.close(0)
    assert codes(batch) == ".u"


def test_lost_lease_keeps_only_the_job_that_has_run() -> None:
    batch = make_batch("a", "b", "c")
    batch.start(0, 1)
    batch.ack(0)
    batch.start(1, 2)
    batch.give_up_lease()
    assert codes(batch) == "..."
    assert batch.is_last_open(1)
    assert batch.next_unstarted() is None


def test_last_open_delivery_is_the_one_that_releases_the_lease() -> None:
    batch = make_batch("a", "b")
    batch.start(0, 1)
    assert not batch.is_last_open(0)
    batch.close(1)
    assert batch.is_last_open(0)
    batch.close(0)
    assert not batch.is_open


def test_siblings_are_the_unstarted_jobs_behind_in_the_same_partition() -> None:
    assert make_batch("a", "b", "a", "a").siblings(0) == (2, 3)


def test_next_unstarted_skips_what_is_closed() -> None:
    batch = make_batch("a", "b", "c")
    batch.close(1)
    assert batch.next_unstarted(0) == 2
    assert batch.next_unstarted(2) is None


def test_two_jobs_never_run_at_once() -> None:
    batch = make_batch("a", "b")
    batch.start(0, 1)
    with pytest.raises(AssertionError, match="delivery 0 runs"):
        batch.start(1, 2)


def test_copy_of_a_delivery_has_the_same_id_every_time_it_is_planned() -> None:
    batch = make_batch("a", "a")
    first, again = batch.plan("q", "g"), batch.plan("q", "g")
    assert first == again
    assert first.entries[0].copy_txn != first.entries[1].copy_txn
    other = Batch("lease-2", 8.0, 1000, batch.deliveries).plan("q", "g")
    assert other.entries[0].copy_txn != first.entries[0].copy_txn
