"""Servers of audited systems: killed, restarted and paused, and never one that is not ours."""

from __future__ import annotations

import shutil
import socket
import sys
from pathlib import Path

import msgspec
import pytest
import trio

from atleastonce.nemesis.backend import (
    Greeting,
    NotOursError,
    StartedBackend,
    redis_greeting,
    target_of_pid_file,
)
from atleastonce.nemesis.ledger import Ledger
from atleastonce.nemesis.process import is_alive, is_stopped

from .applying import SETTINGS, apply, fault
from .dummy_world import DummyWorld

# Answers as Redis does, which not every machine has.
_SERVER = """
import socket, sys
with socket.create_server(('127.0.0.1', int(sys.argv[1]))) as server:
    while True:
        connection, _ = server.accept()
        with connection:
            if connection.recv(100):
                connection.sendall(b'+PONG\\r\\n')
"""
PATIENT = msgspec.structs.replace(SETTINGS, recover_wait_s=15)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_backend(world: DummyWorld, folder: Path, ledger: Ledger) -> StartedBackend:
    port = free_port()
    found = shutil.which("redis-server")
    plain = [sys.executable, "-S", "-c", _SERVER, str(port)]
    real = [str(found), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    made = StartedBackend(
        "redis",
        plain if found is None else real,
        folder,
        redis_greeting("127.0.0.1", port),
        ledger,
        world.adopt,
    )
    made.start()
    assert trio.run(made.wait_ready, 15)
    world.own_backend = made
    return made


@pytest.mark.parametrize("kind", ["kill-backend", "restart-backend"])
def test_a_backend_that_was_ended_is_started_and_serves_again(
    world: DummyWorld, tmp_path: Path, kind: str
) -> None:
    ledger = Ledger(tmp_path / "own.jsonl")
    backend = make_backend(world, tmp_path, ledger)
    before = backend.target
    assert before is not None
    (result,) = apply(world, tmp_path, fault(kind), settings=PATIENT)
    assert result.bit, result.reason
    assert result.recovered_ns is not None, result.reason
    assert not is_alive(before)
    assert backend.target not in (None, before)
    ledger.close()


def test_a_paused_backend_is_seen_stopped_and_runs_again(world: DummyWorld, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "own.jsonl")
    backend = make_backend(world, tmp_path, ledger)
    before = backend.target
    (result,) = apply(world, tmp_path, fault("pause-backend"), settings=PATIENT)
    assert result.bit, result.reason
    assert result.recovered_ns is not None, result.reason
    assert backend.target == before
    assert before is not None
    assert not is_stopped(before)
    ledger.close()


def test_a_backend_that_is_down_is_no_bite(world: DummyWorld, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "own.jsonl")
    world.own_backend = StartedBackend(
        "redis", ["false"], tmp_path, Greeting("127.0.0.1", 1), ledger, world.adopt
    )
    (result,) = apply(world, tmp_path, fault("kill-backend"))
    assert not result.bit
    assert "no backend" in result.reason
    ledger.close()


def test_a_pid_file_is_believed_only_for_what_the_run_started(
    world: DummyWorld, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "own.jsonl")
    ours, other = world.node_process("n1"), world.node_process("n2")
    ledger.process_started(ours)
    file = tmp_path / "server.pid"
    file.write_text(f"{ours.pid}\n", encoding="ascii")
    assert target_of_pid_file(file, "server", tmp_path / "own.jsonl").pid == ours.pid
    file.write_text(str(other.pid), encoding="ascii")
    with pytest.raises(NotOursError, match="was not started by this run"):
        target_of_pid_file(file, "server", tmp_path / "own.jsonl")
    file.write_text("none", encoding="ascii")
    with pytest.raises(NotOursError, match="names no process: 'none'"):
        target_of_pid_file(file, "server", tmp_path / "own.jsonl")
    ledger.close()
