"""Fields of data that people write: which one is wrong, and what it takes, in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec
from msgspec import inspect as shapes

from ..histories.ops import Json

_WORDS: Final = {
    shapes.BoolType: "true or false",
    shapes.StrType: "a text",
    shapes.DictType: "an object",
    shapes.AnyType: "anything",
}
_SHOWN_MAX: Final = 60


@cache
def fields_of(shape: type[msgspec.Struct] | None) -> dict[str, shapes.Field]:
    """The fields of a record, by the name that they have in a file."""
    if shape is None:
        return {}
    told = shapes.type_info(shape)
    assert isinstance(told, shapes.StructType), told
    return {field.encode_name: field for field in told.fields}


def wrong_field(raw: Mapping[str, Json], shape: type[msgspec.Struct]) -> str | None:
    """Name the first field of an object that its record does not take.

    Returns:
        Such as `at_s "soon" is not allowed; it takes a number`; None if each field is allowed by
        itself and none is missing.
    """
    fields = fields_of(shape)
    for name, value in raw.items():
        if name not in fields:
            return f"{name} is not known here; choose from: {', '.join(fields) or 'nothing'}"
        try:
            # The field's own shape, so that the fields that are missing do not matter yet.
            msgspec.convert({name: value}, _alone(shape, name))
        except msgspec.ValidationError:
            takes = in_words(fields[name].type)
            return f"{name} {shown(value)} is not allowed; it takes {takes}"
    for name, field in fields.items():
        if field.required and name not in raw:
            return f"{name} is missing; it takes {in_words(field.type)}"
    return None


@cache
def _alone(shape: type[msgspec.Struct], name: str) -> type[msgspec.Struct]:
    hints = {field.encode_name: field.name for field in msgspec.structs.fields(shape)}
    types = {field.name: field.type for field in msgspec.structs.fields(shape)}
    return msgspec.defstruct("Alone", [(hints[name], types[hints[name]])])


def shown(value: Json) -> str:
    """A value as its file has it, cut where it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "..."


def default_of(field: shapes.Field) -> Json:
    """The default of a field that has one."""
    made = field.default_factory() if callable(field.default_factory) else field.default
    plain: Json = msgspec.to_builtins(made)
    return plain


def in_words(shape: shapes.Type) -> str:
    """What a value may be, in a few words."""
    if isinstance(shape, shapes.Metadata):
        return in_words(shape.type)
    if isinstance(shape, shapes.LiteralType):
        return " or ".join(repr(value) for value in shape.values)
    if isinstance(shape, shapes.UnionType):
        return " or ".join(in_words(one) for one in shape.types)
    if isinstance(shape, shapes.IntType | shapes.FloatType):
        kind = "an integer" if isinstance(shape, shapes.IntType) else "a number"
        return kind + _range(shape)
    if isinstance(shape, shapes.ListType | shapes.VarTupleType):
        return f"a list of {in_words(shape.item_type)}"
    return _WORDS.get(type(shape), "null")


def _range(shape: shapes.IntType | shapes.FloatType) -> str:
    words = {
        " from {}": shape.ge,
        " above {}": shape.gt,
        " to {}": shape.le,
        " below {}": shape.lt,
    }
    return "".join(form.format(f"{at:g}") for form, at in words.items() if at is not None)
