"""The powers of a level are asked for once, and are the same in the private world of a run."""

from __future__ import annotations

import pytest

from atleastonce.nemesis.levels import PRIVATE_WORLD, Finding
from atleastonce.verifier import powers
from atleastonce.verifier.errors import UsageError


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the machine was tried out; it has no private world."""
    times = [0]

    def nothing() -> list[Finding]:
        times[0] += 1
        return [Finding(PRIVATE_WORLD, False, "refused", "no level above 0", "none")]

    monkeypatch.setattr(powers, "probe_machine", nothing)
    # Set first, so that it is put back to what it was.
    monkeypatch.setenv(powers.VARIABLE, "")
    return times


def test_a_level_is_probed_once_and_the_answer_is_handed_on(
    probed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = powers.powers_of("auto")
    assert powers.powers_of("auto") == found
    assert probed == [1]
    monkeypatch.setenv(powers.VARIABLE, "auto:links,signals")
    assert powers.powers_of("auto") == {"links", "signals"}
    assert powers.powers_of("0") != {"links", "signals"}


def test_a_level_that_does_not_exist_is_refused(probed: list[int]) -> None:
    with pytest.raises(UsageError, match="--level '7' is not allowed"):
        powers.powers_of("7")
    with pytest.raises(UsageError, match="--level '7' is not allowed"):
        powers.levels_of("7")
    assert probed == [0]


def test_without_anything_there_is_level_0_alone(probed: list[int]) -> None:
    [level] = powers.levels_of("auto")
    assert level == powers.powers_of("auto")
