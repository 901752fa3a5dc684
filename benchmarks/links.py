"""What the link proxy costs, and how fast its faults begin and end.

An echo server and its client run in this process, the proxy in one of its own, as in a run.

Run: python -m benchmarks.links [ROUNDS]

Prints latency of a round trip with and without the proxy, its CPU time for a chunk, the same while
it captures, and onset and heal of each fault: median and worst of 50, in milliseconds. Onset is
from the order to the last byte, or the last connection, that escaped the fault; heal is from the
order to the first byte, or connection, that came through.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import trio

from atleastonce.nemesis.links import LinkRule, Pair
from atleastonce.nemesis.proxy.control import CapturePlan, Plan, Service, Way
from atleastonce.nemesis.proxy_links import ProxyLinks

ROUNDS = 50
TRIPS = 2_000
CHUNK = b"x" * 256
BULK_BYTES = 64 << 20
THERE: Pair = ("n1", "n2")
BACK: Pair = ("n2", "n1")
PACE_S = 0.0005
HOLD_S = 0.03


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def proxy(folder: Path, way: Way, capture: bool) -> Iterator[tuple[Path, int]]:
    """A proxy for one way; its socket and its pid."""
    captured = CapturePlan(str(folder / "capture"), 8 << 20, 8) if capture else None
    plan = Plan([way], str(folder / "links.sock"), 1, os.getpid(), capture=captured)
    path = folder / "links.json"
    path.write_bytes(msgspec.json.encode(plan))
    child = subprocess.Popen([sys.executable, "-P", "-m", "atleastonce.nemesis.proxy", str(path)])
    try:
        yield Path(plan.control), child.pid
    finally:
        child.terminate()
        child.wait()


def cpu_s(pid: int) -> float:
    """CPU time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def echo(stream: trio.SocketStream) -> None:
    """Send back whatever comes."""
    with contextlib.suppress(trio.BrokenResourceError):
        async for data in stream:
            await stream.send_all(data)


async def swallow(stream: trio.SocketStream) -> None:
    """Take whatever comes and say when it has ended."""
    async for _ in stream:
        continue
    await stream.send_all(b"!")


async def receive(stream: trio.SocketStream, size: int) -> None:
    """Receive so many bytes."""
    while size:
        size -= len(await stream.receive_some(size))


async def trips(address: tuple[str, int], pause_s: float, count: int) -> list[float]:
    """Microseconds of each of so many round trips."""
    took: list[float] = []
    async with await trio.open_tcp_stream(*address) as stream:
        for _ in range(count):
            begun = time.perf_counter_ns()
            await stream.send_all(CHUNK)
            await receive(stream, len(CHUNK))
            took.append((time.perf_counter_ns() - begun) / 1000)
            if pause_s:
                await trio.sleep(pause_s)
    return took


async def bulk_mb_s(address: tuple[str, int]) -> float:
    """Megabytes a second, one way."""
    async with await trio.open_tcp_stream(*address) as stream:
        begun = time.perf_counter()
        block = b"x" * (1 << 20)
        for _ in range(BULK_BYTES >> 20):
            await stream.send_all(block)
        await stream.send_eof()
        await receive(stream, 1)
        return BULK_BYTES / 1e6 / (time.perf_counter() - begun)


def summary(times: list[float], digits: int = 1) -> dict[str, float]:
    """Median, the 99th percentile and the worst."""
    ordered = sorted(times)
    return {
        "median": round(statistics.median(ordered), digits),
        "p99": round(ordered[int(0.99 * (len(ordered) - 1))], digits),
        "worst": round(ordered[-1], digits),
    }


