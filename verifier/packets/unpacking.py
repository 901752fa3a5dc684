"""MessagePack, read value by value with what is left over, which its usual reader does not tell."""

from __future__ import annotations

import struct
from typing import Final

from ...histories.ops import Json

Value = Json | bytes | list["Value"] | dict[str, "Value"]

_NUMBERS: Final = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_CONSTANTS: Final[dict[int, bool | None]] = {0xC0: None, 0xC2: False, 0xC3: True}
_TEXTS: Final = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_BYTES: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_ARRAYS: Final = {0xDC: 2, 0xDD: 4}
_MAPS: Final = {0xDE: 2, 0xDF: 4}


class UnpackError(ValueError):
    """The bytes are no value, or not all of one."""


def unpack(data: bytes) -> tuple[Value, bytes]:
    """Read one value; return it and the bytes after it.

    Raises:
        UnpackError: There is none.
    """
    try:
        value, end = _value(data, 0)
    except (IndexError, struct.error, UnicodeDecodeError, RecursionError) as error:
        raise UnpackError(f"not MessagePack: {error}") from None
    if end > len(data):
        raise UnpackError("not all of a value")
    return value, data[end:]


def unpack_array_size(data: bytes) -> tuple[int, bytes]:
    """Read the head of an array; return its size and the bytes after the head.

    Raises:
        UnpackError: There is none.
    """
    if data and data[0] & 0xF0 == 0x90:
        return data[0] & 0x0F, data[1:]
    if data and data[0] in _ARRAYS:
        size, at = _size(data, 1, _ARRAYS[data[0]])
        return size, data[at:]
    raise UnpackError("not an array")


def _size(data: bytes, at: int, width: int) -> tuple[int, int]:
    return int.from_bytes(data[at : at + width], "big"), at + width


def _value(data: bytes, at: int) -> tuple[Value, int]:
    head = data[at]
    at += 1
    if head < 0x80 or head >= 0xE0:
        return head if head < 0x80 else head - 0x100, at
    if head in _CONSTANTS:
        return _CONSTANTS[head], at
    if head in _NUMBERS:
        form = _NUMBERS[head]
        number: int | float = struct.unpack_from(form, data, at)[0]
        return number, at + struct.calcsize(form)
    if head < 0x90:
        return _map(data, at, head & 0x0F)
    if head < 0xA0:
        return _array(data, at, head & 0x0F)
    if head < 0xC0:
        return _text(data, at, head & 0x1F)
    for widths, read in ((_TEXTS, _text), (_BYTES, _raw), (_ARRAYS, _array), (_MAPS, _map)):
        if head in widths:
            size, at = _size(data, at, widths[head])
            return read(data, at, size)
    raise UnpackError(f"no value begins with {head:#x}")


def _text(data: bytes, at: int, size: int) -> tuple[Value, int]:
    return data[at : at + size].decode(), at + size


def _raw(data: bytes, at: int, size: int) -> tuple[Value, int]:
    return data[at : at + size], at + size


def _array(data: bytes, at: int, size: int) -> tuple[Value, int]:
    values: list[Value] = []
    for _ in range(size):
        value, at = _value(data, at)
        values.append(value)
    return values, at


def _map(data: bytes, at: int, size: int) -> tuple[Value, int]:
    values: dict[str, Value] = {}
    for _ in range(size):
        key, at = _value(data, at)
        values[str(key)], at = _value(data, at)
    return values, at
