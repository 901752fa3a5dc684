"""Compiled code for the processes of a run, where Python is told to keep none beside the sources.

Containers often set PYTHONDONTWRITEBYTECODE. Then every node compiles the same 200 modules when it
starts, which takes longer than all the rest of its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

NOT_WRITTEN: Final = "PYTHONDONTWRITEBYTECODE"
PREFIX: Final = "PYTHONPYCACHEPREFIX"
_CACHE: Final = "XDG_CACHE_HOME"


def bytecode_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what to change in an environment, so that children keep compiled code in the cache.

    Nothing where they keep it anyway, or where there is no home to have a cache in. Python checks
    each file against its source, and does without what it cannot write.
    """
    if not environ.get(NOT_WRITTEN) or environ.get(PREFIX):
        return {}
    home = environ.get("HOME", "")
    cache = environ.get(_CACHE) or (f"{home}/.cache" if home else "")
    if not cache.startswith("/"):
        return {}
    # Empty counts as unset.
    return {NOT_WRITTEN: "", PREFIX: str(Path(cache) / "atleastonce" / "bytecode")}
