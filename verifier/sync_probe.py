"""Holding a sync call of an unmodified process, as proof that faults on disks can (seccomp(2))."""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import os
import platform
import select
import socket
import struct
import tempfile
from typing import Final

from ..nemesis.namespaces import die_with_parent
from .probing import RefusedError

_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_SYSCALL: Final = 317 if platform.machine() == "x86_64" else 277
_SET_MODE_FILTER: Final = 1
_NEW_LISTENER: Final = 8
_RECEIVE: Final = 0xC0502100
_SEND: Final = 0xC0182101
_LOAD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_NOTIFY: Final = 0x7FC00000
_FDATASYNC: Final = {"x86_64": 75, "aarch64": 83}
_HELD_S: Final = 0.05
_ANSWER_S: Final = 3.0


def _listen(system_call: int) -> int:
    """Have this process's calls of one kind wait for a listener; return its descriptor."""
    program = b"".join(
        struct.pack("=HBBI", *each)
        for each in (
            (_LOAD, 0, 0, 0),
            (_JUMP_IF_EQUAL, 0, 1, system_call),
            (_RETURN, 0, 0, _NOTIFY),
            (_RETURN, 0, 0, _ALLOW),
        )
    )
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_ = ctypes.create_string_buffer(struct.pack("@HP", 4, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    listener = libc.syscall(_SECCOMP_SYSCALL, _SET_MODE_FILTER, _NEW_LISTENER, filter_)
    if listener < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"seccomp listener: {os.strerror(code)}")
    return int(listener)


def _victim(channel: socket.socket, file: int) -> None:
    """Install the filter, hand the listener over, sync, and say so."""
    try:
        listener = _listen(_FDATASYNC[platform.machine()])
        channel.sendmsg(
            [b"l"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]).tobytes())]
        )
        os.fdatasync(file)
        channel.send(b"s")
    except OSError as error:
        channel.send(f"{os.strerror(error.errno or errno.EIO)}".encode())


def stall_a_sync() -> str:
    """Hold a sync for 50 ms while the process that asked for it waits; return what was seen.

    Raises:
        RefusedError: It was not held, or not let go.
        OSError: The kernel refuses.
    """
    if platform.machine() not in _FDATASYNC:
        raise RefusedError(f"the numbers of {platform.machine()}'s system calls are not known")
    ours, theirs = socket.socketpair()
    ours.settimeout(_ANSWER_S)
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
        file.flush()
        if os.fork() == 0:
            die_with_parent()
            _victim(theirs, file.fileno())
            os._exit(0)
        said, rights, _, _ = ours.recvmsg(64, socket.CMSG_SPACE(4))
        if not rights:
            raise RefusedError(said.decode())
        listener = struct.unpack("=i", rights[0][2][:4])[0]
        if not select.select([listener], [], [], _ANSWER_S)[0]:
            raise RefusedError("a sync was not announced")
        notice = bytearray(80)
        fcntl.ioctl(listener, _RECEIVE, notice)
        if select.select([ours], [], [], _HELD_S)[0]:
            raise RefusedError("a sync that was held went on")
        identity = struct.unpack_from("=Q", notice)[0]
        fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", identity, 0, 0, 1))
        if ours.recv(64) != b"s":
            raise RefusedError("a sync that was let go failed")
    return f"held a sync for {_HELD_S * 1000:.0f} ms"
