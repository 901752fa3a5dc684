"""Nodes that get no more memory, no more files, or hardly a processor, for a while."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import msgspec
import trio
from msgspec import Meta

from ..histories.ops import Json
from .acts import Evidence, NoBiteError, Stage, already_gone, describe, send_or_no_bite
from .fault import Fault
from .limits import cpu_s, set_soft
from .node_acts import NodeAct
from .options import options_of
from .process import ProcessGoneError, is_alive, is_stopped, send_to, wait_stopped
from .settings import NemesisSettings
from .world import Target

OUT_OF_MEMORY: Final = 72
"""Exit status of a node that ends because it gets no memory."""

_PROBE_S: Final = 10.0
_SLOWER: Final = 5
"""A probe that takes so many times as long as before is given up."""

_PROBE_S_MIN: Final = 1.0
_PROBES: Final = 5
_SETTLE_S: Final = 0.02
"""Time for a node to close the connection of the last probe."""
_BAD_REQUEST: Final = 400
_MIB: Final = 1 << 20


class MemoryLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of limit-memory.

    Attributes:
        headroom_mib: The node may take so much more address space than it has, MiB.
        request_mib: Requests of this size are sent, so that it needs more, MiB.
    """

    headroom_mib: Annotated[float, Meta(ge=0, le=1024)] = 0.0
    request_mib: Annotated[int, Meta(ge=1, le=60)] = 16


class Starving(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of starve-cpu: the node runs and is stopped in turns.

    Attributes:
        run_ms: So long it runs, milliseconds.
        stop_ms: So long it is stopped.
    """

    run_ms: Annotated[float, Meta(ge=0.5, le=1000)] = 4.0
    stop_ms: Annotated[float, Meta(ge=1, le=1000)] = 36.0


def draw_memory(stream: random.Random, _settings: NemesisSettings) -> dict[str, Json]:
    """How close to the limit it is."""
    return {"headroom_mib": stream.choice((0, 0, 1, 4, 8))}


def draw_starving(stream: random.Random, _settings: NemesisSettings) -> dict[str, Json]:
    """How much of a processor it gets."""
    run_ms, stop_ms = stream.choice(((2, 18), (4, 36), (5, 95), (10, 40)))
    return {"run_ms": run_ms, "stop_ms": stop_ms}


class LimitAct(NodeAct):
    """What faults by a resource limit have in common: it is lowered, and given back."""

    resource: int
    name: str

    def __init__(self, fault: Fault, stage: Stage) -> None:
        super().__init__(fault, stage)
        self.before: dict[Target, int] = {}
        self.probe_s: dict[Target, float] = {}

    def limit(self, target: Target) -> int:
        """The limit that bites."""
        raise AssertionError(f"{self.fault.kind} has no limit for {target}")

    def request_bytes(self) -> int:
        """How large the requests are that a node is probed with."""
        return 0

    async def is_hit(self, target: Target) -> bool:
        """Whether a target suffers: it does not refuse a bad request as it did before."""
        return await self._probe(target, self.probe_s[target]) != _BAD_REQUEST

    async def _probe(self, target: Target, timeout_s: float) -> int | None:
        desk = self.stage.world.administration()
        return await desk.probe(target.name, self.request_bytes(), timeout_s)

    async def _try_before(self) -> None:
        """See how a target answers without the limit, and how fast."""
        for target in self.targets:
            begun_s = time.monotonic()
            status = await self._probe(target, _PROBE_S)
            if status != _BAD_REQUEST:
                raise NoBiteError(f"{target.name} answered {status} before it had a limit")
            took_s = time.monotonic() - begun_s
            self.probe_s[target] = max(_PROBE_S_MIN, _SLOWER * took_s)

    async def bite(self) -> Evidence:
        """See `Act`."""
        await self._try_before()
        begun_s = time.monotonic()
        limits: Evidence = {}
        for target in self.targets:
            try:
                soft, _ = resource.prlimit(target.pid, self.resource)
                thing: dict[str, Json] = {
                    "pid": target.pid,
                    "start_time": target.start_time,
                    "resource": self.resource,
                    "soft": soft,
                }
                self.stage.owe(self.fault, {"limit": thing})
                self.before[target] = soft
                limits[target.name] = self.limit(target)
                set_soft(target.pid, self.resource, self.limit(target))
            except (ProcessLookupError, FileNotFoundError):
                raise already_gone(target) from None
        self.bitten_s = time.monotonic()
        onset_ms = round((self.bitten_s - begun_s) * 1000, 3)
        self.told_to_end = True
        for target in self.targets:
            await self._demand(target)
        seen_s = round(time.monotonic() - self.bitten_s, 3)
        return {self.name: limits, "onset_ms": onset_ms, "seen_after_s": seen_s}

    async def _demand(self, target: Target) -> None:
        for _ in range(_PROBES):
            if not is_alive(target) or await self.is_hit(target):
                return
            await trio.sleep(_SETTLE_S)
            self._tighten(target)
        raise NoBiteError(f"{target.name} was not seen to suffer from its limit")

    def _tighten(self, target: Target) -> None:
        """Lower the limit to where it bites now: what it counted may be given back since."""
        with suppress(ProcessLookupError, FileNotFoundError):
            soft, _ = resource.prlimit(target.pid, self.resource)
            set_soft(target.pid, self.resource, min(soft, self.limit(target)))

    async def hold(self) -> None:
        """See `Act`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._press)
            await super().hold()
            nursery.cancel_scope.cancel()

    async def _press(self) -> None:
        while True:
            for target in self.targets:
                if is_alive(target):
                    await self.is_hit(target)
            await trio.sleep(0.2)

    async def heal(self) -> Evidence:
        """See `Act`."""
        outcomes: Evidence = {}
        for target in self.targets:
            # One that has ended took its limit along.
            if target in self.before and is_alive(target):
                with suppress(ProcessLookupError):
                    set_soft(target.pid, self.resource, self.before[target])
            if await self._outlives(target):
                outcomes[target.name] = "survived"
            else:
                outcomes[target.name] = describe(await self.stage.world.wait_exit(target))
        # Whoever survived is not about to end.
        self.told_to_end = False
        return self.seen_meanwhile() | {"outcomes": outcomes} | await self.start_again()

    async def _outlives(self, target: Target) -> bool:
        """Whether it serves again: one that lives may be about to end of what it lacked."""
        with trio.move_on_after(self.stage.settings.exit_wait_s):
            while is_alive(target):
                if target not in self.before or not await self.is_hit(target):
                    return True
                await trio.sleep(_SETTLE_S)
        return is_alive(target)


