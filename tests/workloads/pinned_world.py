"""What tests of pinned clients share: a mock clock, a recorder, and a broker made of a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio
import trio.testing

from atleastonce.histories.ops import Op, find_malformed, read_ops
from atleastonce.system.client import BrokerError, Call, Endpoint
from atleastonce.verifier.recorder import Recorder
from atleastonce.workloads.activity import Load

ENDPOINTS = {f"n{number}": Endpoint("127.0.0.1", number) for number in (1, 2, 3)}
Answer = Callable[[Call[Any]], tuple[Any, float]]
"""From a call to its answer, or the error to raise, and the seconds that it takes."""


def run(tmp_path: Path, use: Callable[[Recorder], Awaitable[None]]) -> list[Op]:
    recorder = Recorder(tmp_path / "history.jsonl")
    trio.run(use, recorder, clock=trio.testing.MockClock(autojump_threshold=0))
    recorder.close()
    ops = read_ops(tmp_path / "history.jsonl")
    assert find_malformed(ops) is None
    return ops


def load(**changes: Any) -> Load:
    values: dict[str, Any] = {"seed": 1, "rate": 60, "time_limit_s": 2.0, "settle_s": 0.0}
    return Load(**(values | changes))


def error(status: int | None, code: str, definite: bool) -> BrokerError:
    return BrokerError(status, code, "text", definite=definite)
