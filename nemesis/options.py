"""The options of a fault: checked one by one, so that an error names the one that is wrong."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
from msgspec import inspect as shapes

from ..histories.ops import Json
from .fault import Fault
from .spec import NemesisSpec

Options = TypeVar("Options", bound=msgspec.Struct)

_WORDS: Final = {
    shapes.BoolType: "true or false",
    shapes.StrType: "a text",
    shapes.DictType: "an object",
}


class BadOptionError(ValueError):
    """An option that a kind does not have, or a value that it does not take."""


def options_of(fault: Fault, shape: type[Options]) -> Options:
    """The options of a fault as a record, with defaults for what it leaves out.

    Raises:
        msgspec.ValidationError: They are not of that shape; `check_options` says so more clearly.
    """
    return msgspec.convert(fault.options, shape)


def check_options(spec: NemesisSpec, fault: Fault) -> None:
    """Refuse options that the fault's kind does not have or allow, as `BadOptionError`."""
    fields = fields_of(spec)
    for name, value in fault.options.items():
        where = f"fault {fault.id}: options.{name}"
        if name not in fields:
            known = f"it takes {', '.join(fields)}" if fields else "it takes none"
            raise BadOptionError(f"{where} is not an option of {spec.name}; {known}")
        assert spec.options is not None, spec
        try:
            msgspec.convert({name: value}, spec.options)
        except msgspec.ValidationError:
            told = msgspec.json.encode(value).decode()
            raise BadOptionError(
                f"{where} {told} is not allowed; it takes {in_words(fields[name].type)}"
            ) from None
    if spec.options is not None:
        try:
            msgspec.convert(fault.options, spec.options)
        except msgspec.ValidationError as error:
            raise BadOptionError(f"fault {fault.id}: options: {error}") from None


def fields_of(spec: NemesisSpec) -> dict[str, shapes.Field]:
    """The options that a kind has, by name."""
    if spec.options is None:
        return {}
    shape = shapes.type_info(spec.options)
    assert isinstance(shape, shapes.StructType), shape
    for field in shape.fields:
        assert not field.required, f"{spec.name}: option {field.name} has no default"
    return {field.encode_name: field for field in shape.fields}


def default_of(field: shapes.Field) -> Json:
    """The default of an option."""
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
    if isinstance(shape, shapes.ListType):
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
