"""Making checkpoints: what was taken from the machine is committed, whatever is cancelled."""

from __future__ import annotations

from pathlib import Path

import trio

from atleastonce.system.broker.commands import Push, PushItem
from atleastonce.system.broker.machine import Machine
from atleastonce.system.broker.planner import Planner
from atleastonce.system.node.applier import Applier
from atleastonce.system.node.checkpointer import Checkpointer
from atleastonce.system.node.counters import Counters
from atleastonce.system.node.logbook import Logbook
from atleastonce.system.node.opening import StoreInForce
from atleastonce.system.node.storage_limits import StorageLimits
from atleastonce.system.raft.members import Checkpoint, Members
from atleastonce.system.raft.messages import Entry, EntryKind
from atleastonce.system.storage.checkpoint import CheckpointStore


class LoneCore:
    """The consensus core of a node without peers."""

    members = Members(("n1",))
    slowest_match_index = None


def make_applier(machine: Machine) -> Applier:
    return Applier(machine, Checkpoint(), lambda *_: None, lambda: None, lambda _: False)


def push_one(applier: Applier) -> None:
    index = applier.applied_index + 1
    push = Push(f"r{index}", (PushItem("q", "p", f"t{index}", b"1"),))
    data = Planner(bytes, 0).plan(1_000_000 * index, [push])
    applier.add((Entry(1, index, EntryKind.COMMAND, data),))


def test_a_checkpoint_that_is_cancelled_as_it_begins_leaves_none_half_taken(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        store = CheckpointStore.open(tmp_path / "store.mdb")
        scope = trio.CancelScope()

        class Cancelling(Machine):
            def take_changes(self) -> list[tuple[bytes, bytes | None]]:
                scope.cancel()
                return super().take_changes()

        applier = make_applier(Cancelling())
        checkpointer = Checkpointer(
            StoreInForce(store),
            applier,
            LoneCore(),
            lambda _: None,
            lambda _: None,
            StorageLimits(),
            Logbook(lambda _: None, "n1"),
            Counters(),
        )
        push_one(applier)
        with scope:
            await checkpointer.commit()
        assert scope.cancel_called
        push_one(applier)
        scope = trio.CancelScope()
        await checkpointer.commit()
        assert checkpointer.position.index == applier.applied_index == 2
        store.close()

    trio.run(main)
