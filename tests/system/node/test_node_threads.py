"""Work in threads needs memory for a thread, or fails at once."""

from __future__ import annotations

import errno
import mmap

import pytest
import trio

from atleastonce.system.node.threads import in_thread


def test_work_in_a_thread_returns_what_it_returns() -> None:
    assert trio.run(in_thread, divmod, 7, 2) == (3, 1)


def test_without_memory_for_a_thread_there_is_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fileno: int, length: int) -> object:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(MemoryError, match="no 32 MiB for a thread"):
        trio.run(in_thread, divmod, 7, 2)
