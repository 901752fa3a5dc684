"""What a disk or a log can refuse, in words that an operator can act on."""

from __future__ import annotations


class StorageError(Exception):
    """Any trouble of the durable log."""


class DiskFailedError(StorageError):
    """The disk refused a write or a sync; nothing may be acknowledged any more.

    Attributes:
        operation: What was tried, such as `fsync`.
        path: The file, as the operator knows it.
        cause: What the operating system said.
    """

    def __init__(self, operation: str, path: str, cause: str) -> None:
        super().__init__(f"disk failed: {operation} of {path}: {cause}")
        self.operation = operation
        self.path = path
        self.cause = cause


class DirectoryLockedError(StorageError):
    """Another process holds the directory.

    Attributes:
        directory: The directory as the operator knows it.
    """

    def __init__(self, directory: str) -> None:
        super().__init__(f"{directory} is in use by another process; stop that one first")
        self.directory = directory


class DamagedLogError(StorageError):
    """The log holds something that no crash can explain, so it is not opened.

    Attributes:
        file: The segment, as the operator knows it.
        offset: Where in it, in bytes.
        reason: What is wrong there.
        remedy: What to do.
    """

    def __init__(self, file: str, offset: int, reason: str, remedy: str) -> None:
        super().__init__(f"{file}: damaged at byte {offset}: {reason}. Remedy: {remedy}")
        self.file = file
        self.offset = offset
        self.reason = reason
        self.remedy = remedy


class DamagedCheckpointError(StorageError):
    """A store of checkpoints holds something that no crash can explain.

    Attributes:
        file: The file, as the operator knows it.
        reason: What is wrong.
        remedy: What to do.
    """

    def __init__(self, file: str, reason: str, remedy: str) -> None:
        super().__init__(f"{file}: damaged: {reason}. Remedy: {remedy}")
        self.file = file
        self.reason = reason
        self.remedy = remedy


class ClosedStoreError(StorageError):
    """A store of checkpoints was read after it had been closed."""
