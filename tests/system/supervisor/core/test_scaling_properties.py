"""Whatever the backlogs do, bounds hold, and a backlog that holds still is met."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from atleastonce.system.supervisor.core.demand import QueueLoad, demand
from atleastonce.system.supervisor.core.moves import Place
from atleastonce.system.supervisor.core.scaling import Scaler
from atleastonce.system.supervisor.core.scaling_policy import Balance, ScalingPolicy, Strategy

S = 1_000_000
DEPTHS = st.integers(0, 400)
RUNTIMES = st.one_of(st.none(), st.floats(0, 1e9), st.just(float("inf")), st.just(float("nan")))
LOADS = st.builds(QueueLoad, DEPTHS, RUNTIMES)


@st.composite
def policies(draw: st.DrawFn) -> ScalingPolicy:
    queues = draw(st.integers(1, 5))
    floor = draw(st.integers(0, 2))
    least = draw(st.integers(0, 6))
    most = max(queues * max(1, floor), least, draw(st.integers(1, 25)))
    return ScalingPolicy(
        queues=queues,
        balance=draw(st.sampled_from(Balance)),
        strategy=draw(st.sampled_from(Strategy)),
        min_processes=least,
        max_processes=most,
        processes=draw(st.integers(queues, 25)),
        min_per_queue=floor,
        max_shift=draw(st.integers(1, 4)),
        fast_scale_up=draw(st.booleans()),
        scale_down_delay_us=draw(st.sampled_from((0, 10 * S))),
    )


def apply(scaler: Scaler, at_us: int, loads: list[QueueLoad] | None, state: list[Place]) -> None:
    moves = scaler.evaluate(at_us, loads, state)
    for place, was in enumerate(state):
        stops, starts = moves.stops[place], moves.starts[place]
        assert 0 <= stops <= was.active
        assert starts >= 0
        assert not (stops and starts)
        state[place] = Place(was.active - stops + starts, was.draining + stops)


@settings(max_examples=60, deadline=None)
@given(st.data(), policies())
def test_bounds_are_never_exceeded_and_wakes_only_add(
    data: st.DataObject, policy: ScalingPolicy
) -> None:
    scaler = Scaler(policy, listens=data.draw(st.booleans()))
    state = [Place()] * policy.places
    now_us, has_grown = 0, False
    for _ in range(data.draw(st.integers(1, 25))):
        loads = data.draw(
            st.one_of(st.none(), st.lists(LOADS, min_size=policy.queues, max_size=policy.queues))
        )
        before = sum(place.active for place in state)
        is_whole = scaler.is_due(now_us)
        apply(scaler, now_us, loads, state)
        after = sum(place.active for place in state)
        draining = sum(place.draining for place in state)
        assert after + draining <= policy.most
        assert is_whole or after >= before
        has_grown = has_grown or after >= policy.least
        assert not has_grown or draining or after >= policy.least - policy.max_shift
        for place, was in enumerate(state):
            state[place] = Place(was.active, was.draining - data.draw(st.integers(0, was.draining)))
        now_us += data.draw(st.integers(1, 5 * S))


@settings(max_examples=80, deadline=None)
@given(st.data(), policies())
def test_a_backlog_that_holds_still_is_met_and_then_nothing_moves(
    data: st.DataObject, policy: ScalingPolicy
) -> None:
    loads = data.draw(st.lists(LOADS, min_size=policy.queues, max_size=policy.queues))
    active = data.draw(
        st.lists(st.integers(0, 6), min_size=policy.places, max_size=policy.places).filter(
            lambda counts: sum(counts) <= policy.most
        )
    )
    state = [Place(count) for count in active]
    scaler = Scaler(policy)
    rounds = 3 * policy.most + 10
    for turn in range(rounds):
        apply(scaler, turn * 3 * S, loads, state)
        state = [Place(place.active, 0) for place in state]
    total, _ = demand(policy, loads)
    counts = tuple(place.active for place in state)
    assert sum(counts) == total
    assert scaler.target == counts
    assert scaler.evaluate(rounds * 3 * S, loads, state).is_nothing
