"""The registry of `--set`."""

from __future__ import annotations

import pytest

from atleastonce.verifier.errors import Exit, UsageError
from atleastonce.verifier.settings import REGISTRY, Settings, parse_settings


def test_defaults_fit_together() -> None:
    assert parse_settings([]) == Settings()


def test_every_setting_has_group_sentence_and_words_for_what_it_takes() -> None:
    for setting in REGISTRY.values():
        assert setting.group in {"system", "workload", "nemesis"}
        assert setting.sentence
        assert setting.allowed


def test_values_get_the_type_of_their_default() -> None:
    settings = parse_settings(
        ["prefetch=7", "ack_async=off", "retry_after_s=9.5", "disk=lossy", "pop_ahead = TRUE"]
    )

    assert settings.prefetch == 7
    assert settings.ack_async is False
    assert settings.retry_after_s == 9.5
    assert settings.disk == "lossy"
    assert settings.pop_ahead is True


def test_last_of_a_repeated_key_holds() -> None:
    assert parse_settings(["prefetch=7", "prefetch=9"]).prefetch == 9


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("prefetch", "expected KEY=VALUE"),
        ("=4", "expected KEY=VALUE"),
        ("prefech=4", "did you mean 'prefetch'?"),
        ("prefetch=many", "prefetch=many is not allowed; it takes an integer from 1 to 100"),
        ("prefetch=4.5", "prefetch=4.5 is not allowed"),
        ("prefetch=0", "an integer from 1 to 100"),
        ("prefetch=", "prefetch= is not allowed"),
        ("ack_async=maybe", "true or false"),
        ("disk=tape", "it takes lossy or real"),
        ("resend=1.5", "a number from 0 to 1"),
        ("resend=nan", "a number from 0 to 1"),
        ("down_s=inf", "a number from 0.1 to 600"),
    ],
)
def test_bad_pair_is_named_with_what_is_allowed(pair: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_settings([pair])

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.status == Exit.USAGE


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (["election_ms_min=900"], "below election_ms_max (election_ms_max is 800)"),
        (["heartbeat_ms=300"], "at most half of election_ms_min"),
        (["job_timeout_s=8"], "below retry_after_s"),
        (["pause_s_min=9"], "at most pause_s_max"),
        (["restart_backoff_s=9"], "at most restart_backoff_max_s"),
        (["share_bad=0.6", "share_flaky=0.6"], "the shares of the mix add up to 1.34"),
    ],
)
def test_values_that_do_not_fit_together_are_refused(pairs: list[str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_settings(pairs)

    assert words in str(caught.value)
