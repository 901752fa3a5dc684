"""Where the command `verify` begins: a Ctrl-C while the rest is being imported is one line too."""

from __future__ import annotations

import sys

_UNKNOWN = 3
"""`Exit.UNKNOWN`, which lives in a module that is not imported yet."""


def main() -> None:
    """Import the command and run it; exits."""
    try:
        from .cli import main as command
    except KeyboardInterrupt:
        sys.stderr.write("verify: interrupted\n")
        sys.exit(_UNKNOWN)
    command()
