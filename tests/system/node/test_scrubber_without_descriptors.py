"""The second look at the disk, when no file can be opened."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import cast

import pytest
import trio

from atleastonce.system.node.checkpointer import Checkpointer
from atleastonce.system.node.counters import Counters
from atleastonce.system.node.logbook import Logbook
from atleastonce.system.node.opening import StoreInForce
from atleastonce.system.node.scrubber import Scrubber
from atleastonce.system.node.storage_limits import StorageLimits


class _Store:
    def check_some(self, after: bytes | None, rows_max: int) -> None:
        return None


class _InForce:
    store = _Store()


class _Unhurried:
    def __init__(self) -> None:
        self.lock = trio.Lock()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_lack_of_descriptors_is_no_rot_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(path: Path) -> bytes:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "read_bytes", refuse)

    async def main() -> None:
        scrubber = Scrubber(
            tmp_path,
            cast(StoreInForce, _InForce()),
            cast(Checkpointer, _Unhurried()),
            StorageLimits(),
            Logbook(lambda _: None, "n1"),
            counters,
        )
        await scrubber.look_at_all()
        assert scrubber.rotten == {}

    counters = Counters()
    trio.run(main)
    assert counters.scrub_rounds == 1
