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


def split_names(text: str) -> tuple[str, ...]:
    """Split `NAME[,NAME...]`; nothing where there is no text."""
    return tuple(name.strip() for name in text.split(",")) if text else ()
