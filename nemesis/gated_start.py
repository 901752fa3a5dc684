"""Starts a command whose system calls on files ask another process first.

    python -IS gated_start.py SOCKET NUMBER[,NUMBER…] COMMAND…

Run by its path, with nothing imported but the standard library, because it runs before every start
of a gated node. SOCKET is the descriptor of an open Unix stream socket, which gets the listener of
the filter by SCM_RIGHTS (`seccomp_unotify(2)`); NUMBER are the system calls that ask.
"""

from __future__ import annotations

import array
import ctypes
import os
import platform
import socket
import struct
import sys

# What a machine calls itself, its AUDIT_ARCH and its number of seccomp(2).
_MACHINES = {"x86_64": (0xC000003E, 317), "aarch64": (0xC00000B7, 277)}

_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ASK = 0x7FFF0000, 0x7FC00000
_NUMBER_OFFSET, _ARCH_OFFSET = 0, 4
_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_EXIT_REFUSED = 125


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def filter_for(numbers: list[int], architecture: int) -> bytes:
    """The BPF program: these calls ask, all others and other architectures pass."""
    steps = [(_LOAD, 0, 0, _ARCH_OFFSET), (_JUMP_IF_EQUAL, 0, len(numbers) + 1, architecture)]
    steps.append((_LOAD, 0, 0, _NUMBER_OFFSET))
    for place, number in enumerate(numbers):
        steps.append((_JUMP_IF_EQUAL, len(numbers) - place, 0, number))
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ASK)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def listen(numbers: list[int]) -> int:
    """Install the filter for this process and all that it becomes; returns its listener.

    Raises:
        OSError: The kernel refuses, or knows no such filters on this machine.
    """
    if platform.machine() not in _MACHINES:
        raise OSError(f"no filter is known for a machine of kind {platform.machine()!r}")
    architecture, seccomp = _MACHINES[platform.machine()]
    code = filter_for(numbers, architecture)
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    listener = libc.syscall(seccomp, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp(SECCOMP_SET_MODE_FILTER)")
    return int(listener)


def main(arguments: list[str]) -> None:
    """Hand the listener over and become the command; exits if that fails."""
    with socket.socket(fileno=int(arguments[0])) as door:
        try:
            listener = listen([int(number) for number in arguments[1].split(",")])
        except OSError as error:
            door.sendall(str(error).encode()[:200])
            sys.exit(_EXIT_REFUSED)
        rights = array.array("i", [listener])
        door.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        os.close(listener)
    os.execvp(arguments[2], arguments[2:])


if __name__ == "__main__":
    main(sys.argv[1:])