async def measure_cost(address: tuple[str, int], sink: tuple[str, int]) -> dict[str, object]:
    """Latency and throughput of a way."""
    await trips(address, 0, 100)
    return {
        "paced_us": summary(await trips(address, 0.002, TRIPS // 4)),
        "busy_us": summary(await trips(address, 0, TRIPS)),
        "bulk_mb_s": round(await bulk_mb_s(sink)),
    }


class Prober:
    """Sends a byte about every half millisecond on one connection; notes when each came back."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self.arrivals: list[float] = []
        self.lost: float | None = None
        self.connected: list[float] = []
        self.refusals: list[float] = []

    async def stream(self, stop: trio.Event) -> None:
        """Probe until told to stop or the connection is lost."""
        stream = await trio.open_tcp_stream(*self._address)
        async with stream, trio.open_nursery() as nursery:
            nursery.start_soon(self._hear, stream, nursery.cancel_scope)
            while not stop.is_set():
                try:
                    await stream.send_all(b".")
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    break
                await trio.sleep(PACE_S)
            nursery.cancel_scope.cancel()

    async def _hear(self, stream: trio.SocketStream, scope: trio.CancelScope) -> None:
        try:
            while await stream.receive_some(4096):
                self.arrivals.append(time.perf_counter())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self.lost = time.perf_counter()
        scope.cancel()

    async def dial(self, stop: trio.Event) -> None:
        """Connect again and again until told to stop."""
        while not stop.is_set():
            try:
                stream = await trio.open_tcp_stream(*self._address)
            except OSError:
                self.refusals.append(time.perf_counter())
            else:
                self.connected.append(time.perf_counter())
                await stream.aclose()
            await trio.sleep(PACE_S)


async def with_probe(
    prober: Prober,
    probe: Callable[[trio.Event], Awaitable[None]],
    act: Callable[[], Awaitable[None]],
) -> None:
    """Do something while a probe runs, once it has got through."""
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(probe, stop)
        while not prober.arrivals and not prober.connected:
            await trio.sleep(PACE_S)
        await act()
        stop.set()


class Faults:
    """Begins and ends one fault after the other.

    Attributes:
        order_ms: How long each order took to be in force.
    """

    def __init__(self, links: ProxyLinks) -> None:
        self._links = links
        self._number = 0
        self.order_ms: list[float] = []

    async def begin(self, rules: dict[Pair, LinkRule]) -> float:
        """Put rules into force; when that was asked for."""
        begun = time.perf_counter()
        self._number += 1
        await self._links.begin(f"f{self._number}", rules)
        self.order_ms.append((time.perf_counter() - begun) * 1000)
        return begun

    async def end(self) -> float:
        """Take them back; when that was asked for."""
        begun = time.perf_counter()
        await self._links.end(f"f{self._number}")
        return begun


async def cut(faults: Faults, address: tuple[str, int], rule: LinkRule) -> tuple[float, float]:
    """Onset and heal of a rule that stops bytes."""
    prober, times = Prober(address), [0.0, 0.0]

    async def act() -> None:
        times[0] = await faults.begin({THERE: rule, BACK: rule})
        await trio.sleep(HOLD_S)
        times[1] = await faults.end()
        await trio.sleep(HOLD_S)

    await with_probe(prober, prober.stream, act)
    last = max((at for at in prober.arrivals if at < times[1]), default=times[0])
    first = min((at for at in prober.arrivals if at >= times[1]), default=times[1] + 1)
    return max(0.0, last - times[0]) * 1000, (first - times[1]) * 1000


async def lose(faults: Faults, address: tuple[str, int], rule: LinkRule) -> tuple[float, float]:
    """Onset of a rule that ends connections; heal is until a new one carries a byte."""
    prober, begun = Prober(address), [0.0]

    async def act() -> None:
        begun[0] = await faults.begin({BACK: rule})
        with trio.move_on_after(1):
            while prober.lost is None:
                await trio.sleep(0.0002)

    await with_probe(prober, prober.stream, act)
    onset = ((prober.lost or begun[0] + 1) - begun[0]) * 1000
    healed = await faults.end()
    await trips(address, 0, 1)
    return onset, (time.perf_counter() - healed) * 1000


async def refuse(faults: Faults, address: tuple[str, int]) -> tuple[float, float]:
    """Onset and heal of refusals."""
    prober, times = Prober(address), [0.0, 0.0]

    async def act() -> None:
        times[0] = await faults.begin({THERE: LinkRule(refuse=True)})
        await trio.sleep(HOLD_S)
        times[1] = await faults.end()
        await trio.sleep(HOLD_S)

    await with_probe(prober, prober.dial, act)
    first = min((at for at in prober.refusals if at > times[0]), default=times[0] + 1)
    healed = min((at for at in prober.connected if at > times[1]), default=times[1] + 1)
    return (first - times[0]) * 1000, (healed - times[1]) * 1000


async def measure_faults(control: Path, address: tuple[str, int], rounds: int) -> dict[str, object]:
    """Onset and heal of each fault."""
    links = ProxyLinks(control)
    await links.connect(10)
    faults = Faults(links)
    kinds: dict[str, Callable[[], Awaitable[tuple[float, float]]]] = {
        "cut": lambda: cut(faults, address, LinkRule(drop=True)),
        "half open": lambda: lose(faults, address, LinkRule(half_open=True)),
        "reset both": lambda: lose(faults, address, LinkRule(reset="both")),
        "reset one": lambda: lose(faults, address, LinkRule(reset="one")),
        "refuse": lambda: refuse(faults, address),
    }
    told: dict[str, object] = {}
    for kind, one in kinds.items():
        both = [await one() for _ in range(rounds)]
        told[kind] = {
            "onset_ms": summary([onset for onset, _ in both], 2),
            "heal_ms": summary([heal for _, heal in both], 2),
        }
    told["order_ms"] = summary(faults.order_ms, 2)
    links.close()
    return told


async def measure(folder: Path, rounds: int) -> dict[str, object]:
    """All of it."""
    told: dict[str, object] = {}
    async with trio.open_nursery() as nursery:
        servers: dict[str, int] = {}
        for name, handler in (("echo", echo), ("sink", swallow)):
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            servers[name] = listeners[0].socket.getsockname()[1]
            nursery.start_soon(trio.serve_listeners, handler, listeners)
        direct = {name: ("127.0.0.1", port) for name, port in servers.items()}
        told["direct"] = await measure_cost(direct["echo"], direct["sink"])
        services: tuple[tuple[str, Service, bool], ...] = (
            ("proxy, clients", "client", False),
            ("proxy, peers", "peer", False),
            ("proxy, clients, captured", "client", True),
        )
        for name, service, capture in services:
            told[name] = await measure_proxy(folder / name, servers, service, capture)
        way = way_to(servers["echo"], "client")
        with proxy(folder, way, capture=False) as (control, _):
            told["faults"] = await measure_faults(control, way.listen, rounds)
        nursery.cancel_scope.cancel()
    return told


def way_to(port: int, service: Service) -> Way:
    """A way to a server in this process."""
    return Way(*THERE, service, ("127.77.1.2", free_port()), ("127.0.0.1", port))


async def measure_proxy(
    folder: Path, servers: dict[str, int], service: Service, capture: bool
) -> dict[str, object]:
    """Latency, throughput and CPU time through a proxy."""
    (folder / "echo").mkdir(parents=True)
    (folder / "sink").mkdir()
    echo_way, sink_way = (way_to(servers[name], service) for name in ("echo", "sink"))
    with (
        proxy(folder / "echo", echo_way, capture) as (control, pid),
        proxy(folder / "sink", sink_way, capture) as (sink_control, _),
    ):
        for each in (control, sink_control):
            links = ProxyLinks(each)
            await links.connect(10)
            links.close()
        told = await measure_cost(echo_way.listen, sink_way.listen)
        begun_s = cpu_s(pid)
        await trips(echo_way.listen, 0, 5 * TRIPS)
        told["cpu_us_a_chunk"] = round((cpu_s(pid) - begun_s) * 1e6 / (10 * TRIPS), 1)
    return told


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(trio.run(measure, Path(folder), rounds), indent=2))


if __name__ == "__main__":
    main()
