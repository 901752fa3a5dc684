"""What levels cost: to build and to leave a world, to cut a link, to go through bridge or switch.

Run: python -m benchmarks.levels [--rounds N] [--starts N] [--no-runs]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

from atleastonce.nemesis.links import LinkRule
from atleastonce.nemesis.namespaces import CLONE_NEWNET, CLONE_NEWNS, inside_network, leave
from atleastonce.nemesis.private_links import PrivateLinks
from atleastonce.nemesis.private_network import DATA_NETWORK, PrivateNetwork
from atleastonce.nemesis.switch.process import SwitchProcess
from atleastonce.verifier.levels import probe_machine
from atleastonce.verifier.probing import LevelProbe, RefusedError, try_all

NODES: Final = ("n1", "n2", "n3", "n4", "n5")
PROBE_PAUSE_S: Final = 0.0002
SETTLE_S: Final = 0.02
TRIPS: Final = 1000
TRIP_PAUSE_S: Final = 0.002
BULK_BYTES: Final = 64 << 20
LIMIT_S: Final = 300.0

RUNS: Final = (
    ("level 0", ("--level", "0", "--nemesis", "none", "--time-limit", "2")),
    ("level 1, bridge", ("--level", "1", "--nemesis", "none", "--time-limit", "2")),
    ("level 1, switch", ("--level", "1", "--nemesis", "packet-loss", "--time-limit", "12")),
    ("level 2, ext4", ("--level", "2", "--nemesis", "power-cut", "--time-limit", "12")),
)


def spread(values_ms: Sequence[float]) -> str:
    """Median and worst."""
    return f"median {statistics.median(values_ms):.2f} ms, worst {max(values_ms):.2f} ms"


class Bench:
    """Five nodes in a private network."""

    def __init__(self, *, switched: bool) -> None:
        begun_s = time.perf_counter()
        self.network = PrivateNetwork(NODES, switched=switched)
        self.built_ms = (time.perf_counter() - begun_s) * 1000
        self.switch: SwitchProcess | None = None
        if switched:
            ports = [(end.port, end.number) for end in self.network.ends.values()]
            with inside_network(self.network.home):
                self.switch = SwitchProcess(ports, DATA_NETWORK, 1)
        self.links = PrivateLinks(self.network, self.switch)
        self.network.prove("n1", "n2")

    def datagrams(self) -> tuple[socket.socket, socket.socket]:
        """A sender at n1, and a receiver at n2."""
        address = (self.network.ends["n2"].address, 7000)
        with self.network.inside("n2"):
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            receiver.bind(address)
        with self.network.inside("n1"):
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sender.connect(address)
        return sender, receiver

    def connection(self) -> tuple[socket.socket, socket.socket]:
        """A TCP connection from n1 to n2."""
        with self.network.inside("n2"):
            listener = socket.create_server((self.network.ends["n2"].address, 0))
        with self.network.inside("n1"):
            one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
        listener.close()
        for sock in (one, other):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return one, other


def in_world(scenario: Callable[[], str]) -> str:
    """Run a scenario in a child with a network namespace of its own."""

    def attempt() -> str:
        leave(CLONE_NEWNET | CLONE_NEWNS)
        return scenario()

    (finding,) = try_all([LevelProbe("benchmark", attempt, "", "", "")], LIMIT_S)
    if not finding.passed:
        raise RefusedError(finding.found)
    return finding.found


def cuts(rounds: int, *, switched: bool) -> str:
    """Cut and join one direction again and again under a stream of datagrams."""
    bench = Bench(switched=switched)
    sender, receiver = bench.datagrams()
    arrivals: list[float] = []
    is_over = threading.Event()

    def send() -> None:
        while not is_over.is_set():
            with suppress(OSError):
                sender.send(b"x")
            time.sleep(PROBE_PAUSE_S)

    def receive() -> None:
        receiver.settimeout(0.1)
        while not is_over.is_set():
            with suppress(TimeoutError):
                receiver.recv(8)
                arrivals.append(time.perf_counter())

    took_ms, leaked_ms, healed_ms = [], [], []

    async def main() -> None:
        for number in range(rounds):
            await trio.sleep(SETTLE_S)
            begun_s = time.perf_counter()
            await bench.links.begin(f"f{number}", {("n1", "n2"): LinkRule(drop=True)})
            cut_s = time.perf_counter()
            await trio.sleep(SETTLE_S)
            last_s = arrivals[-1]
            ending_s = time.perf_counter()
            await bench.links.end(f"f{number}")
            while arrivals[-1] <= ending_s:
                await trio.sleep(0.0002)
            first_s = next(at for at in arrivals[-100:] if at > ending_s)
            took_ms.append((cut_s - begun_s) * 1000)
            leaked_ms.append(max(0.0, last_s - begun_s) * 1000)
            healed_ms.append((first_s - ending_s) * 1000)

    threads = [threading.Thread(target=each) for each in (send, receive)]
    for thread in threads:
        thread.start()
    try:
        trio.run(main)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    return (
        f"command {spread(took_ms)}; last packet after the command began {spread(leaked_ms)}; "
        f"first one after the heal began {spread(healed_ms)}"
    )


def ways(*, switched: bool) -> str:
    """Round trips and bulk over TCP, and the switch's CPU for each frame."""
    bench = Bench(switched=switched)
    one, other = bench.connection()

    def echo() -> None:
        while data := other.recv(256):
            other.sendall(data)

    thread = threading.Thread(target=echo)
    thread.start()
    trips_ms = []
    for _ in range(TRIPS):
        begun_s = time.perf_counter()
        one.sendall(b"x" * 256)
        one.recv(256)
        trips_ms.append((time.perf_counter() - begun_s) * 1000)
        time.sleep(TRIP_PAUSE_S)
    one.close()
    thread.join()
    one, other = bench.connection()
    before_s = _cpu_s(bench.switch)
    begun_s = time.perf_counter()

    def swallow() -> None:
        while other.recv(1 << 20):
            pass

    thread = threading.Thread(target=swallow)
    thread.start()
    one.sendall(bytes(BULK_BYTES))
    one.close()
    thread.join()
    rate = BULK_BYTES / (time.perf_counter() - begun_s) / 1e6
    told = f"round trip {spread(trips_ms)}; {rate:.0f} MB/s; built in {bench.built_ms:.1f} ms"
    if bench.switch is not None:
        # Frames of MTU 9000 one way; acknowledgements the other way are a fraction of them.
        each_us = (_cpu_s(bench.switch) - before_s) / (BULK_BYTES / 8948) * 1e6
        told += f"; {each_us:.0f} µs of CPU for each full frame"
    return told


