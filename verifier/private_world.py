"""Running the whole verifier in a private world: namespaces that vanish with all that is in them.

The command re-executes itself twice. First the same process becomes `wrapper`: small and with a
single thread, as a new user namespace wants it, it leaves for new namespaces and forks. Its child
is the first process of its own process namespace and runs the command there; the wrapper hands
signals in and the exit status out. Whichever of the two is killed, the kernel ends all the rest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Final, NoReturn

import msgspec

from ..nemesis.levels import Level
from ..nemesis.world import Target
from .levels import ChosenLevel

VARIABLE: Final = "ATLEASTONCE_PRIVATE_WORLD"
_WRAPPER: Final = "atleastonce.verifier.wrapper"


class Inside(msgspec.Struct, frozen=True):
    """What the command is told of the world that it runs in.

    Attributes:
        owner: The wrapper, as processes outside see it.
        start_time: Its identity, see `nemesis.world.Target`.
        level: The level's number.
        powers: Its powers.
        has_network: Whether each node gets a network of its own.
        is_switched: Whether the packet switch joins these.
    """

    owner: int
    start_time: str
    level: int
    powers: list[str]
    has_network: bool
    is_switched: bool

    @property
    def chosen(self) -> ChosenLevel:
        """The level that was chosen outside."""
        return ChosenLevel(
            Level(self.level, frozenset(self.powers)), self.has_network, self.is_switched
        )

    @property
    def target(self) -> Target:
        """Whose life the world hangs on."""
        return Target(self.owner, self.start_time, "verify")


@cache
def inside() -> Inside | None:
    """Say in which private world this process runs; None if it is in none. Not passed on."""
    told = os.environ.pop(VARIABLE, None)
    return None if told is None else msgspec.json.decode(told, type=Inside)


def enter(chosen: ChosenLevel, seed: int, arguments: Sequence[str]) -> NoReturn:
    """Begin this command anew in a private world; nothing may be open that has to be closed.

    Args:
        chosen: The level to have there.
        seed: Of the run, so that it is the same one.
        arguments: The command line after the program's name.
    """
    me = Target.of(os.getpid(), "verify")
    told = Inside(
        me.pid,
        me.start_time,
        chosen.level.number,
        sorted(chosen.level.powers),
        chosen.has_network,
        chosen.is_switched,
    )
    # A seed on the command line comes later, and is the same.
    command = (arguments[0], "--seed", str(seed), *arguments[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(
        sys.executable,
        (sys.executable, "-P", "-m", _WRAPPER, *command),
        {**os.environ, VARIABLE: msgspec.json.encode(told).decode()},
    )
