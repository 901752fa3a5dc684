"""What several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

DEFAULT_STORE: Final = Path("store")

STORE: Final = click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=DEFAULT_STORE,
    show_default=True,
    help="Folder of the runs.",
)

JSON: Final = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on standard output."
)

QUIET: Final = click.option("--quiet", is_flag=True, help="Print the verdict alone.")


def split_names(text: str | None) -> tuple[str, ...]:
    """Split `NAME[,NAME...]`; no names where the option was left out.

    An empty text is one name, which nothing has: a variable that was not set must not mean "none".
    """
    return () if text is None else tuple(name.strip() for name in text.split(","))


def split_targets(text: str | None) -> tuple[tuple[str, ...], dict[str, str]]:
    """Split `NAME[=TARGET][,...]` into the names, and the targets of those that have one."""
    parts = [part.partition("=") for part in split_names(text)]
    targets = {name: target for name, equals, target in parts if equals}
    return tuple(name for name, _, _ in parts), targets
