"""Where a node listens."""

from __future__ import annotations

Address = tuple[str, int]
"""An IP address and a port."""
