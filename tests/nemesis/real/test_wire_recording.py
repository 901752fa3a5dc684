"""Packets of a private network in a file: sent, delivered, dropped."""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import trio

from atleastonce.histories.pcapng import read_folder
from atleastonce.nemesis.links import LinkRule
from atleastonce.nemesis.namespaces import inside_network
from atleastonce.nemesis.private_links import PrivateLinks
from atleastonce.nemesis.private_network import DATA_NETWORK, PrivateNetwork
from atleastonce.nemesis.wire.marks import MarkWriter
from atleastonce.nemesis.wire.recording import WirePlan

from .private_bench import in_private

PORT = 7000
WAIT_S = 10.0


def send(network: PrivateNetwork, text: bytes, address: str) -> None:
    with network.inside("n1"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(text, (address, PORT))


def hear(receiver: socket.socket, text: bytes) -> None:
    assert select.select([receiver], [], [], WAIT_S)[0]
    assert receiver.recv(64) == text


def play(folder: Path) -> None:
    """Record datagrams: one that arrives, one that is cut off, one for control, one after it."""
    network = PrivateNetwork(("n1", "n2"))
    links = PrivateLinks(network)
    ends = [(end.name, end.port, end.number) for end in network.ends.values()]
    marks = folder / "marks.jsonl"
    links.tell(MarkWriter(marks))
    plan = WirePlan(ends, list(DATA_NETWORK), str(folder / "capture"), 1 << 20, 2, str(marks))
    (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
    with inside_network(network.home):
        recorder = subprocess.Popen(
            (sys.executable, "-m", "atleastonce.nemesis.wire", str(folder / "plan.json"))
        )
    deadline_s = time.monotonic() + WAIT_S
    while not any(path.stat().st_size for path in (folder / "capture").glob("*.pcapng")):
        assert time.monotonic() < deadline_s
        select.select([], [], [], 0.01)
    with network.inside("n2"):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(("0.0.0.0", PORT))
    with receiver:
        send(network, b"one", network.ends["n2"].address)
        hear(receiver, b"one")
        trio.run(links.begin, "f", {("n1", "n2"): LinkRule(drop=True)})
        send(network, b"two", network.ends["n2"].address)
        send(network, b"three", network.ends["n2"].control_address)
        hear(receiver, b"three")
        trio.run(links.end, "f")
        send(network, b"four", network.ends["n2"].address)
        hear(receiver, b"four")
    recorder.terminate()
    assert recorder.wait(WAIT_S) == 0


def test_each_packet_stands_where_it_was_seen_with_what_became_of_it(tmp_path: Path) -> None:
    before_ns = time.monotonic_ns()
    in_private(lambda: play(tmp_path))
    if not (tmp_path / "capture").exists():
        return  # Nobody has a private network here, as `in_private` made sure.

    seen = [each for each in read_folder(tmp_path / "capture") if each.frame[23] == 17]

    told = [
        (each.interface, each.words["verdict"], each.words["fault"], each.frame[42:45])
        for each in seen
    ]
    assert sorted(told) == [
        ("n1>n2 delivered", "pass", "-", b"fou"),
        ("n1>n2 delivered", "pass", "-", b"one"),
        ("n1>n2 sent", "drop", "f", b"two"),
        ("n1>n2 sent", "pass", "-", b"fou"),
        ("n1>n2 sent", "pass", "-", b"one"),
    ]
    for each in seen:
        assert before_ns < int(each.words["mono"]) < time.monotonic_ns()
