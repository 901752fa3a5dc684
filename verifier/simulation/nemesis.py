"""Carries a schedule of faults out on the nodes of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...system.raft.core import Persist, Role, TransferLeadership
from .counters import Counters
from .faults import LEADER, Fault
from .network import Network
from .oracles import number_of
from .scheduler import Scheduler
from .server import Server
from .streams import Stream

_LINKS: Final = ("isolate", "deafen", "mute", "split")


class Nemesis:
    """Begins each fault at its time and ends it after its duration.

    Faults may overlap: a node is up again when the last fault that holds it down has ended.
    """

    __slots__ = (
        "_armed",
        "_chains",
        "_counters",
        "_down",
        "_is_over",
        "_network",
        "_paused",
        "_scheduler",
        "_seed",
        "_servers",
        "_stalls",
    )

    def __init__(
        self,
        seed: int,
        schedule: Sequence[Fault],
        scheduler: Scheduler,
        servers: list[Server],
        network: Network,
        counters: Counters,
    ) -> None:
        self._seed = seed
        self._scheduler = scheduler
        self._servers = servers
        self._network = network
        self._counters = counters
        self._is_over = False
        self._down = [0] * len(servers)
        self._paused = [0] * len(servers)
        self._armed: list[list[Fault]] = [[] for _ in servers]
        self._stalls: list[list[int]] = [[] for _ in servers]
        self._chains: list[tuple[Fault, Stream]] = []
        for server in servers:
            server.on_write = self._on_write
            server.on_win = self._on_win
        for fault in schedule:
            scheduler.after(fault.at_us, self._begin, fault)

    def _stream(self, fault: Fault) -> Stream:
        return Stream(self._seed, f"fault:{fault.kind}:{fault.at_us}:{fault.target}")

    def _resolve(self, fault: Fault, stream: Stream) -> Server:
        """Return the node a fault is aimed at; any node when nobody leads."""
        if fault.target != LEADER:
            return self._servers[fault.target % len(self._servers)]
        leaders = [
            server
            for server in self._servers
            if not server.is_down and server.core.role is Role.LEADER
        ]
        if leaders:
            return max(leaders, key=lambda server: server.core.term)
        return stream.pick(self._servers)

    def _begin(self, fault: Fault) -> None:
        if self._is_over:
            return
        stream = self._stream(fault)
        kind = fault.kind
        if kind in _LINKS:
            self._begin_cut(fault, stream)
        elif kind == "power":
            for server in self._servers:
                self._crash(server, stream.between(0, fault.duration_us))
        elif kind == "noise":
            self._network.add_noise(fault.level)
            self._scheduler.after(fault.duration_us, self._end_noise, fault)
        elif kind == "kill-chain":
            self._chains.append((fault, stream))
            self._scheduler.after(fault.duration_us, self._end_chain, fault)
            self._crash(self._resolve(fault, stream), stream.between(20_000, 800_000))
        else:
            self._begin_on(self._resolve(fault, stream), fault)

    def _begin_on(self, server: Server, fault: Fault) -> None:
        kind = fault.kind
        if kind == "bounce":
            self._crash(server, fault.duration_us)
        elif kind == "wipe":
            self._wipe(server, fault.duration_us)
        elif kind == "snipe":
            self._armed[server.node].append(fault)
        elif kind == "pause":
            self._counters.pauses += 1
            self._paused[server.node] += 1
            server.pause()
            self._scheduler.after(fault.duration_us, self._end_pause, server)
        elif kind == "slow-disk":
            stalls = self._stalls[server.node]
            stalls.append(fault.level * 1000)
            server.disk.stall_us_max = max(stalls)
            self._scheduler.after(fault.duration_us, self._end_stall, server, fault)
        elif kind == "transfer":
            server.take(TransferLeadership(None))
        else:
            raise AssertionError(f"unknown kind of fault in {fault!r}")

    def _begin_cut(self, fault: Fault, stream: Stream) -> None:
        nodes = range(len(self._servers))
        if fault.kind == "split":
            side = [node for node in nodes if fault.target >> node & 1]
        else:
            side = [self._resolve(fault, stream).node]
        others = [node for node in nodes if node not in side]
        links = []
        if fault.kind != "mute":
            links += [(other, node) for node in side for other in others]
        if fault.kind != "deafen":
            links += [(node, other) for node in side for other in others]
        self._counters.cuts += 1
        self._network.cut(links, 1)
        self._scheduler.after(fault.duration_us, self._end_cut, links)

    def _end_cut(self, links: list[tuple[int, int]]) -> None:
        if not self._is_over:
            self._network.cut(links, -1)

    def _end_noise(self, fault: Fault) -> None:
        if not self._is_over:
            self._network.remove_noise(fault.level)

    def _end_chain(self, fault: Fault) -> None:
        self._chains = [chain for chain in self._chains if chain[0] != fault]

    def _end_stall(self, server: Server, fault: Fault) -> None:
        if not self._is_over:
            stalls = self._stalls[server.node]
            stalls.remove(fault.level * 1000)
            server.disk.stall_us_max = max(stalls, default=0)

    def _end_pause(self, server: Server) -> None:
        if self._is_over:
            return
        self._paused[server.node] -= 1
        if not self._paused[server.node] and server.is_paused:
            server.go_on()

    def _crash(self, server: Server, duration_us: int, survivors: int | None = None) -> None:
        if self._is_over:
            return
        self._down[server.node] += 1
        if not server.is_down:
            server.crash(survivors)
        self._scheduler.after(duration_us, self._end_crash, server)

    def _wipe(self, server: Server, duration_us: int) -> None:
        """Take a node's disk away, if all memberships that any node goes by survive that.

        A majority of lost disks loses data by right, and proves nothing.
        """
        for other in self._servers:
            members = other.core.members
            if server.name not in members.voters:
                continue
            kept = [
                voter
                for voter in members.voters
                if voter != server.name
                and members.known_of(voter).incarnation == self._servers[number_of(voter)].identity
            ]
            if len(kept) <= len(members.voters) // 2:
                return
        self._crash(server, duration_us)
        if server.is_down:
            server.wipe()

    def _end_crash(self, server: Server) -> None:
        if self._is_over:
            return
        self._down[server.node] -= 1
        if not self._down[server.node]:
            server.boot()
            if self._paused[server.node]:
                server.pause()

    def _on_write(self, server: Server, persist: Persist) -> None:
        """Crash a node on the write it has just handed to its disk, if a snipe waits for one."""
        for fault in self._armed[server.node]:
            if fault.level == 2 and persist.hard_state is None:
                continue
            self._armed[server.node].remove(fault)
            self._counters.snipes += 1
            survivors = len(persist.entries) + 1_000 if fault.level == 1 else 0
            self._crash(server, fault.duration_us, survivors)
            return

    def _on_win(self, server: Server) -> None:
        for fault, stream in self._chains:
            delay_us = stream.between(0, fault.level * 1000)
            down_us = stream.between(20_000, 800_000)
            self._scheduler.after(delay_us, self._crash, server, down_us)

    def heal(self) -> None:
        """End every fault at once: nothing of them may reach into what follows."""
        self._is_over = True
        self._chains = []
        self._armed = [[] for _ in self._servers]
        self._network.heal()
        for server in self._servers:
            server.disk.heal()
            if server.is_down:
                server.boot()
            elif server.is_paused:
                server.go_on()
