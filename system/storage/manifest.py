"""Which segments a log consists of, written beside them, so that none can vanish unnoticed.

`MANIFEST` (`checked_line` tells its form) is replaced whole, by a rename, behind every change: when
a segment has been sealed and the next one begun, and before old segments are deleted.
"""

from __future__ import annotations

from typing import Final

import msgspec

from .checked_line import decode_checked, encode_checked

NAME: Final = "MANIFEST"
FORMAT_VERSION: Final = 1


class SealedSegment(msgspec.Struct, frozen=True, rename="camel"):
    """A segment that will never change again.

    Attributes:
        name: Its file.
        first_seq: Its first record.
        last_seq: Its last one.
        base_index: Index of the log's last entry when the segment was begun.
        highest_index: The highest index of an entry in it or before it.
        bytes: Its size.
        seed: The crc that its first record continues.
        crc: The crc of its last record, which covers all records of the segment.
    """

    name: str
    first_seq: int
    last_seq: int
    base_index: int
    highest_index: int
    bytes: int
    seed: int
    crc: int


class ActiveSegment(msgspec.Struct, frozen=True, rename="camel"):
    """The segment that is written to, or was when the manifest was."""

    name: str
    first_seq: int
    base_index: int
    seed: int

    def seal(self, last_seq: int, highest_index: int, size: int, crc: int) -> SealedSegment:
        """The segment, once nothing more is written to it."""
        return SealedSegment(
            self.name,
            self.first_seq,
            last_seq,
            self.base_index,
            highest_index,
            size,
            self.seed,
            crc,
        )


class Manifest(msgspec.Struct, frozen=True):
    """All segments, oldest first.

    Attributes:
        v: The format's version.
        sealed: Those that never change again.
        active: The one behind them.
    """

    v: int
    sealed: tuple[SealedSegment, ...]
    active: ActiveSegment

    @property
    def first(self) -> SealedSegment | ActiveSegment:
        """The oldest segment."""
        return self.sealed[0] if self.sealed else self.active

    @property
    def names(self) -> tuple[str, ...]:
        """All files, oldest first."""
        return (*(segment.name for segment in self.sealed), self.active.name)

    def without_up_to(self, index: int) -> Manifest:
        """The manifest without the leading segments in which no entry is above `index`."""
        kept = list(self.sealed)
        while kept and kept[0].highest_index <= index:
            del kept[0]
        return msgspec.structs.replace(self, sealed=tuple(kept))

    def encode(self) -> bytes:
        """The file's content."""
        return encode_checked(self)


def decode_manifest(data: bytes) -> Manifest:
    """Read the file's content.

    Raises:
        ValueError: It is no manifest of this version; the message is a reason.
    """
    manifest = decode_checked(data, Manifest)
    if manifest.v != FORMAT_VERSION:
        raise ValueError(
            f"the manifest has format version {manifest.v}; this program reads {FORMAT_VERSION}"
        )
    return manifest
