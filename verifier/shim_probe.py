"""Whether this machine lets a preloaded clock move a program's time of day."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ..nemesis.clockshim.proof import prove
from ..nemesis.clockshim.shim import ShimError, write_shim
from .probing import RefusedError


def try_a_shim() -> str:
    """Write a shim, start a program with it and move its clock; returns what was seen.

    Raises:
        RefusedError: The program did not see it.
        OSError: It cannot be started.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "clock.so")
        try:
            write_shim(path)
            return prove(path)
        except ShimError as error:
            raise RefusedError(str(error)) from None
