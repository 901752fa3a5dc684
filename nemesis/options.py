"""The options of a fault: checked one by one, so that an error names the one that is wrong."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from .fault import Fault
from .fields import fields_of, shown, wrong_field
from .spec import NemesisSpec

Options = TypeVar("Options", bound=msgspec.Struct)


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
    if not fault.options:
        return
    known = fields_of(spec.options)
    assert not any(field.required for field in known.values()), f"{spec.name}: without a default"
    for name, value in fault.options.items():
        if name not in known:
            takes = ", ".join(known) or "none"
            raise BadOptionError(
                f"fault {fault.id}: options.{name} {shown(value)} is not an option of "
                f"{spec.name}; it takes {takes}"
            )
    assert spec.options is not None, spec
    wrong = wrong_field(fault.options, spec.options)
    if wrong is not None:
        raise BadOptionError(f"fault {fault.id}: options.{wrong}")
    try:
        msgspec.convert(fault.options, spec.options)
    except msgspec.ValidationError as error:
        # Values that are each allowed and do not fit together.
        raise BadOptionError(f"fault {fault.id}: options: {error}") from None
