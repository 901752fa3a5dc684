"""Starts supervisors in state directories that they must not use, and records how they end."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from ..checkers.lane_strangers import INTRUDE, Intrusion
from ..histories.ops import Json
from .activities import Stage

_NOBODY: Final = 65_534
_MINE: Final = 0o700
_ANYONES: Final = 0o777


def _foreign(folder: Path) -> Path:
    """Another user's directory: given away by root, or else one that is root's."""
    if os.getuid() != 0:
        return Path("/")
    folder.mkdir(mode=_MINE)
    os.chown(folder, _NOBODY, _NOBODY)
    return folder


def _open(folder: Path) -> Path:
    folder.mkdir()
    folder.chmod(_ANYONES)
    return folder


def _link(folder: Path) -> Path:
    real = folder.with_name(f"{folder.name}-target")
    real.mkdir(mode=_MINE)
    folder.symlink_to(real)
    return folder


_IN_USE: Final = "in use"
_MAKE: Final[dict[str, Callable[[Path], Path]]] = {
    "another user's": _foreign,
    "open to others": _open,
    "a link": _link,
}
KINDS: Final = (*_MAKE, _IN_USE)
"""What may be wrong with a directory."""


async def send_strangers(stage: Stage, kinds: Sequence[str]) -> None:
    """Start one supervisor after the other; each is over when the next one starts."""
    for number, kind in enumerate(kinds, start=1):
        await _send(stage, kind, f"stranger-{number}")


async def _send(stage: Stage, kind: str, name: str) -> None:
    run = stage.run
    directory = run.supervisor
    if kind != _IN_USE:
        directory = _MAKE[kind](run.path / f"{name}-state")
    before = _names(directory)
    config, log = run.path / f"{name}.json", run.path / f"{name}.log"
    told: dict[str, Json] = msgspec.json.decode(run.config_of("supervisor").read_bytes())
    worker = told["worker"]
    assert isinstance(worker, dict), f"a supervisor whose workers are {worker!r}"
    told |= {"state_dir": str(directory), "worker": {**worker, "state_dir": str(directory)}}
    config.write_bytes(msgspec.json.encode(told))
    op = stage.recorder.invoke(INTRUDE, {"kind": kind})
    status = await stage.run_stranger(config, log)
    intrusion = Intrusion(
        kind=kind,
        directory=str(directory),
        exit=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        lines=tuple(log.read_text(encoding="utf-8", errors="replace").splitlines()),
        # What its owner does in it meanwhile is the owner's.
        left=() if kind == _IN_USE else tuple(sorted(_names(directory) - before)),
    )
    stage.recorder.complete(op, "ok", msgspec.to_builtins(intrusion))


def _names(directory: Path) -> frozenset[str]:
    return frozenset(os.listdir(directory))
