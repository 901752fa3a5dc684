"""Work in threads needs memory for a thread, or fails at once."""

from __future__ import annotations

import errno
import mmap

import pytest
import trio

from atleastonce.system.node.process import _is_lack_of_memory
from atleastonce.system.node.threads import in_thread


def test_work_in_a_thread_returns_what_it_returns() -> None:
    assert trio.run(in_thread, divmod, 7, 2) == (3, 1)


def test_without_memory_for_a_thread_there_is_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fileno: int, length: int) -> object:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(MemoryError, match="no 32 MiB for a thread"):
        trio.run(in_thread, divmod, 7, 2)


@pytest.mark.parametrize(
    ("error", "is_lack"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "no"), True),
        (OSError(errno.EIO, "no"), False),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("other"), False),
    ],
)
def test_lack_of_memory_has_three_forms(error: Exception, is_lack: bool) -> None:
    assert _is_lack_of_memory(error) is is_lack
