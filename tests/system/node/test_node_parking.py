"""Parked pops: first come, first served, and no storm."""

from __future__ import annotations

from atleastonce.system.broker.commands import Pop
from atleastonce.system.node.parking import ParkedPop, ParkingLot, Verdict, lane_of


def pop(number: int, queue: str = "q", group: str = "g", partition: str | None = None) -> Pop:
    return Pop(request_id=str(number), queue=queue, group=group, partition=partition)


def always(_: Pop) -> bool:
    return True


def woken(parked: list[ParkedPop]) -> list[int]:
    return [at for at, each in enumerate(parked) if each.verdict is Verdict.WOKEN]


def test_a_change_wakes_only_the_first_that_waits() -> None:
    lot = ParkingLot()
    parked = [lot.park(pop(number), in_front=False) for number in range(3)]
    lot.wake_queues(["q"], always)
    assert woken(parked) == [0]
    assert len(lot) == 2


def test_success_wakes_two_more_in_order() -> None:
    lot = ParkingLot()
    parked = [lot.park(pop(number), in_front=False) for number in range(4)]
    lot.wake_lane(lane_of(pop(0)), 2, always)
    assert woken(parked) == [0, 1]


def test_nobody_is_woken_for_nothing() -> None:
    lot = ParkingLot()
    parked = [lot.park(pop(number), in_front=False) for number in range(2)]
    lot.wake_queues(["q"], lambda _: False)
    lot.wake_queues(["other"], always)
    assert woken(parked) == []
    assert len(lot) == 2


def test_each_group_and_pinned_partition_has_a_lane_of_its_own() -> None:
    lot = ParkingLot()
    parked = [
        lot.park(pop(0), in_front=False),
        lot.park(pop(1, group="h"), in_front=False),
        lot.park(pop(2, partition="p"), in_front=False),
        lot.park(pop(3), in_front=False),
    ]
    lot.wake_queues(["q"], always)
    assert woken(parked) == [0, 1, 2]


def test_a_pop_woken_for_nothing_waits_in_front_again() -> None:
    lot = ParkingLot()
    second = lot.park(pop(1), in_front=False)
    first = lot.park(pop(0), in_front=True)
    lot.wake_queues(["q"], always)
    assert first.verdict is Verdict.WOKEN
    assert second.verdict is Verdict.WAITING


def test_who_leaves_is_not_woken() -> None:
    lot = ParkingLot()
    first, second = (lot.park(pop(number), in_front=False) for number in range(2))
    lot.leave(first)
    lot.wake_queues(["q"], always)
    assert first.verdict is Verdict.WAITING
    assert second.verdict is Verdict.WOKEN
    assert len(lot) == 0


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
