"""Ports that stay ours, and the tail of a log."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from atleastonce.verifier.children import PortHold, log_tail
from atleastonce.verifier.errors import UsageError


def _listen(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen()
    return sock


def test_held_port_takes_a_listener_again_and_again_but_no_stranger() -> None:
    hold = PortHold()
    port = hold.take(["n1"], 0)["n1"].client

    for _ in range(2):
        with _listen(port), socket.create_connection(("127.0.0.1", port)):
            pass
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", port))
    hold.close()


def test_nodes_get_different_ports() -> None:
    hold = PortHold()
    ports = hold.take(["n1", "n2", "n3"], 0)
    hold.close()

    assert len({port for pair in ports.values() for port in (pair.client, pair.peer)}) == 6


def test_free_ports_are_none_that_the_system_hands_out() -> None:
    handed_out = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    first = int(handed_out[0])
    hold = PortHold()
    ports = hold.take(["n1", "n2", "n3"], 0)
    hold.close()

    for pair in ports.values():
        assert first <= 10_240 or max(pair.client, pair.peer) < first


def test_port_in_use_is_named() -> None:
    with _listen(0) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} cannot be used"):
            PortHold().take(["n1"], port)


def test_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "n1.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))

    assert log_tail(log, 2) == "  line 98\n  line 99"


def test_tail_says_that_a_log_is_empty_or_missing(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()

    assert "is empty or missing" in log_tail(tmp_path / "empty.log")
    assert "is empty or missing" in log_tail(tmp_path / "missing.log")
