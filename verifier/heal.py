"""Undoing what a verifier that was killed left open."""

from __future__ import annotations

from pathlib import Path

from ..nemesis.healing import heal, open_ledgers
from ..nemesis.ledger import LedgerInUseError


def heal_store(store: Path) -> list[str]:
    """Close the ledger of every run whose verifier is dead; return what was done, a line each.

    Raises:
        OSError: A process may not be signalled, or a ledger cannot be written.
    """
    done: list[str] = []
    for ledger in open_ledgers(store):
        try:
            undone = heal(ledger)
        except LedgerInUseError:
            continue  # It began between the look and the act.
        done.append(f"{ledger.parent}: closed its ledger")
        done.extend(f"{ledger.parent}: {line}" for line in undone)
    return done
