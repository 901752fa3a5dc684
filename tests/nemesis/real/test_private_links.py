"""The links of a private network: what each rule does to real sockets, and what it counts."""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
import trio

from atleastonce.nemesis.links import LinkError, LinkRule
from atleastonce.nemesis.namespaces import inside_network
from atleastonce.nemesis.private_links import PrivateLinks
from atleastonce.nemesis.private_network import DATA_NETWORK, PrivateNetwork
from atleastonce.nemesis.switch.process import SwitchProcess
from atleastonce.system.node.frames import frame
from atleastonce.system.raft.messages import AppendReply, VoteReply, encode_message

from .private_bench import in_private

PORT = 7000
ARRIVES_S = 3.0
SILENT_S = 0.15
NODES = ("n1", "n2", "n3")


class Bench:
    """A private network with its links."""

    def __init__(self, *, switched: bool = False) -> None:
        self.network = PrivateNetwork(NODES, switched=switched)
        self.switch: SwitchProcess | None = None
        if switched:
            ports = [(end.port, end.number) for end in self.network.ends.values()]
            with inside_network(self.network.home):
                self.switch = SwitchProcess(ports, DATA_NETWORK, 1)
        self.links = PrivateLinks(self.network, self.switch)

    def address(self, end: str) -> str:
        return self.network.ends[end].address

    def control_address(self, end: str) -> str:
        return self.network.ends[end].control_address

    @contextmanager
    def datagrams(self, source: str, target: str) -> Iterator[tuple[socket.socket, socket.socket]]:
        """A socket that sends from one end, and one that receives at another."""
        with self.network.inside(target):
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            receiver.bind((self.address(target), PORT))
        with self.network.inside(source):
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sender.connect((self.address(target), PORT))
        with receiver, sender:
            yield sender, receiver

    def passes(self, source: str, target: str) -> bool:
        """Whether a datagram arrives; waits long for one that should, and shortly for silence."""
        with self.datagrams(source, target) as (sender, receiver):
            sender.send(b"x")
            receiver.settimeout(ARRIVES_S)
            with suppress(TimeoutError):
                return receiver.recv(8) == b"x"
        return False

    def is_silent(self, source: str, target: str) -> bool:
        with self.datagrams(source, target) as (sender, receiver):
            sender.send(b"x")
            receiver.settimeout(SILENT_S)
            with suppress(TimeoutError):
                receiver.recv(8)
                return False
        return True

    @contextmanager
    def connection(self, source: str, target: str) -> Iterator[tuple[socket.socket, socket.socket]]:
        """A TCP connection: the dialer's end, and the listener's."""
        with self.network.inside(target):
            listener = socket.create_server((self.address(target), 0))
        with self.network.inside(source):
            dialer = socket.create_connection(listener.getsockname(), ARRIVES_S)
        with listener, dialer:
            taken, _ = listener.accept()
            with taken:
                taken.settimeout(ARRIVES_S)
                yield dialer, taken


def play(act: Callable[[Bench], Awaitable[None]], *, switched: bool = False) -> None:
    """Run an act on a bench, in a child with a network of its own."""

    def scenario() -> None:
        bench = Bench(switched=switched)

        async def main() -> None:
            await act(bench)

        trio.run(main)
        if bench.switch is not None:
            bench.switch.close()

    in_private(scenario)


CUT = LinkRule(drop=True)


@pytest.mark.parametrize("switched", [False, True])
def test_cut_is_one_way_adds_up_and_is_counted_by_fault(switched: bool) -> None:
    async def act(bench: Bench) -> None:
        links = bench.links
        assert bench.passes("n1", "n2")
        await links.begin("a", {("n1", "n2"): CUT})
        assert bench.is_silent("n1", "n2")
        assert bench.passes("n2", "n1")
        assert bench.passes("n1", "n3")
        await links.begin("b", {("n1", "n2"): CUT, ("n2", "n1"): CUT})
        assert bench.is_silent("n1", "n2")
        assert (await links.counts("a"))["n1", "n2"].dropped == 2
        await links.end("a")
        await links.end("a")
        assert bench.is_silent("n1", "n2")
        assert bench.is_silent("n2", "n1")
        await links.end("b")
        assert bench.passes("n1", "n2")
        assert bench.passes("n2", "n1")
        assert {pair: each.dropped for pair, each in (await links.counts("a")).items()} == {
            ("n1", "n2"): 2
        }
        assert {pair: each.dropped for pair, each in (await links.counts("b")).items()} == {
            ("n1", "n2"): 2,
            ("n2", "n1"): 1,
        }

    play(act, switched=switched)


def hears(sock: socket.socket) -> bytes:
    """What comes within a short time; empty for silence."""
    sock.settimeout(SILENT_S)
    with suppress(TimeoutError):
        return sock.recv(65_536)
    return b""


