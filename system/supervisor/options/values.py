"""One option's value: text made a value, a value made the option's type, or one line of refusal."""

from __future__ import annotations

import math
import tomllib
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

_WANTS: Final[dict[object, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
}
_BOOLS: Final = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


class ValueRefusedError(ValueError):
    """A value that an option cannot take; the message says what it may be."""


def parts(kind: Any) -> tuple[list[Any], Any, bool]:
    """Take an option's type apart.

    Returns:
        Its members without None and without bounds, the bounds of the first that has any, and
        whether None is allowed.
    """
    if get_origin(kind) is Annotated:
        inner, meta = get_args(kind)[:2]
        members, _, is_optional = parts(inner)
        return members, meta, is_optional
    if get_origin(kind) in (Union, UnionType):
        members, meta, is_optional = [], None, False
        for member in get_args(kind):
            if member is type(None):
                is_optional = True
                continue
            inner, found, _ = parts(member)
            members += inner
            meta = meta or found
        return members, meta, is_optional
    return [kind], None, False


def describe(kind: Any) -> str:
    """Say in words what an option may be."""
    members, meta, is_optional = parts(kind)
    words = [_name(member) for member in members]
    bounds = _bounds(meta)
    if meta is not None and meta.min_length:
        words[0] = words[0].replace("a list of", "a list of one or more", 1)
        words[0] = words[0].replace("a text", "a text that is not empty", 1)
    if bounds and get_origin(members[0]) is not tuple and members[0] is not str:
        words[0] = f"{words[0]}, {bounds}"
    if is_optional:
        words.append("none")
    return " or ".join(words)


def _name(member: Any) -> str:
    if get_origin(member) is Literal:
        return " or ".join(str(choice) for choice in get_args(member))
    if get_origin(member) is tuple:
        (of,), meta, _ = parts(get_args(member)[0])
        bounds = f", each {_bounds(meta)}" if _bounds(meta) and of is not str else ""
        return f"a list of {_WANTS[of].partition(' ')[2]}s{bounds}"
    return _WANTS[member]


def _bounds(meta: Any) -> str:
    if meta is None:
        return ""
    low, high = meta.ge, meta.le
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    if low is not None:
        return f"{low:g} or more"
    if meta.gt is None:
        return ""
    return f"above 0, {high:g} at most" if high is not None else "above 0"


def read_text(text: str, kind: Any) -> object:
    """Read what the environment or a flag holds for an option of a type."""
    members, _, is_optional = parts(kind)
    text = text.strip()
    if is_optional and text.lower() in ("none", ""):
        return None
    if get_origin(members[0]) is tuple:
        of = get_args(members[0])[0]
        return [read_text(one, of) for one in text.split(",") if one.strip()]
    if members == [bool]:
        return _BOOLS.get(text.lower(), text)
    if int in members or float in members:
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            return text
        return value if isinstance(value, int | float) else text
    return text


def convert(value: object, kind: Any) -> object:
    """Return a value as an option's type.

    Raises:
        ValueRefusedError: It cannot be one.
    """
    try:
        converted: object = msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise ValueRefusedError(f"want {describe(kind)}") from None
    numbers = converted if isinstance(converted, tuple) else (converted,)
    if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
        raise ValueRefusedError(f"want {describe(kind)}")
    return converted
