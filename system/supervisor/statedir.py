"""The state directory: private, locked by one master, and free of an earlier one's processes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .control_files import FOLDER
from .left_journals import LeftJournals

SOCKET_PATH_BYTES_MAX: Final = 100
_PRIVATE: Final = 0o700
_OTHERS_WRITE: Final = 0o022
_LOCK_PATIENCE_S: Final = 0.5
_LOCK_PAUSE_S: Final = 0.02


class StateDirectoryError(Exception):
    """A directory that no master may use; the message names it and what is wrong."""


def make_private(path: Path) -> None:
    """Make a directory for this user alone, or check that an existing one is that.

    One that others may only look into is closed to them; one that they may write to is refused,
    since what lies in it may be theirs.

    Raises:
        StateDirectoryError: It is a link, belongs to someone else, is open to others' writing, or
            cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=_PRIVATE)
        seen = path.lstat()
    except OSError as error:
        raise StateDirectoryError(f"{path}: cannot make it: {error.strerror}") from None
    _check_owned(path, seen)
    mode = stat.S_IMODE(seen.st_mode)
    if mode & _OTHERS_WRITE:
        raise StateDirectoryError(
            f"{path}: has mode {mode:04o}, others may write there; want 0700 and nothing of theirs"
        )
    if mode != _PRIVATE:
        path.chmod(_PRIVATE)


def check_private(path: Path) -> None:
    """Check that a directory is this user's alone, and change nothing.

    Raises:
        StateDirectoryError: It is not there, is a link, or belongs or is open to someone else.
    """
    try:
        seen = path.lstat()
    except OSError as error:
        raise StateDirectoryError(f"{path}: {error.strerror}") from None
    _check_owned(path, seen)
    if stat.S_IMODE(seen.st_mode) & 0o077:
        mode = stat.S_IMODE(seen.st_mode)
        raise StateDirectoryError(f"{path}: has mode {mode:04o}; want 0700")


def _check_owned(path: Path, seen: os.stat_result) -> None:
    if stat.S_ISLNK(seen.st_mode):
        raise StateDirectoryError(f"{path}: is a symbolic link; want a directory")
    if not stat.S_ISDIR(seen.st_mode):
        raise StateDirectoryError(f"{path}: is not a directory")
    if seen.st_uid != os.getuid():
        raise StateDirectoryError(f"{path}: belongs to uid {seen.st_uid}, not to {os.getuid()}")


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """The files of one supervisor.

    Attributes:
        root: The directory.
    """

    root: Path

    @property
    def status(self) -> Path:
        """Present state, replaced as a whole."""
        return self.root / "status.json"

    @property
    def deaths(self) -> Path:
        """Reaped processes, one line each."""
        return self.root / "deaths.jsonl"

    @property
    def hand_backs(self) -> Path:
        """Leases of dead workers and what was done about them."""
        return self.root / "handbacks.jsonl"

    @property
    def controls(self) -> Path:
        """Where requests to the supervisor are put."""
        return self.root / FOLDER

    @property
    def workers(self) -> Path:
        """Where workers keep journals and exit markers."""
        return self.root / "workers"

    @property
    def left(self) -> Path:
        """Where journals of dead workers lie until they are settled."""
        return self.root / "left"

    def left_journals(self) -> LeftJournals:
        """Return the journals of dead workers."""
        return LeftJournals(self.workers, self.left)

    def lease_socket(self) -> Path:
        """Return where workers report their leases.

        A Unix socket's path is limited to 107 bytes; a deep state directory gets a private
        directory of its own among the temporary files, the same one every time.

        Raises:
            StateDirectoryError: That directory is not this user's.
        """
        beside = self.root / "lease.sock"
        if len(os.fsencode(beside)) <= SOCKET_PATH_BYTES_MAX:
            return beside
        digest = hashlib.sha256(os.fsencode(self.root.resolve())).hexdigest()[:16]
        shelter = Path(tempfile.gettempdir()) / f"atleastonce-{os.getuid()}-{digest}"
        make_private(shelter)
        return shelter / "lease.sock"

    def remove_socket(self) -> None:
        """Remove the lease socket, and the directory that was made for it."""
        path = self.lease_socket()
        path.unlink(missing_ok=True)
        if path.parent != self.root:
            path.parent.rmdir()

    def clear_workers(self) -> None:
        """Make the workers' directory, and delete what earlier workers left in it.

        Their journals are kept aside, for what they owe.

        Raises:
            StateDirectoryError: The directory is not this user's.
        """
        make_private(self.workers)
        make_private(self.left)
        self.left_journals().rescue()
        for path in self.workers.iterdir():
            if path.is_file() or path.is_symlink():
                path.unlink(missing_ok=True)


def open_state_directory(root: Path) -> tuple[StateDirectory, int]:
    """Make or check a state directory and lock it for this process's life.

    Returns:
        The directory, and the file descriptor that holds the lock.

    Raises:
        StateDirectoryError: It is not private, or another master holds it.
    """
    make_private(root)
    fd = _open_lock(root, os.O_RDWR | os.O_CREAT)
    deadline = time.monotonic() + _LOCK_PATIENCE_S
    while not _try_lock(fd, fcntl.LOCK_EX):
        # Who asks whether the lock is held holds it for a moment.
        if time.monotonic() >= deadline:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(fd)
            raise StateDirectoryError(
                f"{root}: another supervisor (pid {holder}) uses this directory"
            )
        time.sleep(_LOCK_PAUSE_S)
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    directory = StateDirectory(root)
    make_private(directory.controls)
    # Requests to an earlier master are nobody's.
    for path in directory.controls.iterdir():
        path.unlink(missing_ok=True)
    return directory, fd


def lock_holder(root: Path) -> int | None:
    """Return the pid of the master that holds a state directory, or None; 0 is one unknown.

    Raises:
        StateDirectoryError: The lock cannot be opened or is not this user's.
    """
    try:
        fd = _open_lock(root, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        if _try_lock(fd, fcntl.LOCK_SH):
            return None
        text = os.pread(fd, 32, 0).decode(errors="replace").strip()
        return int(text) if text.isdecimal() else 0
    finally:
        os.close(fd)


def _open_lock(root: Path, flags: int) -> int:
    """Open the lock; it must be a plain file of this user.

    Raises:
        FileNotFoundError: It is not there and `flags` do not make it.
        StateDirectoryError: It is something else.
    """
    path = root / "lock"
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StateDirectoryError(f"{path}: {error.strerror}") from None
    seen = os.fstat(fd)
    if not stat.S_ISREG(seen.st_mode) or seen.st_uid != os.getuid():
        os.close(fd)
        raise StateDirectoryError(f"{path}: is not a plain file of uid {os.getuid()}")
    return fd


def _try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def try_lock_generation(directory: StateDirectory) -> int | None:
    """Take the lock that a fork server and all its workers hold together.

    The kernel frees it with the last of them, so that a new generation can never work beside
    the old one.

    Returns:
        A file descriptor to hand to the new fork server, or None while old processes live.
    """
    path = directory.root / "generation.lock"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd
