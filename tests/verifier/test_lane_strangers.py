"""Supervisors that are sent into state directories that they must not use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import trio

from atleastonce.checkers.lane_strangers import EXIT_REFUSED
from atleastonce.system.supervisor.statedir import open_state_directory
from atleastonce.verifier.activities import Stage
from atleastonce.verifier.lane_strangers import KINDS, send_strangers
from atleastonce.verifier.store import RunPaths
from atleastonce.workloads.lanes.registry import LANES

CONFIG = {
    "app": "nowhere:make",
    "workers": 1,
    "worker": {"queue": "jobs", "endpoints": [["127.0.0.1", 1]], "state_dir": ""},
    "renewal": {"timeout_s": 0.5},
}


class Ops:
    """A recorder that keeps what was told."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def invoke(self, f: str, value: object = None) -> object:
        return (f, value)

    def complete(self, op: object, kind: str, value: dict[str, Any]) -> None:
        assert kind == "ok"
        self.told.append(value)


async def run_supervisor(config: Path, log: Path) -> int:
    with log.open("wb") as output:
        ended = await trio.run_process(
            [sys.executable, "-m", "atleastonce.system.supervisor", str(config)],
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return ended.returncode << 8


def test_each_kind_of_directory_is_refused_in_one_line_and_nothing_is_left(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    run.config_of("supervisor").write_text(json.dumps(CONFIG | {"state_dir": "unset"}))
    _, lock = open_state_directory(run.supervisor)
    ops = Ops()
    stage = cast(Stage, SimpleNamespace(run=run, recorder=ops, run_stranger=run_supervisor))
    trio.run(send_strangers, stage, KINDS)
    os.close(lock)
    assert [told["kind"] for told in ops.told] == list(KINDS)
    for told in ops.told:
        (line,) = told["lines"]
        assert told["exit"] == EXIT_REFUSED, told
        assert told["directory"] in line
        assert list(told["left"]) == []


def test_the_lane_about_owners_sends_one_of_each_kind() -> None:
    assert LANES["install-owner"].strangers == KINDS
