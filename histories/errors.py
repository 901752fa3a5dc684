"""What can be wrong with stored evidence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FORMAT_VERSION = 1


class UnknownVersionError(ValueError):
    """A file of another format version than this reader's; the message names both."""

    def __init__(self, file: Path | str, version: object, supported: int = FORMAT_VERSION):
        super().__init__(f"{file}: format version {version}, this reader knows {supported}")
        self.file = str(file)
        self.version = version


@dataclass(frozen=True, slots=True)
class Damage:
    """A place where evidence cannot be read, or contradicts itself.

    Attributes:
        file: Path of the file, as opened.
        offset: Byte offset of the first bad record.
        reason: One short sentence.
    """

    file: str
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file} at byte {self.offset}: {self.reason}"


class DamagedEvidenceError(ValueError):
    """Evidence that a reader refuses to guess about."""

    def __init__(self, damage: Damage):
        super().__init__(str(damage))
        self.damage = damage