def _cpu_s(switch: SwitchProcess | None) -> float:
    if switch is None:
        return 0.0
    stat = Path(f"/proc/{switch.process.pid}/stat").read_text(encoding="ascii")
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def runs(name: str, options: Sequence[str], store: Path, times: int) -> str:
    """Run five nodes so many times, and say how long they took to serve and to stop."""
    took: list[tuple[float, float, float]] = []
    for number in range(times):
        told = run(options, store / str(number))
        if isinstance(told, str):
            return f"{name}: {told}"
        took.append(told)
    words = ("serving after", "gone after", "around all phases")
    columns = zip(words, zip(*took, strict=True), strict=True)
    return f"{name}, {times} runs: " + "; ".join(
        f"{word} median {statistics.median(column):.2f} s, worst {max(column):.2f} s"
        for word, column in columns
    )


def run(options: Sequence[str], store: Path) -> tuple[float, float, float] | str:
    """Run five nodes: seconds until they serve, until they are gone, and around all phases."""
    command = (
        *(sys.executable, "-m", "atleastonce.verifier", "run", "queue", "--nodes", "5"),
        *(*options, "--seed", "3", "--set", "settle_s=0.5", "--store", str(store), "--quiet"),
    )
    begun_s = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took_s = time.perf_counter() - begun_s
    if done.returncode:
        return f"{done.stdout.strip()} {done.stderr.strip()}"
    phases = json.loads((store / "latest" / "harness.json").read_bytes())["phases_s"]
    spent_s = sum(phases.values())
    return phases["start"], phases["stop"], took_s - spent_s


def kill(store: Path) -> str:
    """Kill the outside of a private world, and wait until nothing of it is left."""
    command = (
        *(sys.executable, "-m", "atleastonce.verifier", "run", "queue", "--nodes", "5"),
        *("--level", "1", "--nemesis", "none", "--time-limit", "60", "--store", str(store)),
    )
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not any(path.stat().st_size for path in store.glob("queue-none/*/history.jsonl")):
        time.sleep(0.05)
    count = len(_living(str(store)))
    begun_s = time.perf_counter()
    process.send_signal(signal.SIGKILL)
    while _living(str(store)):
        time.sleep(0.002)
    took_ms = (time.perf_counter() - begun_s) * 1000
    process.wait()
    return f"SIGKILL of the outside: {count} processes gone after {took_ms:.0f} ms"


def _living(mark: str) -> list[str]:
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if mark.encode() in Path(entry.path, "cmdline").read_bytes():
                    found.append(entry.name)
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="levels", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50, help="Cuts of a link.")
    parser.add_argument("--starts", type=int, default=5, help="Whole runs at each level.")
    parser.add_argument("--no-runs", action="store_true", help="Leave whole runs out.")
    options = parser.parse_args()
    begun_s = time.perf_counter()
    findings = probe_machine(extras=True)
    took_ms = (time.perf_counter() - begun_s) * 1000
    print(f"probes: {len(findings)} in {took_ms:.0f} ms", flush=True)
    for switched in (False, True):
        name = "switch" if switched else "bridge"
        cut = in_world(partial(cuts, options.rounds, switched=switched))
        print(f"{name}, {options.rounds} cuts: {cut}", flush=True)
        print(f"{name}: {in_world(partial(ways, switched=switched))}", flush=True)
    if not options.no_runs:
        with tempfile.TemporaryDirectory() as folder:
            for number, (name, arguments) in enumerate(RUNS):
                store = Path(folder, str(number))
                print(runs(name, arguments, store, options.starts), flush=True)
            print(kill(Path(folder, "killed")), flush=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(f"largest process {peak} MiB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