class LimitMemory(LimitAct):
    """limit-memory: hardly any more address space (RLIMIT_AS), and large requests."""

    resource = resource.RLIMIT_AS
    name = "address_space_bytes"

    def limit(self, target: Target) -> int:
        """See `LimitAct`."""
        pages = int(Path(f"/proc/{target.pid}/statm").read_text(encoding="ascii").split()[0])
        headroom_mib = options_of(self.fault, MemoryLimit).headroom_mib
        return pages * resource.getpagesize() + round(headroom_mib * _MIB)

    def request_bytes(self) -> int:
        """See `LimitAct`."""
        return options_of(self.fault, MemoryLimit).request_mib * _MIB


class LimitFiles(LimitAct):
    """limit-files: no more descriptors (RLIMIT_NOFILE), so that no connection is accepted."""

    resource = resource.RLIMIT_NOFILE
    name = "files"

    def limit(self, target: Target) -> int:
        """See `LimitAct`: below the lowest number that is free."""
        used = {int(name) for name in os.listdir(f"/proc/{target.pid}/fd")}
        return next(number for number in range(len(used) + 1) if number not in used)


class StarveCpu(NodeAct):
    """starve-cpu: stopped and continued in turns, so that it gets a share of a processor."""

    stops = 0
    stopped_s = 0.0

    async def bite(self) -> Evidence:
        """See `Act`."""
        begun_s = time.monotonic()
        for target in self.targets:
            send_or_no_bite(target, signal.SIGSTOP)
        for target in self.targets:
            if not await wait_stopped(target, True, self.stage.settings.exit_wait_s):
                raise NoBiteError(f"{target.name} was not seen stopped")
        self.bitten_s = time.monotonic()
        self._cpu_s = {target: cpu_s(target.pid) for target in self.targets}
        self._signal(signal.SIGCONT)
        return {"state": "T", "onset_ms": round((self.bitten_s - begun_s) * 1000, 3)}

    async def hold(self) -> None:
        """See `Act`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._alternate)
            await super().hold()
            nursery.cancel_scope.cancel()

    async def _alternate(self) -> None:
        options = options_of(self.fault, Starving)
        while True:
            await trio.sleep(options.run_ms / 1000)
            begun_s = time.monotonic()
            self._signal(signal.SIGSTOP)
            await trio.sleep(options.stop_ms / 1000)
            self._signal(signal.SIGCONT)
            self.stops += 1
            self.stopped_s += time.monotonic() - begun_s

    def _signal(self, number: signal.Signals) -> None:
        for target in self.targets:
            with suppress(ProcessGoneError):
                send_to(target, number)

    async def heal(self) -> Evidence:
        """See `Act`."""
        passed_s = time.monotonic() - self.bitten_s
        self._signal(signal.SIGCONT)
        shares: Evidence = {
            target.name: round((cpu_s(target.pid) - self._cpu_s[target]) / passed_s, 3)
            for target in self.targets
            if is_alive(target) and hasattr(self, "_cpu_s")
        }
        runs = not any(is_stopped(target) for target in self.targets)
        told: Evidence = {
            "stops": self.stops,
            "stopped_s": round(self.stopped_s, 3),
            "cpu_share": shares,
            "runs": runs,
        }
        return self.seen_meanwhile() | told | await self.start_again()
