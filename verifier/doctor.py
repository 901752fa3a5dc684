"""Can this machine run the verifier? Each probe answers ok, warn or fail, with a remedy."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

State = Literal["ok", "warn", "fail"]

_OLDEST_PYTHON: Final = 0x030B0000
_PORTS_NEEDED: Final = 6
_FSYNCS: Final = 20
_SLOW_FSYNC_MS: Final = 20.0
_LITTLE_MEMORY_MIB: Final = 1024
_FEW_FILES: Final = 1024
_PR_GET_CHILD_SUBREAPER: Final = 37


@dataclass(frozen=True, slots=True)
class Probe:
    """One answer.

    Attributes:
        name: What was looked at.
        state: ok; warn (runs, but slower or narrower); fail (runs cannot be trusted or started).
        found: What was found.
        remedy: What to do about it; empty when ok.
    """

    name: str
    state: State
    found: str
    remedy: str = ""


def _python() -> Probe:
    version = platform.python_version()
    if sys.hexversion >= _OLDEST_PYTHON:
        return Probe("python", "ok", version)
    return Probe("python", "fail", version, "install Python 3.11 or later")


def _ports() -> Probe:
    held: list[socket.socket] = []
    try:
        held.extend(socket.create_server(("127.0.0.1", 0)) for _ in range(_PORTS_NEEDED))
    except OSError as error:
        return Probe("loopback ports", "fail", str(error), "bring the loopback interface up")
    finally:
        for sock in held:
            sock.close()
    return Probe("loopback ports", "ok", f"{_PORTS_NEEDED} free ports on 127.0.0.1")


def _temporary() -> Probe:
    for folder in (Path("/dev/shm"), Path(tempfile.gettempdir())):
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"probe")
        except OSError:
            continue
        return Probe("temporary folder", "ok", str(folder))
    return Probe("temporary folder", "fail", "none is writable", "set TMPDIR to a writable folder")


def _pidfd() -> Probe:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        return Probe(
            "pidfd", "fail", str(error), "needs Linux 5.3 or later without a seccomp filter"
        )
    return Probe("pidfd", "ok", f"Linux {platform.release()}")


def _prctl() -> Probe:
    value = ctypes.c_int(0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(value), 0, 0, 0) != 0:
        reason = os.strerror(ctypes.get_errno())
        return Probe("prctl", "fail", reason, "needs Linux without a filter on prctl")
    return Probe("prctl", "ok", "orphans can be adopted")


def _fsync(folder: Path) -> Probe:
    times_ms: list[float] = []
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            for _ in range(_FSYNCS):
                file.write(b"x" * 512)
                file.flush()
                begun = time.perf_counter()
                os.fdatasync(file.fileno())
                times_ms.append((time.perf_counter() - begun) * 1000)
    except OSError as error:
        remedy = "choose a writable folder with --store DIR"
        return Probe("fdatasync", "fail", f"{folder}: {error.strerror}", remedy)
    found = f"median {statistics.median(times_ms):.2f} ms, worst {max(times_ms):.2f} ms in {folder}"
    if statistics.median(times_ms) <= _SLOW_FSYNC_MS:
        return Probe("fdatasync", "ok", found)
    return Probe("fdatasync", "warn", found, "put the store on a faster disk with --store DIR")


def _cores() -> Probe:
    cores = len(os.sched_getaffinity(0))
    if cores >= 2:
        return Probe("cores", "ok", str(cores))
    return Probe("cores", "warn", str(cores), "lower --rate, or give it two cores")


def _memory() -> Probe:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            mib = int(rest.split()[0]) // 1024
            if mib >= _LITTLE_MEMORY_MIB:
                return Probe("memory", "ok", f"{mib} MiB available")
            return Probe(
                "memory", "warn", f"{mib} MiB available", "a default run takes about 500 MiB"
            )
    return Probe("memory", "warn", "unknown", "a default run takes about 500 MiB")


def _files() -> Probe:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _FEW_FILES:
        return Probe("open files", "ok", f"limit {soft}")
    return Probe("open files", "warn", f"limit {soft}", f"ulimit -n {_FEW_FILES}")


def examine(folder: Path) -> list[Probe]:
    """Run every probe; `folder` is where runs would be stored. Takes well under a second."""
    probes: tuple[Callable[[], Probe], ...] = (
        _python,
        _ports,
        _temporary,
        _pidfd,
        _prctl,
        lambda: _fsync(folder),
        _cores,
        _memory,
        _files,
    )
    return [probe() for probe in probes]
