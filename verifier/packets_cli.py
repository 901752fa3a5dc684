"""The command `verify packets`; light, because every command loads it."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("run_folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--around",
    metavar="FAULT|OP",
    required=True,
    help="The id of a fault, or the index of an operation in the history.",
)
@click.option(
    "--window",
    "window_s",
    type=float,
    default=0.5,
    show_default=True,
    help="Seconds before and after each of its moments.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def packets(run_folder: Path, around: str, window_s: float, as_json: bool) -> None:
    """Show what was said on the links of RUN around a fault or an operation.

    RUN was recorded with verify run --capture.
    """
    from .packets.show import show_packets

    show_packets(run_folder, around, window_s, as_json=as_json)
