"""How the rules and counts of several faults on one link add up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from atleastonce.nemesis.link_counts import add, shown, subtract
from atleastonce.nemesis.links import LinkCounts, LinkRule, combine

SHARES = st.floats(0, 1)
RULES = st.builds(
    LinkRule,
    drop=st.booleans(),
    delay_ms=st.floats(0, 1000),
    loss=SHARES,
    corrupt=SHARES,
    rate_bytes_s=st.floats(0, 1e6),
    reset=st.sampled_from(["", "both", "one"]),
    refuse=st.booleans(),
)
COUNTS = st.builds(LinkCounts, passed=st.integers(0, 99), dropped=st.integers(0, 99))


def test_no_rule_is_the_rule_that_does_nothing() -> None:
    assert combine(()) == LinkRule()


@given(RULES, RULES)
def test_stricter_rule_wins_whichever_came_first(one: LinkRule, other: LinkRule) -> None:
    both = combine((one, other))

    assert both.drop == (one.drop or other.drop)
    assert both.delay_ms == max(one.delay_ms, other.delay_ms)
    assert both.loss == max(one.loss, other.loss)
    rates = [rate for rate in (one.rate_bytes_s, other.rate_bytes_s) if rate]
    assert both.rate_bytes_s == (min(rates) if rates else 0)
    again = combine((other, one))
    assert (again.drop, again.loss, again.rate_bytes_s) == (
        *(both.drop, both.loss),
        both.rate_bytes_s,
    )


def test_acknowledgements_are_spared_only_if_every_cut_spares_them() -> None:
    sparing, cut = LinkRule(drop=True, spares_acks=True), LinkRule(drop=True)
    assert combine((sparing, LinkRule(delay_ms=5))).spares_acks
    assert not combine((sparing, cut)).spares_acks
    assert not combine((cut, sparing)).spares_acks
    assert not combine((LinkRule(delay_ms=5),)).spares_acks


@given(RULES)
def test_rule_twice_is_the_rule(rule: LinkRule) -> None:
    assert combine((rule, rule)) == rule


@given(COUNTS, COUNTS)
def test_counts_come_apart_as_they_were_put_together(one: LinkCounts, other: LinkCounts) -> None:
    assert subtract(add(one, other), other) == one


def test_counts_show_what_is_not_0() -> None:
    assert shown(LinkCounts(dropped=3)) == {"dropped": 3}
