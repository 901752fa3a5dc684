"""Unix sockets at paths of any length: the kernel takes 107 bytes, a run folder may have more."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A short name of a path, for the length of a block."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def bound_unix(path: Path) -> socket.socket:
    """Listen at a path, for its owner alone.

    Raises:
        OSError: It is taken, or cannot be made.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        with _short(path) as name:
            sock.bind(name)
        sock.listen(1)
    except OSError:
        sock.close()
        raise
    finally:
        os.umask(mask)
    return sock


def connected_unix(path: Path) -> socket.socket:
    """Connect to a path.

    Raises:
        OSError: Nobody listens there.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as name:
            sock.connect(name)
    except OSError:
        sock.close()
        raise
    return sock
