"""A real file system of its own for each node's data, in runs that cut its power."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from ..nemesis.ext4 import Ext4Error, Ext4Image
from ..nemesis.ledger import Ledger
from ..nemesis.levels import REAL_EXT4
from ..nemesis.registry import NEMESES
from .errors import HarnessError
from .scenario import Scenario
from .store import RunPaths


def needs_volumes(scenario: Scenario) -> bool:
    """Whether a fault of the run cuts the power of a file system."""
    return any(REAL_EXT4 in NEMESES[fault.kind].needs for fault in scenario.plan)


class Volumes:
    """The file systems of a run's nodes, each on an image file beside the node's data folder.

    Args:
        run: Where.
        nodes: Who gets one.
        ledger: Written before each is made.
    """

    def __init__(self, run: RunPaths, nodes: Sequence[str], ledger: Ledger) -> None:
        self._run = run
        self._ledger = ledger
        self._images = {
            node: Ext4Image(run.nodes / f"{node}.ext4", run.node_data(node)) for node in nodes
        }

    def of(self, node: str) -> Ext4Image:
        """Return a node's file system."""
        return self._images[node]

    def mount_all(self) -> None:
        """Make and mount all of them; about 60 ms each.

        Raises:
            HarnessError: One cannot be made.
        """
        for node, image in self._images.items():
            self._ledger.thing_made(f"{node}.ext4", {"ext4": image.thing()})
            try:
                image.make()
                image.mount()
            except (Ext4Error, OSError) as error:
                raise HarnessError(f"{node} gets no file system of its own: {error}") from None

    def close(self) -> None:
        """Unmount all of them, and leave what they hold in the data folders.

        Raises:
            OSError: One is still in use.
        """
        for node, image in self._images.items():
            if not image.is_mounted():
                continue
            kept = self._run.nodes / f"{node}.kept"
            shutil.copytree(image.point, kept)
            image.unmount()
            image.point.rmdir()
            kept.rename(image.point)
            image.image.unlink()
            self._ledger.thing_gone(f"{node}.ext4")
