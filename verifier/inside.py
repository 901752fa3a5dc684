"""Where the command begins inside a private world: as the first process of it.

The kernel keeps from a first process every signal that it has no handler for.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final

_ENDS_BY: Final = 128


def _end(number: int, frame: FrameType | None) -> None:
    """End as the default would have it; once processes run, the runner heeds signals itself."""
    del frame
    os._exit(_ENDS_BY + number)


def main() -> None:
    """Run the command; exits."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    from .entry import main as command

    command()


if __name__ == "__main__":
    main()