def test_an_end_that_is_deaf_but_for_acknowledgements_is_heard_as_before() -> None:
    async def act(bench: Bench) -> None:
        with bench.connection("n1", "n2") as (deaf, peer):
            cut = LinkRule(drop=True, spares_acks=True)
            await bench.links.begin("a", {("n2", "n1"): cut})
            peer.send(b"answer")
            # Far more than fits into both ends' buffers unacknowledged.
            left = size = 16 << 20

            def speak() -> None:
                deaf.settimeout(ARRIVES_S)
                deaf.sendall(bytes(size))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, speak)
                while left:
                    left -= len(await trio.to_thread.run_sync(peer.recv, 1 << 20))
            assert hears(deaf) == b""
            assert (await bench.links.counts("a"))["n2", "n1"].dropped >= 1
            await bench.links.end("a")
            deaf.settimeout(ARRIVES_S)
            assert deaf.recv(6) == b"answer"

    play(act, switched=True)


def test_messages_of_one_kind_are_lost_and_others_before_them_and_elsewhere_arrive() -> None:
    async def act(bench: Bench) -> None:
        answer = frame(encode_message(AppendReply(3, True, 8, 9)))
        vote = frame(encode_message(VoteReply(4, True, False)))
        with bench.connection("n2", "n1") as (peer, leader), bench.connection("n2", "n3") as other:
            rules = {("n2", "n1"): LinkRule(drop=True, only="append-answers")}
            await bench.links.begin("a", rules)
            peer.send(vote)
            assert hears(leader) == vote
            peer.send(answer)
            assert hears(leader) == b""
            other[0].send(answer)
            assert hears(other[1]) == answer
            leader.send(answer)
            assert hears(peer) == answer
            assert (await bench.links.counts("a"))["n2", "n1"].dropped >= 1
            await bench.links.end("a")
            leader.settimeout(ARRIVES_S)
            assert leader.recv(len(answer)) == answer

    play(act, switched=True)


def test_a_whole_cut_beside_a_deafness_drops_acknowledgements_too() -> None:
    async def act(bench: Bench) -> None:
        deaf = LinkRule(drop=True, spares_acks=True)
        await bench.links.begin("a", {("n2", "n1"): deaf})
        await bench.links.begin("b", {("n2", "n1"): LinkRule(drop=True, only="votes")})
        assert bench.passes("n2", "n1")
        await bench.links.begin("c", {("n2", "n1"): CUT})
        assert bench.is_silent("n2", "n1")
        await bench.links.end("c")
        assert bench.passes("n2", "n1")

    play(act, switched=True)


def test_a_bridge_cannot_tell_packets_apart() -> None:
    async def act(bench: Bench) -> None:
        for rule in (LinkRule(drop=True, only="votes"), LinkRule(drop=True, spares_acks=True)):
            with pytest.raises(LinkError, match="needs the packet switch, which this run has not"):
                await bench.links.begin("a", {("n2", "n1"): rule})
        with pytest.raises(LinkError, match="no messages of kind 'gossip'; choose from: appends"):
            await bench.links.begin("a", {("n2", "n1"): LinkRule(drop=True, only="gossip")})

    play(act)


@pytest.mark.parametrize("switched", [False, True])
def test_control_address_is_reached_through_a_cut(switched: bool) -> None:
    async def act(bench: Bench) -> None:
        cut = {(a, b): CUT for a in ("clients", "n1") for b in ("clients", "n1") if a != b}
        await bench.links.begin("a", cut)
        with bench.network.inside("n1"):
            listener = socket.create_server((bench.control_address("n1"), 0))
        with bench.network.inside("clients"):
            socket.create_connection(listener.getsockname(), ARRIVES_S).close()
        listener.close()

    play(act, switched=switched)


def test_refused_connections_are_refused_from_one_end_only_and_counted() -> None:
    async def act(bench: Bench) -> None:
        with bench.network.inside("n2"):
            listener = socket.create_server((bench.address("n2"), 0))
        with listener:
            await bench.links.begin("a", {("n1", "n2"): LinkRule(refuse=True)})
            with bench.network.inside("n1"), pytest.raises(ConnectionRefusedError):
                socket.create_connection(listener.getsockname(), ARRIVES_S)
            with bench.network.inside("n3"):
                socket.create_connection(listener.getsockname(), ARRIVES_S).close()
            await bench.links.end("a")
            with bench.network.inside("n1"):
                socket.create_connection(listener.getsockname(), ARRIVES_S).close()
            assert (await bench.links.counts("a"))["n1", "n2"].refused == 1

    play(act)


def test_reset_of_both_ends_is_seen_by_both_and_by_nobody_else() -> None:
    async def act(bench: Bench) -> None:
        with bench.connection("n1", "n2") as (one, other), bench.connection("n3", "n2") as kept:
            await bench.links.begin("a", {("n1", "n2"): LinkRule(reset="both")})
            with pytest.raises(ConnectionAbortedError):
                one.recv(1)
            with pytest.raises(ConnectionResetError):
                other.recv(1)
            kept[0].send(b"k")
            assert kept[1].recv(1) == b"k"
            assert (await bench.links.counts("a"))["n1", "n2"].resets == 1

    play(act)


