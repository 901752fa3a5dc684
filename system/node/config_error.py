"""What is wrong with a configuration."""

from __future__ import annotations


class ConfigError(ValueError):
    """A configuration that no node may start with; the message names the value."""
