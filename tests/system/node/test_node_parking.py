"""Parked pops: first come, first served, and no storm."""

from __future__ import annotations

from atleastonce.system.broker.commands import Pop
from atleastonce.system.node.parking import ParkingLot, Verdict, lane_of


def pop(number: int, queue: str = "q", group: str = "g", partition: str | None = None) -> Pop:
    return Pop(request_id=str(number), queue=queue, group=group, partition=partition)


def test_the_first_come_is_first_in_its_lane() -> None:
    lot = ParkingLot()
    first, second = (lot.park(pop(number), in_front=False) for number in range(2))
    assert lot.first(lane_of(pop(9))) is first
    lot.take(first)
    assert first.verdict is Verdict.TAKEN
    assert not first.moved.is_set()
    assert lot.first(lane_of(pop(9))) is second
    assert len(lot) == 1


def test_each_group_and_pinned_partition_has_a_lane_of_its_own() -> None:
    lot = ParkingLot()
    lot.park(pop(0), in_front=False)
    lot.park(pop(1, group="h"), in_front=False)
    lot.park(pop(2, partition="p"), in_front=False)
    lot.park(pop(3), in_front=False)
    lot.park(pop(4, queue="other"), in_front=False)
    assert lot.lanes("q") == [("q", "g", None), ("q", "h", None), ("q", "g", "p")]


def test_a_pop_moved_for_nothing_waits_in_front_again() -> None:
    lot = ParkingLot()
    lot.park(pop(1), in_front=False)
    first = lot.park(pop(0), in_front=True)
    assert lot.first(lane_of(pop(9))) is first


def test_who_is_woken_looks_for_itself() -> None:
    lot = ParkingLot()
    parked = lot.park(pop(0), in_front=False)
    lot.wake(parked)
    assert parked.verdict is Verdict.WOKEN
    assert parked.moved.is_set()
    assert len(lot) == 0


def test_who_leaves_is_no_longer_in_its_lane() -> None:
    lot = ParkingLot()
    first, second = (lot.park(pop(number), in_front=False) for number in range(2))
    lot.leave(first)
    assert first.verdict is Verdict.WAITING
    assert lot.first(lane_of(pop(9))) is second


def test_all_can_be_sent_away() -> None:
    lot = ParkingLot()
    parked = [lot.park(pop(number, queue=f"q{number}"), in_front=False) for number in range(3)]
    lot.send_all_away()
    assert [each.verdict for each in parked] == [Verdict.SENT_AWAY] * 3
    assert all(each.moved.is_set() for each in parked)
    assert len(lot) == 0
    assert lot.waiting(pop(0)) == 0


def test_waiting_counts_one_lane() -> None:
    lot = ParkingLot()
    lot.park(pop(0), in_front=False)
    lot.park(pop(1), in_front=False)
    lot.park(pop(2, group="h"), in_front=False)
    assert lot.waiting(pop(9)) == 2
