"""`atleastonce supervisor maintenance on|off`.

Exit status: 0 done, 1 not done in time, 2 it cannot be switched.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from .checks import Sight

EXIT_DONE: Final = 0
EXIT_NOT_DONE: Final = 1


def switch(root: Path, word: str, as_json: bool, timeout_s: float, wait_s: float) -> int:
    """Switch maintenance, and wait until a running supervisor has noticed.

    Args:
        root: The state directory.
        word: `on` or `off`.
        as_json: Whether to print one JSON object.
        timeout_s: How long to wait until it is noticed.
        wait_s: How long to wait until the workers have finished, too.
    """
    from .asking import look, wait_until
    from .maintenance import switch_maintenance
    from .statedir import StateDirectoryError, check_private

    wanted = word == "on"
    try:
        check_private(root)
        switch_maintenance(root, wanted)
        is_noticed = wait_until(root, lambda sight: _is_noticed(sight, wanted), timeout_s)
        is_finished = is_noticed and (
            wait_s <= 0 or wait_until(root, lambda sight: _is_finished(sight, wanted), wait_s)
        )
        sight = look(root)
    except (StateDirectoryError, OSError) as error:
        raise click.ClickException(str(error)) from None
    runs = sight.holder is not None
    if as_json:
        told = {"maintenance": word, "running": runs, "noticed": is_noticed}
        click.echo(json.dumps(told | ({"done": is_finished} if wait_s > 0 else {})))
    elif not is_noticed:
        click.echo(f"maintenance {word}: not noticed within {timeout_s:g} s", err=True)
    elif not is_finished:
        click.echo(f"maintenance {word}: workers did not finish within {wait_s:g} s", err=True)
    else:
        click.echo(f"maintenance {word}" + ("" if runs else "; no supervisor runs here now"))
    return EXIT_DONE if is_finished else EXIT_NOT_DONE


def _is_noticed(sight: Sight, wanted: bool) -> bool:
    """Whether a supervisor knows; one that does not run will read the file when it starts."""
    if sight.holder is None:
        return True
    return sight.status is not None and (sight.status.maintenance != "off") is wanted


def _is_finished(sight: Sight, wanted: bool) -> bool:
    if sight.holder is None:
        return True
    return sight.status is not None and sight.status.maintenance == ("on" if wanted else "off")
