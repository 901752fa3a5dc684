"""A node's data folder in words: what `verify-data` and `dump-log` print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from lmdb import verify as lmdb_verify

from ..broker.commands import Batch, decode_batch
from ..bugs import NO_BUGS
from ..raft.messages import Entry, EntryKind, HardState
from ..storage.checkpoint import CheckpointStore
from ..storage.checkpoint_folder import CHECKPOINT_DIRECTORY, POINTER, read_pointer
from ..storage.errors import DamagedCheckpointError, DamagedLogError
from ..storage.format import Base
from ..storage.inspection import LogFolder, SeenRecord
from ..storage.recovery import Recovered
from .opening import LOG_DIRECTORY, STORE_REMEDY, StoreInForce, fit_log, restore_machine

Facts = dict[str, Any]

_UNREADABLE_REMEDY = (
    "run the version of the program that wrote it; if that one cannot read it either, replace the "
    "node by one of another name"
)


_structure: Final[Callable[..., list[object]]] = lmdb_verify.verify


class NoLogError(Exception):
    """There is no log where one was named; the message says where."""


def open_folder(data_dir: Path) -> LogFolder:
    """Open the log of a data folder (or a log folder itself) for reading.

    Raises:
        NoLogError: There is none.
        DirectoryLockedError: A running node has it.
    """
    folder = data_dir / LOG_DIRECTORY if (data_dir / LOG_DIRECTORY).is_dir() else data_dir
    try:
        opened = LogFolder(folder)
        if not opened.is_empty:
            return opened
        opened.close()
    except OSError as error:
        raise NoLogError(f"cannot read {folder}: {error.strerror}") from None
    raise NoLogError(f"{folder} holds no log")


def verify(folder: LogFolder) -> Facts:
    """Read everything as a booting node would, and decode every command.

    Raises:
        DamagedLogError: With file, offset and remedy.
        DamagedCheckpointError: With file and remedy.
    """
    recovered = folder.replay()
    records = 0
    for seen in folder.records():
        records += 1
        content = seen.content()
        if isinstance(content, Entry) and content.kind is EntryKind.COMMAND:
            _batch(folder, seen, content)
    facts: Facts = {
        "segments": len(folder.segments()),
        "records": records,
        "firstIndex": recovered.start_index,
        "lastIndex": recovered.last_index,
        "term": recovered.hard_state.term,
        "votedFor": recovered.hard_state.voted_for,
        "tornBytes": recovered.torn_bytes,
    }
    return facts | _verify_checkpoint(folder.folder.parent / CHECKPOINT_DIRECTORY, recovered)


def _verify_checkpoint(folder: Path, recovered: Recovered) -> Facts:
    pointer = read_pointer(folder)
    if pointer is None or not (folder / pointer.file).exists():
        if recovered.start_index > 1:
            reason = f"it is missing, although the log begins with entry {recovered.start_index}"
            where = folder / (pointer.file if pointer else POINTER)
            raise DamagedCheckpointError(str(where), reason, STORE_REMEDY)
        return {"checkpoint": 0, "rows": 0}
    file = folder / pointer.file
    try:
        findings = [str(finding) for finding in _structure(str(file), subdir=False)]
    except lmdb_verify.VerifyError as error:
        findings = [str(error)]
    if findings:
        raise DamagedCheckpointError(str(file), findings[0], STORE_REMEDY)
    store = CheckpointStore.open(file, must_exist=True, is_read_only=True)
    try:
        fit_log(recovered, store, pointer.is_ahead)
        rows = sum(1 for _ in store.rows())
        restore_machine(store, NO_BUGS, StoreInForce(store))
        return {"checkpoint": store.position.index, "rows": rows}
    finally:
        store.close()


def _batch(folder: LogFolder, seen: SeenRecord, entry: Entry) -> Batch:
    try:
        return decode_batch(entry.data)
    except ValueError as error:
        reason = f"the commands of entry {entry.index} cannot be read: {error}"
        where = folder.where(seen.file)
        raise DamagedLogError(where, seen.offset, reason, _UNREADABLE_REMEDY) from None


def dump(folder: LogFolder, with_commands: bool) -> Iterator[Facts]:
    """Every record as plain values, then raise if a booting node would refuse the log.

    Args:
        folder: The log.
        with_commands: Whether commands are shown whole, payloads in base64, or by name alone.

    Raises:
        DamagedLogError: Behind the last intact record.
    """
    for seen in folder.records():
        facts: Facts = {
            "file": seen.file,
            "offset": seen.offset,
            "seq": seen.seq,
            "synced": seen.record.synced,
            "kind": seen.kind,
        }
        content = seen.content()
        if isinstance(content, Entry):
            facts |= {
                "term": content.term,
                "index": content.index,
                "entry": content.kind.name.lower(),
                "bytes": len(content.data),
            }
            if content.kind is EntryKind.COMMAND:
                batch = _batch(folder, seen, content)
                facts["nowUs"] = batch.now_us
                facts["commands"] = [_command(each, with_commands) for each in batch.commands]
        elif isinstance(content, HardState):
            facts |= {"term": content.term, "votedFor": content.voted_for}
        elif isinstance(content, Base):
            state = content.hard_state
            facts |= {"term": state.term, "votedFor": state.voted_for}
            facts |= {"lastIndex": content.last_index, "isReset": content.is_reset}
        elif content is not None:
            facts["fromIndex"] = content
        yield facts
    folder.replay()


def _command(command: msgspec.Struct, whole: bool) -> object:
    name = type(command).__name__
    if not whole:
        return name
    return {"command": name} | {
        field: msgspec.to_builtins(getattr(command, field)) for field in command.__struct_fields__
    }
