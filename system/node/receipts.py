"""What goes with an answer that hands out a claim, and comes back when nobody got to read it."""

from __future__ import annotations

from ..broker.commands import Pop, TakeBack


def receipt(lease: str, pop: Pop) -> str:
    """Name a claim and the try that was answered with it, in one string for the peers' frames."""
    return f"{lease} {pop.asking} {pop.trial}"


def read_receipt(text: str) -> TakeBack:
    """Return the command that undoes what a receipt names; of garbage, one that does nothing."""
    lease, _, tried = text.partition(" ")
    asking, _, trial = tried.rpartition(" ")
    return TakeBack(lease, asking, int(trial) if trial.isascii() and trial.isdecimal() else 0)
