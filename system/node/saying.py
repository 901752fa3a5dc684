"""Plain lines for people, on standard error."""

from __future__ import annotations

import os
from typing import Final

NO_MEMORY: Final = "node: the system gives no more memory; what was acknowledged is on the disk"
_STANDARD_ERROR: Final = 2


def say(text: str) -> None:
    """Write one line at once; where nobody can read it (a full disk, say), nothing happens.

    The exit status must not depend on whether its explanation could be written.
    """
    try:
        os.write(_STANDARD_ERROR, f"{text}\n".encode())
    except OSError:
        return
