"""Reads many dispatch lines of a history at once, as `templates.py` does for attempt records.

Lines of one length are laid side by side. A template is made from one of them; all others that
equal it outside the fields named here are read by slicing. A field must stand in a line exactly
once, so that slicing reads what a JSON parser would.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

_NUMBER: Final = rb"(0|[1-9][0-9]{0,17})(?=[,}])"
_TEXT: Final = rb'"([^"\\\x00-\x1f]+)"'
_FIELDS: Final = {
    "index": re.compile(rb'"index":' + _NUMBER),
    "process": re.compile(rb'"process":' + _NUMBER),
    "time_ns": re.compile(rb'"time_ns":' + _NUMBER),
    "job": re.compile(rb'"job":' + _TEXT),
    "partition": re.compile(rb'"partition":' + _TEXT),
    "not_before_ns": re.compile(rb'"not_before_ns":' + _NUMBER),
    "digest": re.compile(rb'"digest":' + _TEXT),
    "offset": re.compile(rb'"offset":' + _NUMBER),
}
_TEXTS: Final = frozenset({"job", "partition", "digest"})
_NEEDED: Final = ("index", "process", "time_ns")


@dataclass(frozen=True, slots=True)
class LineTemplate:
    """One shape of line: where the fields that may differ stand, and what all else is."""

    spans: dict[str, slice]
    expected: NDArray[np.uint8]
    mask: NDArray[np.uint8]

    def matches(self, rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Tell which rows (n, length) have this shape, and sound fields."""
        differs = rows ^ self.expected
        differs &= self.mask
        matched: NDArray[np.bool_] = np.bitwise_or.reduce(differs, axis=1) == 0
        for name, span in self.spans.items():
            cells = rows[:, span]
            if name in _TEXTS:
                unsound = (cells == ord('"')) | (cells == ord("\\")) | (cells < ord(" "))
            else:
                unsound = (cells < ord("0")) | (cells > ord("9"))
                if cells.shape[1] > 1:
                    unsound[:, 0] |= cells[:, 0] == ord("0")
            if unsound.any():
                matched &= ~np.any(unsound, axis=1)
        return matched

    def number(self, rows: NDArray[np.uint8], name: str) -> NDArray[np.int64] | None:
        """Read a decimal field; None where this shape has none."""
        span = self.spans.get(name)
        if span is None:
            return None
        cells = rows[:, span]
        value = np.zeros(len(rows), np.int64)
        for at in range(cells.shape[1]):
            value *= 10
            value += cells[:, at] - np.uint8(ord("0"))
        return value

    def text(self, rows: NDArray[np.uint8], name: str) -> NDArray[np.bytes_] | None:
        """Read a text field; None where this shape has none."""
        span = self.spans.get(name)
        if span is None:
            return None
        cells = np.ascontiguousarray(rows[:, span])
        texts: NDArray[np.bytes_] = cells.view(f"S{cells.shape[1]}").ravel()
        return texts


def find_line_template(line: bytes) -> LineTemplate | None:
    """Make a template of one line, or None where its shape is not a plain one."""
    spans: dict[str, slice] = {}
    for name, pattern in _FIELDS.items():
        key = b'"%b":' % name.encode()
        found = pattern.search(line)
        if line.count(key) > 1 or (found is None and name in _NEEDED):
            return None
        if found is not None:
            spans[name] = slice(*found.span(1))
    expected = np.frombuffer(line, np.uint8).copy()
    mask = np.full(len(line), 0xFF, np.uint8)
    for span in spans.values():
        mask[span] = 0
    return LineTemplate(spans, expected & mask, mask)