@pytest.mark.parametrize("switched", [False, True])
def test_crafted_reset_is_believed_by_one_end_and_unknown_to_the_other(switched: bool) -> None:
    async def act(bench: Bench) -> None:
        with bench.connection("n1", "n2") as (peer, victim):

            async def speak() -> None:
                with suppress(OSError):
                    while True:
                        victim.send(b"x")
                        await trio.sleep(0.02)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(speak)
                await bench.links.begin("a", {("n1", "n2"): LinkRule(reset="one")})
            assert victim.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in (0, errno.ECONNRESET)
            with pytest.raises((ConnectionResetError, BrokenPipeError)):
                victim.send(b"y")
            peer.setblocking(False)
            while select.select([peer], [], [], SILENT_S)[0]:
                assert peer.recv(1 << 16), "the peer saw an end"
            assert (await bench.links.counts("a"))["n1", "n2"].resets == 1

    play(act, switched=switched)


@pytest.mark.parametrize("switched", [False, True])
def test_half_open_connection_is_closed_at_one_end_and_the_other_waits_on(switched: bool) -> None:
    async def act(bench: Bench) -> None:
        with bench.connection("n1", "n2") as (waiting, closed):
            await bench.links.begin("a", {("n1", "n2"): LinkRule(half_open=True)})
            with pytest.raises(ConnectionAbortedError):
                closed.recv(1)
            waiting.settimeout(SILENT_S)
            with pytest.raises(TimeoutError):
                waiting.recv(1)
            assert (await bench.links.counts("a"))["n1", "n2"].resets == 1
        assert bench.passes("n2", "n1")

    play(act, switched=switched)


def test_delay_is_as_long_as_asked_one_way() -> None:
    async def act(bench: Bench) -> None:
        await bench.links.begin("a", {("n1", "n2"): LinkRule(delay_ms=80)})
        for source, target, least_s, most_s in (("n1", "n2", 0.08, 2.0), ("n2", "n1", 0, 0.08)):
            best_s = 9.0
            for _ in range(5):
                with bench.datagrams(source, target) as (sender, receiver):
                    receiver.settimeout(ARRIVES_S)
                    sent_s = time.monotonic()
                    sender.send(b"x")
                    await trio.lowlevel.wait_readable(receiver)
                    best_s = min(best_s, time.monotonic() - sent_s)
            assert least_s <= best_s < most_s
        assert (await bench.links.counts("a"))["n1", "n2"].delayed >= 5

    play(act, switched=True)


def test_lost_repeated_and_counted_packets_add_up() -> None:
    async def act(bench: Bench) -> None:
        rule = LinkRule(loss=0.3, duplicate=0.3)
        await bench.links.begin("a", {("n1", "n2"): rule})
        with bench.datagrams("n1", "n2") as (sender, receiver):
            receiver.setblocking(False)
            arrived = 0
            for _ in range(200):
                sender.send(b"x")
                with trio.move_on_after(0.002):
                    await trio.lowlevel.wait_readable(receiver)
            with suppress(BlockingIOError), trio.move_on_after(ARRIVES_S):
                while True:
                    with trio.fail_after(SILENT_S):
                        await trio.lowlevel.wait_readable(receiver)
                    receiver.recv(8)
                    arrived += 1
        return

    async def counted(bench: Bench) -> None:
        with suppress(trio.TooSlowError):
            await act(bench)
        told = (await bench.links.counts("a"))["n1", "n2"]
        assert 30 <= told.dropped <= 95
        assert 20 <= told.duplicated <= 75
        assert told.passed + told.dropped >= 200

    play(counted, switched=True)


def test_corruption_reaches_the_application_below_a_right_checksum() -> None:
    async def act(bench: Bench) -> None:
        await bench.links.begin("a", {("n1", "n2"): LinkRule(corrupt=0.5)})
        with bench.connection("n1", "n2") as (dialer, taken):
            sent = bytes(range(256)) * 4
            changed = 0
            for _ in range(40):
                dialer.sendall(sent)
                got = b""
                taken.setblocking(False)
                while len(got) < len(sent):
                    with trio.fail_after(ARRIVES_S):
                        await trio.lowlevel.wait_readable(taken)
                    got += taken.recv(len(sent) - len(got))
                assert sorted(got) == sorted(sent)
                changed += got != sent
            assert changed
            assert (await bench.links.counts("a"))["n1", "n2"].corrupted >= changed

    play(act, switched=True)


@pytest.mark.parametrize(
    ("pair", "rule", "words"),
    [
        (("n1", "n9"), CUT, "there is no end 'n9'; choose from: n1, n2, n3, clients, workers"),
        (("n1", "n2"), LinkRule(delay_ms=1), "delay_ms needs the packet switch"),
        (("n1", "n2"), LinkRule(drop=True, only="votes"), "only needs the packet switch"),
    ],
)
def test_rule_that_cannot_be_had_changes_nothing(
    pair: tuple[str, str], rule: LinkRule, words: str
) -> None:
    async def act(bench: Bench) -> None:
        with pytest.raises(LinkError) as refused:
            await bench.links.begin("a", {("n1", "n2"): CUT, pair: rule})
        assert words in str(refused.value)
        assert bench.passes("n1", "n2")

    play(act)
