"""What master and fork server say to each other, as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..jobs.settings import WorkerSettings


class Boot(msgspec.Struct, frozen=True, tag_field="op", tag="boot"):
    """The first request: load the application.

    Attributes:
        app: `module:attribute`.
        deaths: Path of the file that deaths are appended to.
        generation_fd: The lock that this fork server and its workers hold.
        loads: Whether workers are forked from the loaded application; without, it is only seen
            whether it loads.
        boot_timeout_s: Longest time for a worker that loads it itself.
    """

    app: str
    deaths: str
    generation_fd: int
    loads: bool = True
    boot_timeout_s: float = 60.0


class Fork(msgspec.Struct, frozen=True, tag_field="op", tag="fork"):
    """Start a worker; answered by `Forked` or `ForkFailed` with the same id.

    Attributes:
        id: Of this request.
        worker: The worker's settings.
        fresh: Whether it loads the application itself, in an interpreter of its own.
    """

    id: int
    worker: WorkerSettings
    fresh: bool = False


class Ready(msgspec.Struct, frozen=True, tag_field="op", tag="ready"):
    """The application is loaded.

    Attributes:
        seconds: How long it took.
        timeouts_s: Jobs that name a timeout of their own, and it.
    """

    seconds: float
    timeouts_s: dict[str, float]


class BootFailed(msgspec.Struct, frozen=True, tag_field="op", tag="boot-failed"):
    """The application cannot be served; the fork server ends."""

    error: str


class Forked(msgspec.Struct, frozen=True, tag_field="op", tag="forked"):
    """A worker was started."""

    id: int
    pid: int


class ForkFailed(msgspec.Struct, frozen=True, tag_field="op", tag="fork-failed"):
    """A worker could not be started."""

    id: int
    error: str


class Exited(msgspec.Struct, frozen=True, tag_field="op", tag="exited"):
    """A worker was reaped, and its death is already on record.

    Attributes:
        pid: The worker.
        status: Raw wait status.
        marker: The exit marker that it left.
        t_ns: CLOCK_MONOTONIC of its reaping.
    """

    pid: int
    status: int
    marker: str | None
    t_ns: int


Request = Boot | Fork
ForkReply = Ready | BootFailed | Forked | ForkFailed | Exited

_ENCODER = msgspec.json.Encoder()
_REQUESTS = msgspec.json.Decoder(Request)
_REPLIES = msgspec.json.Decoder(ForkReply)


def encode(message: Request | ForkReply) -> bytes:
    """Return one line, newline included."""
    return _ENCODER.encode(message) + b"\n"


def decode_request(line: bytes) -> Request:
    """Read one request; raises msgspec.DecodeError."""
    return _REQUESTS.decode(line)


def decode_reply(line: bytes) -> ForkReply:
    """Read one reply; raises msgspec.DecodeError."""
    return _REPLIES.decode(line)


class Lines:
    """Cuts a stream into lines; a line without its end waits for the rest."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that `data` completes, without their newlines."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        yield from lines
