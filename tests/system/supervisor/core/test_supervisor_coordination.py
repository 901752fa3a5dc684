"""Scopes, shares and views: tables, and the sums for any set of replicas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.system.supervisor.core.coordination import (
    SCOPE_MEMBERS_MAX,
    View,
    bounded_share,
    first_covered,
    fnv1a_64,
    make_view,
    name_scope,
    share,
)
from atleastonce.system.supervisor.core.membership import Membership, key_ttl_s, member_ttl_us

SECOND = 1_000_000
IDS = st.sets(st.text("0123456789abcdef", min_size=1, max_size=6), min_size=1, max_size=12)


def views(ids: set[str]) -> list[View]:
    return [make_view(own, ids) for own in sorted(ids)]


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"", 0xCBF29CE484222325),
        (b"a", 0xAF63DC4C8601EC8C),
        (b"foobar", 0x85944171F73967E8),
    ],
)
def test_the_hash_is_the_published_one(data: bytes, value: int) -> None:
    assert fnv1a_64(data) == value


def test_a_scope_has_one_name_whatever_the_order_of_its_parts() -> None:
    name = name_scope(["h1:1", "h2:2"], "g", ["a", "b"])
    assert name == name_scope(["h2:2", "h1:1", "h2:2"], "g", ["b", "a"])
    assert len(name) == 16


@pytest.mark.parametrize(
    ("endpoints", "group", "queues"),
    [
        (["h1:1"], "g", ["a", "b"]),
        (["h1:1", "h2:2"], "h", ["a", "b"]),
        (["h1:1", "h2:2"], "g", ["a"]),
        (["h1:1", "h2:2"], "g", ["ab"]),
        (["h1:1", "h2:2", "g"], "a", ["b"]),
    ],
)
def test_other_endpoints_groups_or_queues_are_another_scope(
    endpoints: list[str], group: str, queues: list[str]
) -> None:
    assert name_scope(endpoints, group, queues) != name_scope(["h1:1", "h2:2"], "g", ["a", "b"])


@pytest.mark.parametrize(
    ("target", "count", "shares"),
    [
        (6, 2, [3, 3]),
        (7, 2, [4, 3]),
        (8, 3, [3, 3, 2]),
        (2, 3, [1, 1, 0]),
        (0, 3, [0, 0, 0]),
        (5, 1, [5]),
    ],
)
def test_a_target_is_split_evenly_and_the_first_get_the_rest(
    target: int, count: int, shares: list[int]
) -> None:
    assert [share(target, 0, view) for view in views({f"{n}" for n in range(count)})] == shares


@pytest.mark.parametrize(
    ("active", "count", "floor", "firsts"),
    [(4, 2, 2, [0, 2]), (5, 2, 3, [0, 2]), (3, 4, 1, [0, 0, 1, 2]), (0, 2, 0, [0, 0])],
)
def test_each_replica_covers_its_part_of_the_active_queues(
    active: int, count: int, floor: int, firsts: list[int]
) -> None:
    seen = views({f"{n}" for n in range(count)})
    assert [share(0, active, view) for view in seen] == [floor] * count
    assert [first_covered(active, view) for view in seen] == firsts


@pytest.mark.parametrize(
    ("target", "processes_min", "processes_max", "shares"),
    [(0, 1, 10, [1, 1]), (30, 1, 10, [10, 10]), (9, 1, 10, [5, 4]), (1, 2, 10, [2, 2])],
)
def test_each_replica_keeps_its_own_bounds(
    target: int, processes_min: int, processes_max: int, shares: list[int]
) -> None:
    found = [bounded_share(target, 0, v, processes_min, processes_max) for v in views({"a", "b"})]
    assert found == shares


def test_the_hundred_and_first_replica_is_a_reserve_without_a_share() -> None:
    ids = {f"{n:03}" for n in range(SCOPE_MEMBERS_MAX + 2)}
    seen = views(ids)
    assert [view.position for view in seen[-3:]] == [99, None, None]
    assert sum(share(1234, 0, view) for view in seen) == 1234
    assert first_covered(7, seen[-1]) == 0


def test_a_replica_that_the_broker_does_not_list_counts_itself() -> None:
    view = make_view("b", ["a", "c"])
    assert (view.members, view.position) == (("a", "b", "c"), 1)
    assert make_view("b", []).is_alone


@given(ids=IDS, target=st.integers(0, 10_000))
def test_with_equal_views_the_shares_add_up_to_the_target(ids: set[str], target: int) -> None:
    shares = [share(target, 0, view) for view in views(ids)]
    assert sum(shares) == target
    assert max(shares) - min(shares) <= 1


@given(ids=IDS, target=st.integers(0, 300), active=st.integers(0, 60))
def test_with_active_queues_the_sum_is_the_target_or_what_covers_them(
    ids: set[str], target: int, active: int
) -> None:
    seen = views(ids)
    total = sum(share(target, active, view) for view in seen)
    covering = -(-active // len(ids)) * len(ids)
    assert total == max(target, covering)
    covered = set[int]()
    for view in seen:
        first = first_covered(active, view)
        covered |= {(first + n) % active for n in range(-(-active // view.count)) if active}
    assert covered == set(range(active))


@given(ids=IDS, joined=IDS, target=st.integers(0, 300), active=st.integers(0, 60))
def test_a_view_with_more_members_never_gives_more(
    ids: set[str], joined: set[str], target: int, active: int
) -> None:
    for own in ids:
        before, after = make_view(own, ids), make_view(own, ids | joined)
        assert share(target, active, after) <= share(target, active, before)


@pytest.mark.parametrize(
    ("timeout_s", "budget_s", "ttl_s"),
    [(None, 4, 15), (None, 20, 21), (10, 4, 10), (40, 20, 21), (21, 20, 21)],
)
def test_a_heartbeat_counts_until_the_next_one_must_have_come(
    timeout_s: int | None, budget_s: int, ttl_s: int
) -> None:
    timeout_us = None if timeout_s is None else timeout_s * SECOND
    assert member_ttl_us(timeout_us, budget_s * SECOND) == ttl_s * SECOND


@pytest.mark.parametrize(("ttl_us", "ttl_s"), [(1, 1), (SECOND, 1), (SECOND + 1, 2)])
def test_a_key_lives_at_least_as_long_as_its_view(ttl_us: int, ttl_s: int) -> None:
    assert key_ttl_s(ttl_us) == ttl_s


def test_a_replica_waits_for_its_first_heartbeat() -> None:
    membership = Membership("b", 15 * SECOND)
    assert membership.view(0) is None
    membership.heard(0, ["a", "b"])
    assert membership.view(SECOND) == View("b", ("a", "b"))


def test_a_replica_whose_first_heartbeat_fails_is_alone() -> None:
    membership = Membership("b", 15 * SECOND)
    membership.unheard()
    assert membership.view(SECOND) == View("b", ("b",))


def test_cut_off_a_replica_keeps_its_view_for_less_than_its_key_lives_and_then_is_alone() -> None:
    membership = Membership("b", 15 * SECOND)
    membership.heard(100 * SECOND, ["a", "b"])
    membership.unheard()
    last_us = 100 * SECOND + 14_850_000 - 1
    assert membership.view(last_us) == View("b", ("a", "b"))
    assert membership.view(last_us + 1) == View("b", ("b",))


def test_a_view_is_as_old_as_the_request_that_brought_it() -> None:
    membership = Membership("b", 15 * SECOND)
    membership.heard(0, ["a", "b"])
    membership.heard(5 * SECOND, ["a", "b", "c"])
    membership.unheard()
    assert membership.view(19 * SECOND) == View("b", ("a", "b", "c"))
    assert membership.view(20 * SECOND) == View("b", ("b",))


def test_a_replica_that_was_frozen_past_its_view_waits_for_its_heartbeat() -> None:
    membership = Membership("b", 15 * SECOND)
    membership.heard(0, ["a", "b"])
    assert membership.view(60 * SECOND) is None
    membership.heard(60 * SECOND, ["b"])
    assert membership.view(60 * SECOND) == View("b", ("b",))


def test_a_replica_that_left_is_in_again_with_its_next_heartbeat() -> None:
    membership = Membership("b", 15 * SECOND)
    membership.unheard()
    membership.left()
    assert membership.view(0) is None
    membership.heard(SECOND, ["b"])
    assert membership.view(SECOND) == View("b", ("b",))
