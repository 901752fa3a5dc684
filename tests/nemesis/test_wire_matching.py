"""What becomes of a packet, told from where it was seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from atleastonce.nemesis.wire.matching import DELIVERED, DROP, PASS, SENT, Matching, Sighting

PAIR = ("n1", "n2")
SECOND = 1_000_000_000


def packet(number: int, payload: bytes = b"") -> bytes:
    return bytes(34) + number.to_bytes(8, "big") + bytes(12) + payload


def test_delivered_packet_passed_and_an_undelivered_one_is_dropped_after_a_second() -> None:
    matching = Matching()
    found = [
        *matching.see(PAIR, SENT, 0, packet(1)),
        *matching.see(PAIR, SENT, 1, packet(2)),
        *matching.see(PAIR, DELIVERED, 2, packet(1)),
    ]

    assert [(each.stage, each.verdict) for each in found] == [(DELIVERED, PASS), (SENT, PASS)]
    assert list(matching.settle(SECOND)) == []
    (lost,) = matching.settle(SECOND + 1)
    assert lost == Sighting(PAIR, SENT, 1, packet(2), DROP)


def test_corrupted_packet_is_still_the_one_that_was_sent() -> None:
    matching = Matching()
    list(matching.see(PAIR, SENT, 0, packet(1, b"abcd")))
    found = list(matching.see(PAIR, DELIVERED, 1, packet(1, b"cdab")))

    assert [each.verdict for each in found] == [PASS, PASS]
    assert [each.frame[-4:] for each in found] == [b"cdab", b"abcd"]


def test_delivery_long_ago_excuses_no_later_loss() -> None:
    matching = Matching()
    list(matching.see(PAIR, DELIVERED, 0, packet(1)))
    list(matching.settle(3 * SECOND))
    list(matching.see(PAIR, SENT, 3 * SECOND, packet(1)))

    (lost,) = matching.settle(5 * SECOND)
    assert lost.verdict == DROP


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=40))
def test_every_packet_is_told_once_in_the_order_of_its_stage(
    seen: list[tuple[int, bool]],
) -> None:
    matching = Matching()
    found: list[Sighting] = []
    for at, (number, is_sent) in enumerate(seen):
        stage = SENT if is_sent else DELIVERED
        found += matching.see(PAIR, stage, at * 1000, packet(number))
    found += matching.rest()

    for stage, is_sent in ((SENT, True), (DELIVERED, False)):
        told = [int.from_bytes(each.frame[34:42], "big") for each in found if each.stage == stage]
        assert told == [number for number, sent in seen if sent is is_sent]
