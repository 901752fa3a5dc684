"""One sealed segment held against what the manifest says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from . import format as layout
from .errors import DamagedLogError
from .manifest import SealedSegment

_REMEDY: Final = (
    "this node will not start again with it: replace the node by one of another name while the "
    "others form a majority, or restore the file from a copy of its disk"
)


def check_segment(path: Path, sealed: SealedSegment) -> None:
    """Read a sealed segment again. Call it on a thread: it takes about 1.5 µs a record.

    Raises:
        DamagedLogError: It is not what was sealed.
        OSError: It cannot be read.
    """
    data = path.read_bytes()
    offset = layout.HEADER.size
    try:
        header = layout.decode_segment_header(data)
    except ValueError as error:
        raise DamagedLogError(str(path), 0, str(error), _REMEDY) from None
    if (header.first_seq, header.seed) != (sealed.first_seq, sealed.seed):
        raise DamagedLogError(str(path), 0, "it is another segment", _REMEDY)
    seq, chain = header.first_seq, header.seed
    while offset < len(data) and seq <= sealed.last_seq:
        record = layout.decode_record(data, offset, seq, chain)
        if isinstance(record, str):
            raise DamagedLogError(str(path), offset, record, _REMEDY)
        seq, chain, offset = seq + 1, record.crc, record.end
    if (seq - 1, chain, len(data)) != (sealed.last_seq, sealed.crc, sealed.bytes):
        reason = f"it has {len(data)} of {sealed.bytes} bytes, and ends with record {seq - 1}"
        raise DamagedLogError(str(path), offset, reason, _REMEDY)
