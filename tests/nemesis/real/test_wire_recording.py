"""Packets of a private network in a file: sent, delivered, dropped."""

from __future__ import annotations

import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
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
MANY = 200


def send(network: PrivateNetwork, text: bytes, address: str) -> None:
    with network.inside("n1"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(text, (address, PORT))


def hear(receiver: socket.socket, text: bytes) -> None:
    assert select.select([receiver], [], [], WAIT_S)[0]
    assert receiver.recv(64) == text


def begin(network: PrivateNetwork, folder: Path, marks: Path) -> subprocess.Popen[bytes]:
    """The recorder of a network, once it records."""
    ends = [(end.name, end.port, end.number) for end in network.ends.values()]
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
    return recorder


def listen(network: PrivateNetwork) -> socket.socket:
    with network.inside("n2"):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(("0.0.0.0", PORT))
    return receiver


def play(folder: Path) -> None:
    """Record datagrams: one that arrives, one that is cut off, one for control, one after it."""
    network = PrivateNetwork(("n1", "n2"))
    links = PrivateLinks(network)
    marks = folder / "marks.jsonl"
    links.tell(MarkWriter(marks))
    recorder = begin(network, folder, marks)
    with listen(network) as receiver:
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


def play_to_the_end(folder: Path) -> None:
    """Record datagrams that arrive while the recorder stands still, and is told to end."""
    network = PrivateNetwork(("n1", "n2"))
    marks = folder / "marks.jsonl"
    MarkWriter(marks)
    recorder = begin(network, folder, marks)
    recorder.send_signal(signal.SIGSTOP)
    with listen(network) as receiver:
        for _ in range(MANY):
            send(network, b"one", network.ends["n2"].address)
            hear(receiver, b"one")
    recorder.terminate()
    recorder.send_signal(signal.SIGCONT)
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


def test_what_went_over_the_wire_before_the_end_is_recorded(tmp_path: Path) -> None:
    in_private(lambda: play_to_the_end(tmp_path))
    if not (tmp_path / "capture").exists():
        return  # Nobody has a private network here, as `in_private` made sure.

    seen = [each for each in read_folder(tmp_path / "capture") if each.frame[23] == 17]

    told = Counter(each.interface for each in seen)
    assert told == {"n1>n2 sent": MANY, "n1>n2 delivered": MANY}
