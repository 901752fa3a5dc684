"""Fixtures: scripted servers that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from .scripted_server import Script, ScriptedServer


@pytest.fixture
def serve() -> Iterator[Callable[[Script], ScriptedServer]]:
    servers: list[ScriptedServer] = []

    def start(script: Script) -> ScriptedServer:
        servers.append(ScriptedServer(script))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
