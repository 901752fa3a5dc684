"""Pages of mapped files that count as this process's memory although the kernel could drop them."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

_MADV_DONTNEED: Final = 4

_madvise = ctypes.CDLL(None, use_errno=True).madvise
_madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def let_go_of_pages(file: Path) -> None:
    """Unmap the resident pages of a file that is mapped shared and read-only.

    They stay in the kernel's page cache and come back when they are touched, at less than a
    microsecond each. May be called while other threads read the mapping.

    Raises:
        OSError: The kernel refused.
    """
    path = str(file.resolve())
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) < 6 or fields[5] != path:
            continue
        assert fields[1] == "r--s", f"{path} is mapped {fields[1]}"
        start, end = (int(bound, 16) for bound in fields[0].split("-"))
        if _madvise(start, end - start, _MADV_DONTNEED):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
