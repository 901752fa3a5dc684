"""Which faults acted on which links when, told by whoever makes them to whoever records packets.

A file of JSON lines, of which each is there before its fault begins.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from ..links import Pair

NO_FAULT: Final = "-"
_KEPT_NS: Final = 5_000_000_000
"""A packet is written within so long; what ended before that is forgotten."""
_READ_BYTES: Final = 1 << 16


class Mark(msgspec.Struct, frozen=True):
    """A fault that begins or ends.

    Attributes:
        fault: The name of its rules.
        t_ns: CLOCK_MONOTONIC.
        links: Where it acts from now on; empty when it ends.
    """

    fault: str
    t_ns: int
    links: list[Pair] = []


class MarkWriter:
    """Writes marks.

    Args:
        path: The file, which must not exist yet.

    Raises:
        OSError: The disk refuses.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)

    def begin(self, fault: str, links: Iterable[Pair]) -> None:
        """Tell where a fault will act; call it before it does."""
        self._write(Mark(fault, time.monotonic_ns(), list(links)))

    def end(self, fault: str) -> None:
        """Tell that a fault acts no more."""
        self._write(Mark(fault, time.monotonic_ns()))

    def _write(self, mark: Mark) -> None:
        os.write(self._file, msgspec.json.encode(mark) + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Marks:
    """What is known of the faults on links, and when they acted.

    Times must be asked for within seconds.
    """

    def __init__(self) -> None:
        self._spans: dict[Pair, list[tuple[str, int, int | None]]] = {}

    def take(self, mark: Mark) -> None:
        """Learn of a fault."""
        for pair in mark.links:
            self._spans.setdefault(pair, []).append((mark.fault, mark.t_ns, None))
        if mark.links:
            return
        for pair, spans in self._spans.items():
            self._spans[pair] = [
                (name, begin, mark.t_ns if name == mark.fault and end is None else end)
                for name, begin, end in spans
                if end is None or end > mark.t_ns - _KEPT_NS
            ]

    def at(self, pair: Pair, t_ns: int) -> str:
        """Name the faults that acted on a link at a time, joined by commas; `-` for none."""
        names = (
            name
            for name, begin, end in self._spans.get(pair, ())
            if begin <= t_ns and (end is None or t_ns <= end)
        )
        return ",".join(names) or NO_FAULT


class MarkReader:
    """Reads marks while they are written.

    Args:
        path: Of a `MarkWriter`.

    Attributes:
        marks: What has been read.

    Raises:
        OSError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.marks = Marks()
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._rest = b""
        self._decoder = msgspec.json.Decoder(Mark)

    def update(self) -> None:
        """Read what has been written since; about a microsecond if nothing was."""
        while data := os.read(self._file, _READ_BYTES):
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self.marks.take(self._decoder.decode(line))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
