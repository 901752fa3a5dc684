"""The proxy as a process of its own: its orders, its socket, its end."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trio

from atleastonce.nemesis.links import LinkError, LinkRule
from atleastonce.nemesis.process import is_alive
from atleastonce.nemesis.proxy.control import LINE_BYTES_MAX, Plan, Way
from atleastonce.nemesis.proxy.unix import connected_unix
from atleastonce.nemesis.proxy_links import ProxyLinks
from atleastonce.nemesis.world import Target

from .proxy_rig import free_port

START_S = 20.0
# Writes the plan in its own name, starts the proxy, says its pid, and ends when told to.
PARENT = """
import json, os, subprocess, sys
plan = json.loads(sys.argv[1])
plan["parent_pid"] = os.getpid()
with open(sys.argv[2], "w") as file: json.dump(plan, file)
child = subprocess.Popen([sys.executable, "-m", "atleastonce.nemesis.proxy", sys.argv[2]])
print(child.pid, flush=True)
sys.stdin.read()
os._exit(0)
"""


def plan_in(folder: Path) -> Plan:
    port = free_port()
    way = Way("n1", "n2", "client", ("127.77.1.2", port), ("127.0.0.1", port))
    return Plan([way], str(folder / "links.sock"), 1, 0, die_with_parent=False)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Plan]]:
    plan = plan_in(tmp_path)
    path = tmp_path / "links.json"
    path.write_bytes(msgspec.json.encode(plan))
    child = subprocess.Popen([sys.executable, "-m", "atleastonce.nemesis.proxy", str(path)])
    yield child, plan
    child.kill()
    child.wait()


async def is_taken(host: str, port: int) -> bool:
    """Nobody listens behind the proxy, so it may have hung up before the dial was looked at."""
    try:
        await (await trio.open_tcp_stream(host, port)).aclose()
    except OSError as error:
        causes = error.__cause__
        assert isinstance(causes, ExceptionGroup), causes
        return causes.subgroup(ConnectionResetError) is not None
    return True


def test_orders_come_over_a_socket_that_is_its_owners_alone(
    proxy: tuple[subprocess.Popen[bytes], Plan],
) -> None:
    _, plan = proxy

    async def main() -> None:
        links = ProxyLinks(Path(plan.control))
        await links.connect(START_S)
        assert stat.S_IMODE(Path(plan.control).stat().st_mode) == 0o600
        await links.begin("f", {("n1", "n2"): LinkRule(refuse=True)})
        with pytest.raises(OSError, match="all attempts"):
            await trio.open_tcp_stream(*plan.ways[0].listen)
        with pytest.raises(LinkError, match="begun already"):
            await links.begin("f", {("n1", "n2"): LinkRule(drop=True)})
        with trio.fail_after(5):
            while not (await links.counts("f"))["n1", "n2"].refused:
                await trio.sleep(0.01)
        await links.end("f")
        await links.end("f")
        assert await is_taken(*plan.ways[0].listen)
        links.close()
        with pytest.raises(LinkError, match="has ended"):
            await links.end("f")

    trio.run(main)


def test_a_line_that_is_no_order_or_too_long_ends_that_connection_only(
    proxy: tuple[subprocess.Popen[bytes], Plan],
) -> None:
    _, plan = proxy

    async def main() -> None:
        links = ProxyLinks(Path(plan.control))
        await links.connect(START_S)
        links.close()
        for junk in (b"{}\n", b"x" * (LINE_BYTES_MAX + 1)):
            with connected_unix(Path(plan.control)) as sock:
                sock.settimeout(5)
                try:
                    sock.sendall(junk)
                    assert sock.recv(1) == b""
                except (BrokenPipeError, ConnectionResetError):
                    continue
        await links.connect(START_S)
        assert await links.counts("f") == {}
        links.close()

    trio.run(main)


def test_sigterm_ends_it_and_its_socket(proxy: tuple[subprocess.Popen[bytes], Plan]) -> None:
    child, plan = proxy

    async def main() -> None:
        links = ProxyLinks(Path(plan.control))
        await links.connect(START_S)
        child.send_signal(signal.SIGTERM)
        child.wait(5)
        with pytest.raises(LinkError, match="does not answer"):
            await links.counts("f")

    trio.run(main)
    assert child.wait(5) == 0
    assert not Path(plan.control).exists()


def test_it_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    async def main(control: Path) -> None:
        links = ProxyLinks(control)
        await links.connect(START_S)
        links.close()

    plan = msgspec.structs.replace(plan_in(tmp_path), die_with_parent=True)
    told = msgspec.json.encode(plan).decode()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, told, str(tmp_path / "links.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent.stdin, parent.stdout:
        child = Target.of(int(parent.stdout.readline()), "links")
        trio.run(main, Path(plan.control))
        parent.stdin.close()
        parent.wait(5)
    deadline_s = time.monotonic() + 5
    while is_alive(child):
        assert time.monotonic() < deadline_s, "it lives on"
