"""Loading the application that the workers run."""

from __future__ import annotations

import importlib

from .application import Application


class LoadError(Exception):
    """An application that cannot be loaded; the message names it and why."""


def load_application(spec: str) -> Application:
    """Import `module:attribute` and return its application, calling it if it is a factory.

    Raises:
        LoadError: There is no such module or attribute, it raised, or it is no application.
    """
    module_name, _, attribute = spec.partition(":")
    try:
        found: object = importlib.import_module(module_name)
        for name in attribute.split("."):
            found = getattr(found, name)
        if callable(found) and not isinstance(found, Application):
            found = found()
    except Exception as error:  # Someone else's code: whatever it raises is the answer.
        raise LoadError(f"cannot load {spec}: {type(error).__name__}: {error}") from error
    if not isinstance(found, Application):
        raise LoadError(f"{spec} is a {type(found).__name__}; want an Application")
    return found
