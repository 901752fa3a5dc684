"""Configurations that no supervisor may start with: all problems at once, one line each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from atleastonce.system.supervisor.config import ConfigError, SupervisorConfig, parse_config

from .supervised import base_config


def parse(**changes: object) -> SupervisorConfig:
    config = base_config(Path("/nowhere"), 6632)
    for name, value in changes.items():
        outer, _, inner = name.partition("__")
        if inner:
            config[outer][inner] = value
        else:
            config[outer] = value
    return parse_config(json.dumps(config).encode())


def problems(**changes: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(**changes)
    return caught.value.problems


def test_a_sound_configuration_is_taken() -> None:
    config = parse()
    assert config.worker.state_dir == "/nowhere"
    assert config.renewal_policy().reserve_us == 3_000_000
    assert config.planted() == frozenset()
    assert config.hand_back_policy().budget_us == 3_000_000


def test_a_hand_back_takes_half_of_what_is_left_of_a_short_lease() -> None:
    config = parse(worker__retry_after_s=5.0, worker__timeout_s=4.0, renewal__interval_s=1.0)
    assert config.hand_back_policy().budget_us == 1_750_000


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"workers": 0}, ["workers is 0", "1 to 4096"]),
        ({"workers": 5000}, ["workers is 5000", "1 to 4096"]),
        ({"app": "no_colon"}, ["'no_colon'", "module:attribute"]),
        ({"state_dir": ""}, ["state_dir is empty"]),
        ({"shutdown_grace_s": 5.0}, ["shutdown_grace_s is 5", "timeout_s, 5"]),
        ({"worker__retry_after_s": 5.0}, ["retry_after_s is 5", "must exceed timeout_s"]),
        ({"worker__retry_after_s": 8.0, "worker__timeout_s": 8.0}, ["retry_after_s is 8"]),
        ({"renewal__interval_s": 5.0}, ["retry_after_s is 8", "exceed 8"]),
        ({"renewal__timeout_s": 3.0}, ["2 × (3 × 1 endpoints)"]),
        ({"worker__prefetch": 0}, ["prefetch is 0", "1000"]),
        ({"worker__endpoints": []}, ["endpoints is empty"]),
        ({"restart_backoff_s": 0}, ["restart_backoff_s is 0"]),
        ({"control_ttl_s": 29}, ["control_ttl_s is 29", "30 to 86400"]),
        ({"heartbeat_timeout_s": 0}, ["heartbeat_timeout_s is 0"]),
        ({"restart_backoff_max_s": 0.01}, ["restart_backoff_max_s is 0.01", "0.05"]),
        ({"stable_after_s": -1}, ["stable_after_s is -1"]),
        ({"renewal__margin_s": -1}, ["renewal.margin_s is -1"]),
        ({"hand_back_timeout_s": 0}, ["hand_back_timeout_s is 0"]),
        ({"hand_back_timeout_s": 8.0}, ["hand_back_timeout_s is 8", "below 7.2"]),
        ({"worker__bugs": ["no-such-bug"]}, ["'no-such-bug'", "hand-back-twice"]),
        ({"bugs": ["no-such-bug"]}, ["'no-such-bug'", "hand-back-twice"]),
        ({"no_such_key": 1}, ["no_such_key"]),
        ({"worker__no_such_key": 1}, ["no_such_key"]),
        ({"workers": "many"}, ["workers"]),
    ],
)
def test_a_refusal_names_the_value_and_what_is_allowed(
    changes: dict[str, Any], words: list[str]
) -> None:
    (problem,) = problems(**changes)
    assert all(word in problem for word in words), problem
    assert "\n" not in problem


def test_all_problems_are_listed_at_once() -> None:
    found = problems(workers=0, app="x", bugs=["y"], worker__prefetch=0, restart_backoff_s=-1)
    assert len(found) == 5
    assert len(problems(workers=0, shutdown_grace_s=1.0, renewal__interval_s=60.0)) == 3


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"app": 1}', b'{"worker": 3}'])
def test_what_is_no_configuration_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigError):
        parse_config(text)


@pytest.mark.cluster
def test_the_command_prints_one_line_a_problem_and_exits_2(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**base_config(tmp_path, 1), "workers": 0, "app": ""}))
    ended = subprocess.run(
        [sys.executable, "-m", "atleastonce.system.supervisor", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 2
    assert "workers is 0" in ended.stderr
