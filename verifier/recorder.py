"""The only writer of a history: numbers operations, stamps them, and hands out processes."""

from __future__ import annotations

import heapq
import time
from pathlib import Path
from typing import Final

from ..histories.ops import Json, OpType, OpWriter
from ..workloads.producer import OpenOp

_NEW: Final = ("queued", "scheduled")


class Recorder:
    """Writes `history.jsonl`.

    An invocation is in the file before the caller may send it. A process is one logical client: it
    has at most one operation open, and one whose operation ended `info` is never used again,
    because that operation may still take effect. Callers that name their processes see to that.

    All methods raise OSError as the disk does.

    Attributes:
        new_jobs: Jobs that the broker accepted and had not known.
    """

    def __init__(self, path: Path) -> None:
        self._writer = OpWriter(path)
        self._free: list[int] = []
        self._processes = 0
        self._open: dict[int | str, str] = {}
        self._counts: dict[tuple[str, OpType], int] = {}
        self.new_jobs = 0

    def invoke(
        self, f: str, value: Json = None, node: str | None = None, process: str | None = None
    ) -> OpenOp:
        """Record that `f` is about to be asked, by a process of the caller's or by any."""
        if process is None:
            chosen: int | str = self._any_process()
        else:
            chosen = process
            assert chosen not in self._open, f"{chosen} invokes {f!r} with one open"
        self._open[chosen] = f
        self._write(chosen, "invoke", f, value, node, None)
        return OpenOp(f, chosen)

    def _any_process(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self._processes += 1
        return self._processes - 1

    def complete(
        self,
        op: OpenOp,
        type_: OpType,
        value: Json = None,
        node: str | None = None,
        error: str | None = None,
    ) -> None:
        """Record how an operation ended: `ok`, `fail` (certainly not applied) or `info`."""
        assert type_ != "invoke", f"{op} completes as an invocation"
        f = self._open.pop(op.process, None)
        assert f == op.f, f"process {op.process} completes {op.f!r}, open is {f!r}"
        self._write(op.process, type_, op.f, value, node, error)
        if type_ == "ok" and isinstance(value, dict) and value.get("status") in _NEW:
            self.new_jobs += 1
        if type_ != "info" and isinstance(op.process, int):
            heapq.heappush(self._free, op.process)

    def count(self, f: str, type_: OpType) -> int:
        """Return how many operations of this kind were recorded."""
        return self._counts.get((f, type_), 0)

    def close(self) -> None:
        """Close the file; what is still open stays without completion, which reads as `info`."""
        self._writer.close()

    def tallies(self) -> dict[str, dict[OpType, int]]:
        """Return how many operations of each kind ended how."""
        found: dict[str, dict[OpType, int]] = {}
        for (f, type_), count in self._counts.items():
            if type_ != "invoke":
                found.setdefault(f, {})[type_] = count
        return found

    def _write(
        self,
        process: int | str,
        type_: OpType,
        f: str,
        value: Json,
        node: str | None,
        error: str | None,
    ) -> None:
        self._writer.write(process, type_, f, value, time.monotonic_ns(), node, error)
        self._counts[f, type_] = self._counts.get((f, type_), 0) + 1
