"""The program `atleastonce`, put together from parts that know nothing of each other."""

from __future__ import annotations

from .node.cli import main
from .supervisor.cli import supervisor

__all__ = ["main"]

main.add_command(supervisor)

if __name__ == "__main__":
    main(prog_name="atleastonce")
