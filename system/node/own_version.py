"""The version of this program, as it was installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_PROGRAM: Final = "atleastonce"


def own_version() -> str:
    """Return the version.

    The name of the installer's folder tells it in less than a millisecond; only where there is no
    such folder the standard library is asked, which takes 30 ms, most of them to be imported.

    Raises:
        importlib.metadata.PackageNotFoundError: The program is not installed.
    """
    for place in sys.path:
        for folder in Path(place).glob(f"{_PROGRAM}-*.dist-info"):
            return folder.name.removeprefix(f"{_PROGRAM}-").removesuffix(".dist-info")
    from importlib.metadata import version

    return version(_PROGRAM)
