"""Fixtures: a broker made of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from atleastonce.system.client import BrokerError, Call
from atleastonce.workloads.pinned import PinnedClient

from .pinned_world import Answer


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], None]:
    """Let a function answer all calls."""

    def install(answer: Answer) -> None:
        async def ask(client: PinnedClient, call: Call[Any]) -> Any:
            value, seconds = answer(call)
            await trio.sleep(seconds)
            if isinstance(value, BrokerError):
                raise value
            return value

        monkeypatch.setattr(PinnedClient, "ask", ask)

    return install
