"""The command `python -m atleastonce.verifier.simulation.campaign`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from atleastonce.verifier.simulation.campaign import main
from atleastonce.verifier.simulation.hunts import hunt
from atleastonce.verifier.simulation.simulation import random_scenario
from atleastonce.verifier.simulation.tokens import encode_token


def test_a_clean_campaign_ends_with_zero_and_says_what_it_reached(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--seeds", "12", "--first-seed", "900", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "12 seeds" in out
    assert "elections" in out
    assert out.endswith("no violation\n")


def test_a_campaign_spreads_over_processes() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "atleastonce.verifier.simulation.campaign"),
            *("--seeds", "60", "--jobs", "2"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("60 seeds")


def test_a_campaign_with_a_planted_bug_ends_with_one_and_a_token_that_replays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--seeds", "25", "--jobs", "1", "--bug", "ack-wrong-term"]) == 1
    out = capsys.readouterr().out
    assert "acked-entry: " in out
    token = out.split("--replay ")[1].split()[0]
    assert main(["--replay", token]) == 1
    assert capsys.readouterr().out.startswith("acked-entry: ")


def test_replaying_a_clean_token_ends_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--replay", encode_token(random_scenario(3))]) == 0
    assert capsys.readouterr().out == "clean; the token says clean\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--seeds", "0"], "'0' is not a number from 1 on"),
        (["--seeds", "many"], "'many' is not a number from 1 on"),
        (["--first-seed", "-1"], "'-1' is not a number from 0 on"),
        (["--first-seed", "x"], "'x' is not a number from 0 on"),
        (["--jobs", "0"], "'0' is not a number from 1 on"),
        (["--bug", "nope"], "unknown bug 'nope'; choose from: ack-wrong-term"),
        (["--bug", "hand-back-twice"], "not a bug of the Raft core: 'hand-back-twice'"),
        (["--replay", "junk"], "not a simulation token: 'junk'"),
        (["--color"], "unrecognized arguments: --color"),
    ],
)
def test_bad_arguments_end_with_two_and_one_line(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_status:
        main(arguments)
    assert exit_status.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert text in captured.err


def test_a_hunt_without_a_catch_says_so() -> None:
    assert hunt("commit-old-term", 1, first_seed=1) is None
