"""Replicas in virtual time: the shares add up, and nobody is ever missing but by a departure."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from atleastonce.system.supervisor.core.coordination import View
from atleastonce.system.supervisor.core.membership import Membership

from .virtual_replicas import CALL_US, DELAY_US_MAX, POLL_US, TTL_US, US, World

TURN_US = POLL_US + CALL_US + 3 * DELAY_US_MAX
CONVERGED_US = TTL_US + TTL_US // 100 + 2 * TURN_US
SAMPLES = 30


def started(seed: int, target: int, count: int) -> World:
    """A world whose replicas know each other."""
    world = World(seed, target)
    for _ in range(count):
        world.join()
    world.run_until(CONVERGED_US)
    assert world.total() == target
    world.sums.clear()
    return world


def assert_adds_up(world: World) -> None:
    """In each of 30 samples, a second apart, the shares add up to the target."""
    for _ in range(SAMPLES):
        world.run_until(world.now_us + US)
        assert world.total() == world.target, f"seed {world.seed}: {describe(world)}"


def describe(world: World) -> list[tuple[str, int | None, View | None]]:
    return [(replica.name, replica.workers, replica.view) for replica in world.living()]


def assert_under_only_after_departures(world: World, within_us: int) -> None:
    for at_us, total in world.sums:
        if total < world.target:
            assert any(0 <= at_us - left_us <= within_us for left_us in world.departures_us), (
                f"seed {world.seed}: {total} of {world.target} at {at_us / US:.3f} s, departures "
                f"{[left / US for left in world.departures_us]}"
            )


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shares_add_up_in_every_sample(count: int) -> None:
    for seed in range(10):
        assert_adds_up(started(seed, 12, count))


def test_a_crashed_replicas_share_is_taken_over_after_one_ttl() -> None:
    for seed in range(30):
        world = started(seed, 13, 4)
        world.crash(world.random.choice(world.living()))
        assert world.total() < world.target
        world.run_until(world.now_us + CONVERGED_US)
        assert_adds_up(world)
        assert_under_only_after_departures(world, TTL_US + TTL_US // 100 + TURN_US)


def test_a_replica_that_leaves_is_replaced_within_one_poll_of_the_others() -> None:
    for seed in range(30):
        world = started(seed, 13, 4)
        world.leave(world.random.choice(world.living()))
        world.run_until(world.now_us + TURN_US)
        assert_adds_up(world)


def test_a_rolling_restart_ends_with_shares_that_add_up() -> None:
    for seed in range(30):
        world = started(seed, 16, 4)
        for replica in world.living():
            world.leave(replica)
            world.run_until(world.now_us + world.random.randrange(5 * US))
            world.join()
            world.run_until(world.now_us + 2 * TURN_US)
            assert_adds_up(world)
        assert_under_only_after_departures(world, TURN_US)


def test_with_joining_alone_nobody_runs_too_few() -> None:
    for seed in range(30):
        world = started(seed, 16, 1)
        for _ in range(5):
            world.join()
            world.run_until(world.now_us + world.random.randrange(4 * US))
        world.run_until(world.now_us + 2 * TURN_US)
        assert_adds_up(world)
        assert_under_only_after_departures(world, 0)


@pytest.mark.parametrize("cut_off", [1, 2, 4])
def test_an_unreachable_broker_means_over_and_never_under(cut_off: int) -> None:
    for seed in range(30):
        world = started(seed, 13, 4)
        chosen = world.random.sample(world.living(), cut_off)
        for replica in chosen:
            world.at(world.random.randrange(POLL_US), partial(world.cut, replica))
        world.run_until(world.now_us + 5 * US)
        assert world.total() >= world.target
        world.run_until(world.now_us + 5 * TTL_US)
        assert [replica.workers for replica in chosen] == [world.target] * cut_off
        world.heal()
        world.run_until(world.now_us + CONVERGED_US)
        assert_adds_up(world)
        assert_under_only_after_departures(world, 0)


def strike(world: World, chance: random.Random) -> None:
    """One thing that goes wrong, or one that is put right."""
    living = world.living()
    victim = chance.choice(living)
    acts: list[Callable[[], None]] = [
        partial(world.cut, victim),
        partial(world.link, victim),
        partial(world.freeze, victim, chance.choice([1, 10, 40])),
        world.jump_wall,
        world.join,
    ]
    if len(living) > 1:
        acts += [partial(world.crash, victim), partial(world.leave, victim)]
    chance.choice(acts)()


def storm(seed: int, maker: Callable[[str, int], Membership] = Membership) -> World:
    """Ten minutes in which anything may happen at once, then peace."""
    chance = random.Random(seed)
    world = World(seed, chance.randint(0, 40), maker)
    for _ in range(chance.randint(1, 6)):
        world.join()
    world.run_until(CONVERGED_US)
    world.sums.clear()
    for _ in range(40):
        world.run_until(world.now_us + chance.randrange(15 * US))
        strike(world, chance)
    world.heal()
    world.run_until(world.now_us + CONVERGED_US)
    return world


def assert_weathered(world: World) -> None:
    # A replica may be cut off with a view that lists one that has just crashed: two lives.
    assert_under_only_after_departures(world, 2 * TTL_US + TTL_US // 50 + 2 * TURN_US)
    assert_adds_up(world)


def test_whatever_happened_the_shares_add_up_again_and_only_departures_left_too_few() -> None:
    for seed in range(150):
        assert_weathered(storm(seed))


class Undying(Membership):
    """A view that never ages, as by a clock that was set back."""

    def view(self, now_us: int) -> View | None:
        return super().view(0)


def test_the_storm_finds_a_view_that_never_ages() -> None:
    found = 0
    for seed in range(150):
        try:
            assert_weathered(storm(seed, Undying))
        except AssertionError:
            found += 1
    assert found > 0
