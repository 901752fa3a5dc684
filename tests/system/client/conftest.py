"""Fixtures: scripted servers that end with the test."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator

import pytest

from .scripted_server import Script, ScriptedServer


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedServer]]:
    servers: list[ScriptedServer] = []

    def start(script: Script, tls: ssl.SSLContext | None = None) -> ScriptedServer:
        servers.append(ScriptedServer(script, tls))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
